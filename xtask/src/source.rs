//! Rust source without what the compiler ignores: enough of a lexer for rules that look for words.
//!
//! [`code`] blanks comments and literals, [`without_literals`] only literals, [`without_tests`]
//! test modules. All keep every line where it was, so that findings name the right one.

/// The text with comments, string literals and character literals blanked.
pub fn code(text: &str) -> String {
    blank(text, true)
}

/// The text with string literals and character literals blanked.
pub fn without_literals(text: &str) -> String {
    blank(text, false)
}

fn blank(text: &str, comments_too: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment(&chars, at);
        let keep = end.is_none() || (chars[at] == '/' && !comments_too);
        let end = end.unwrap_or(at + 1);
        let blanked = |c: &char| if keep || *c == '\n' { *c } else { ' ' };
        out.extend(chars[at..end].iter().map(blanked));
        at = end;
    }
    out
}

/// The end of the comment or literal that begins here, if one does.
fn literal_or_comment(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |c| c == '\n')),
        '/' if next == Some('*') => Some(block_comment(chars, at)),
        '"' => Some(quoted(chars, at, '"')),
        '\'' => character(chars, at),
        'r' if !continues_word(chars, at) => raw_string(chars, at),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, is_end: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|c| is_end(*c)).map_or(chars.len(), |found| from + found)
}

fn continues_word(chars: &[char], at: usize) -> bool {
    // `br"` and `cr"` begin with another letter and are raw strings all the same.
    let Some(before) = at.checked_sub(1).map(|before| chars[before]) else { return false };
    let prefix = matches!(before, 'b' | 'c');
    let longer = at.checked_sub(2).is_some_and(|before| is_word(chars[before]));
    is_word(before) && (!prefix || longer)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    chars.len()
}

fn quoted(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// A character literal, or `None` for a lifetime.
fn character(chars: &[char], at: usize) -> Option<usize> {
    let closes = chars.get(at + 2) == Some(&'\'') || chars.get(at + 1) == Some(&'\\');
    closes.then(|| quoted(chars, at, '\''))
}

fn raw_string(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let open = from + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut at = open + 1;
    while at < chars.len() {
        let closed = chars[at] == '"'
            && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        if closed {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

/// Blanks the items under `#[cfg(test)]`. Takes what [`code`] returns.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_string();
    while let Some(from) = out.find(MARK) {
        let body = out[from + MARK.len()..].find(['{', ';']).map(|at| from + MARK.len() + at);
        let end = match body {
            Some(at) if out[at..].starts_with('{') => closing_brace(&out, at),
            Some(at) => at + 1,
            None => out.len(),
        };
        let blank: String =
            out[from..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(from..end, &blank);
    }
    out
}

/// One past the brace that closes the one at `open`, in bytes. Takes what [`code`] returns.
pub fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return open + at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Words and single signs, each with its line from 1. Takes what [`code`] returns.
pub fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let end = match is_word(first) {
                true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            found.push((index + 1, &rest[..end]));
            rest = rest[end..].trim_start();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text = "let a = \"HashMap \\\" x\"; // HashMap\n/* HashMap /* \n */ */ let b = 'x';\n";
        let code = code(text);
        assert_eq!(code.lines().count(), 3);
        assert!(!code.contains("HashMap") && code.contains("let a =") && code.contains("let b ="));
    }

    #[test]
    fn raw_strings_end_where_they_say_and_words_with_an_r_are_words() {
        let code =
            code("var(r#\"a \" HashMap\"#, br\"HashSet\", 'a', for_r(\"x\")); fn f<'a>() {}");
        assert!(!code.contains("Hash"), "{code}");
        assert!(code.contains("var(") && code.contains("for_r(") && code.contains("fn f<'a>() {}"));
    }

    #[test]
    fn test_modules_are_blanked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { x }\n}\nfn c() {}\n";
        let left = without_tests(text);
        assert!(left.contains("fn a") && left.contains("fn c") && !left.contains("fn b"));
        assert_eq!(left.lines().count(), text.lines().count());
        assert!(!without_tests("#[cfg(test)]\nmod tests;\nfn c() {}").contains("mod tests"));
    }
}
