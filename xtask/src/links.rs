//! Links between documents: each relative link leads to a file that exists, each `#anchor` to a
//! heading of it.

use crate::{File, Finding, Tree};

/// Links that lead nowhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| file.is("md"));
    documents.flat_map(|file| check_file(tree, file)).collect()
}

fn check_file(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in targets(&file.text) {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let is_outside = target.contains("://") || target.starts_with("mailto:");
        if is_outside {
            continue;
        }
        let path = match path {
            "" => Some(file.path.clone()),
            path => resolve(&file.path, path),
        };
        let found = path.filter(|path| path.is_empty() || tree.paths.contains(path));
        let Some(path) = found else {
            let what = format!("the link {target} leads to no file of this repository");
            findings.push(Finding::at(file, line, what));
            continue;
        };
        let has_heading = tree.get(&path).is_none_or(|to| anchors(&to.text).any(|a| a == anchor));
        if !anchor.is_empty() && !has_heading {
            let what = format!("the link {target} names a heading that {path} does not have");
            findings.push(Finding::at(file, line, what));
        }
    }
    findings
}

/// The path that `link` means in the document `from`; `None` when it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside of code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            // A link inside `code` is an example.
            let is_code = line[..at].matches('`').count() % 2 == 1;
            let Some((target, _)) = line[at + 2..].split_once(')') else { continue };
            if !is_code {
                found.push((number, target.split(' ').next().unwrap_or_default()));
            }
        }
    }
    found
}

/// What the headings of a document are called in links.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let tree =
            Tree::of(&[("docs/A.md", text), ("docs/B.md", "# The one\n"), ("README.md", "")]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_to_no_file_is_found() {
        for bad in ["C.md", "../docs/C.md", "../../etc/passwd", "B.md#other", "#other"] {
            let found = findings(&format!("# One\n\nSee [it]({bad}).\n"));
            assert_eq!(found.len(), 1, "{bad}");
            assert!(found[0].starts_with("docs/A.md:3: the link"), "{found:?}");
        }
    }

    #[test]
    fn links_to_files_headings_and_other_sites_are_fine() {
        for good in ["B.md", "./B.md#the-one", "../README.md", "#one", "https://a.b/c", "../docs"] {
            let tree_has_folder = good == "../docs";
            let found = findings(&format!("# One\n\nSee [it]({good}).\n"));
            assert_eq!(found.is_empty(), !tree_has_folder, "{good}: {found:?}");
        }
    }

    #[test]
    fn examples_in_code_are_not_links() {
        assert_eq!(findings("`[a](b)`\n```\n[a](b)\n```\n"), Vec::<String>::new());
    }
}
