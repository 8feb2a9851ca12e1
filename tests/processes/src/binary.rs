//! Where the binary `quorate` is: built on the spot, so that no test ever runs yesterday's.
//!
//! `CARGO_BIN_EXE_quorate` exists only in tests of the package that has the binary, and cargo does
//! not build binaries of other packages for a test; so cargo is asked, which costs a blink when
//! there is nothing to do. `QUORATE_BIN` names another binary to use instead.

use crate::Error;
use std::path::PathBuf;
use std::process::Command;

/// How the binary is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// With all checks on.
    Dev,
    /// As users run it.
    Release,
}

/// Builds the binary, unless `QUORATE_BIN` names one, and says where it is.
pub fn binary(profile: Profile) -> Result<PathBuf, Error> {
    if let Some(given) = std::env::var_os("QUORATE_BIN") {
        return Ok(given.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // All packages are selected, so that dependencies have the features they have in a test of all.
    build.args(["build", "--workspace", "--bin", "quorate", "--message-format", "json"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile == Profile::Release {
        build.arg("--release");
    }
    let output = match build.output() {
        Ok(output) => output,
        Err(error) => return Err(Error::Build { output: error.to_string() }),
    };
    let built = executable(&String::from_utf8_lossy(&output.stdout));
    match built.filter(|_| output.status.success()) {
        Some(path) => Ok(path),
        None => Err(Error::Build { output: String::from_utf8_lossy(&output.stderr).into_owned() }),
    }
}

/// Finds the binary among cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut paths = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"] == "quorate";
        message["executable"].as_str().filter(|_| named).map(PathBuf::from)
    });
    paths.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_other_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"bytes"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"quorate"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"quorate"},"executable":"/x/quorate"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/x/quorate")));
        assert_eq!(executable(""), None);
    }
}
