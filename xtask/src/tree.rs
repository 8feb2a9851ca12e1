//! The text of the repository as a value: what the rules read.
//!
//! Holds every text file that people write; leaves out what is built, fetched or binary.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Kinds of files that are read.
const KINDS: [&str; 6] = ["rs", "md", "toml", "txt", "sh", "yml"];
/// Folders that hold nothing people wrote.
const SKIPPED: [&str; 3] = ["target", "data", ".git"];

/// One text file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl File {
    /// A file as a value.
    pub fn new(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    /// Whether the name ends in `.kind`.
    pub fn is(&self, kind: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == kind)
    }

    /// The crate's folder name if this is source of one of `crates/*`, and the path below its
    /// `src/`.
    pub fn source(&self) -> Option<(&str, &str)> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        let below = rest.strip_prefix("src/")?;
        self.is("rs").then_some((name, below))
    }

    /// Whether this is a test and no part of a library or program.
    pub fn is_test(&self) -> bool {
        let mut below = self.path.split('/');
        below.clone().any(|part| part == "tests" || part == "benches")
            || below.next_back() == Some("tests.rs")
    }
}

/// All text files of the repository.
#[derive(Clone, Default, Debug)]
pub struct Tree {
    /// In the order of their paths.
    pub files: Vec<File>,
    /// Paths of all files and folders, text or not: what a link may point to.
    pub paths: Vec<String>,
}

impl Tree {
    /// The repository that this crate is a part of.
    pub fn read() -> io::Result<Tree> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut tree = Tree::default();
        tree.add(&root, Path::new(""))?;
        tree.files.sort_by(|one, other| one.path.cmp(&other.path));
        tree.paths.sort();
        Ok(tree)
    }

    /// A tree of these files, for tests of rules.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Tree { files, paths }
    }

    /// The file at this path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Puts a changed file back in its place.
    pub fn write(file: &File) -> io::Result<()> {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&file.path), &file.text)
    }

    fn add(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path: PathBuf = below.join(&name);
            let shown = path.to_string_lossy().replace('\\', "/");
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            self.paths.push(shown.clone());
            if entry.file_type()?.is_dir() {
                self.add(root, &path)?;
            } else if KINDS.iter().any(|kind| name.ends_with(&format!(".{kind}")))
                || shown.starts_with(".ci/")
            {
                self.files.push(File { path: shown, text: fs::read_to_string(root.join(&path))? });
            }
        }
        Ok(())
    }
}
