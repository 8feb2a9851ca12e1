//! A place for mounts that nobody else sees: they go with the processes that use them, however
//! those end, so that a run that is killed leaves nothing mounted in its directory.

use crate::scenario::{Failure, ensure, need};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set for the program that runs in its own place.
const INSIDE: &str = "QUORATE_INTEROP_MOUNTS";

/// Starts this program again where its mounts are its own, in place of this process, unless it was
/// started so.
pub fn enter() -> Result<(), Failure> {
    need("mount", "--version", "util-linux")?;
    need("unshare", "--version", "util-linux")?;
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let own = ["--mount", "--propagation", "private", "--"];
    let probe = Command::new("unshare").args(own).arg("true").output()?;
    ensure(probe.status.success(), || {
        let said = String::from_utf8_lossy(&probe.stderr).trim().to_owned();
        format!("no file system can be mounted: {said}; run this as root")
    })?;
    let mut again = Command::new("unshare");
    again.args(own).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    Err(again.env(INSIDE, "1").exec().into())
}
