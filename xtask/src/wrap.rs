//! Breaks comments that are too wide anew, which rustfmt does not do.
//!
//! Works on paragraphs: one that fits is left as it is. Tables, code blocks, headings and lists
//! keep their lines; `code` in backticks is not broken. Never touches anything but comments.

use crate::shape::WIDTH;

/// The text with each comment paragraph that has a line beyond [`WIDTH`] broken anew.
pub fn wrap(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut block: Option<Block> = None;
    for line in text.lines() {
        let comment = Comment::read(line);
        let continues = matches!((&block, &comment), (Some(b), Some(c)) if b.margin == c.margin);
        if !continues && let Some(done) = block.take() {
            done.print(&mut out);
        }
        match comment {
            Some(comment) => block
                .get_or_insert_with(|| Block { margin: comment.margin.clone(), lines: Vec::new() })
                .lines
                .push(comment.text),
            None => put(&mut out, line),
        }
    }
    if let Some(done) = block {
        done.print(&mut out);
    }
    out
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// A line that is nothing but a comment.
struct Comment {
    /// What stands before the text: spaces and the slashes.
    margin: String,
    /// Without the space after the margin.
    text: String,
}

impl Comment {
    fn read(line: &str) -> Option<Comment> {
        let slashes = line.find(|c: char| c != ' ')?;
        let mark = ["///", "//!", "//"].into_iter().find(|m| line[slashes..].starts_with(m))?;
        let (margin, text) = line.split_at(slashes + mark.len());
        let text = match text.strip_prefix(' ') {
            Some(text) => text,
            None if text.is_empty() => "",
            None => return None,
        };
        Some(Comment { margin: margin.into(), text: text.into() })
    }
}

/// Comment lines that follow each other under one margin.
struct Block {
    margin: String,
    lines: Vec<String>,
}

impl Block {
    fn print(self, out: &mut String) {
        let (mut paragraph, mut in_code) = (Vec::new(), false);
        for line in &self.lines {
            let fence = line.trim_start().starts_with("```");
            in_code ^= fence;
            let keeps = fence
                || in_code
                || line.is_empty()
                || ["|", "#", "    ", "---"].iter().any(|begin| line.starts_with(begin));
            if keeps || bullet(line) > 0 {
                self.paragraph(&paragraph, out);
                paragraph.clear();
            }
            match keeps {
                true => self.line(line, out),
                false => paragraph.push(line.as_str()),
            }
        }
        self.paragraph(&paragraph, out);
    }

    fn line(&self, text: &str, out: &mut String) {
        put(out, format!("{} {text}", self.margin).trim_end());
    }

    fn paragraph(&self, lines: &[&str], out: &mut String) {
        let room = WIDTH - self.margin.chars().count() - 1;
        if lines.iter().all(|line| line.chars().count() <= room) {
            lines.iter().for_each(|line| self.line(line, out));
            return;
        }
        let indent = bullet(lines[0]);
        let (first, rest) = (&lines[0][..indent], " ".repeat(indent));
        let text: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let text = text.join(" ");
        let mut row = String::new();
        let mut rows = 0;
        for word in words(text[first.trim_start().len()..].trim_start()) {
            let fits = row.chars().count() + 1 + word.chars().count() + indent <= room;
            if !row.is_empty() && !fits {
                let begin = if rows == 0 { first } else { &rest };
                self.line(&format!("{begin}{row}"), out);
                row.clear();
                rows += 1;
            }
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        let begin = if rows == 0 { first } else { &rest };
        self.line(&format!("{begin}{row}"), out);
    }
}

/// How far the text of a list's item is indented; 0 for other lines.
fn bullet(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    let item = &line[indent..];
    let mark = match item.find(' ') {
        Some(mark) if item.starts_with(['*', '-']) && mark == 1 => mark,
        Some(mark) if item[..mark].strip_suffix('.').is_some_and(is_number) => mark,
        Some(_) | None => return 0,
    };
    indent + mark + 1
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// Words, with what stands in backticks as one.
fn words(text: &str) -> Vec<&str> {
    let (mut found, mut begin, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        quoted ^= c == '`';
        if c == ' ' && !quoted {
            found.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    found.push(&text[begin..]);
    found.retain(|word| !word.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        let text = "//! One\n//! two.\n\n/// - three\n///\n/// four\nfn f() {} // five\n";
        assert_eq!(wrap(text), text);
    }

    #[test]
    fn a_wide_paragraph_is_broken_and_its_neighbours_are_not() {
        let long = "word ".repeat(30);
        let text = format!("    /// Short.\n    ///\n    /// {long}\n    /// end.\n    f();\n");
        let wrapped = wrap(&text);
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH), "{wrapped}");
        assert!(wrapped.starts_with("    /// Short.\n    ///\n    /// word word"));
        assert!(wrapped.ends_with("word end.\n    f();\n"), "{wrapped}");
        assert_eq!(wrapped.matches("word").count(), 30);
        assert_eq!(wrap(&wrapped), wrapped);
    }

    #[test]
    fn items_of_lists_hang_and_code_stays_whole() {
        let text = format!("// * {} `{}` end\n// * next\n", "a".repeat(80), "b c ".repeat(10));
        let wrapped = wrap(&text);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines[1], format!("//   `{}` end", "b c ".repeat(10)));
        assert_eq!((lines.len(), lines[2]), (3, "// * next"));
    }

    #[test]
    fn tables_and_code_blocks_keep_their_lines() {
        let row = format!("/// | {} |\n", "x ".repeat(60));
        let code = format!("/// ```\n/// {}\n/// ```\n", "y ".repeat(60).trim_end());
        assert_eq!(wrap(&row), row);
        assert_eq!(wrap(&code), code);
    }
}
