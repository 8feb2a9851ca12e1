//! The signals that ask a command to end: what it then does, it does in its own way.
//!
//! SIGINT and SIGTERM, and SIGHUP unless whoever started the process has it ignored, as `nohup`
//! does: such a process must outlive its terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for these signals; made before there is anything to tidy up.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Ending {
    /// `None` if the operating system passes no signals on.
    pub(crate) fn listen() -> Option<Ending> {
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        let terminate = signal(SignalKind::terminate()).ok()?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = match ignores_hang_up(&status) {
            Some(false) => signal(SignalKind::hangup()).ok(),
            // Where it cannot be seen it stays as it was.
            Some(true) | None => None,
        };
        Some(Ending { interrupt, terminate, hang_up })
    }

    /// Returns at the next of them, with what happened.
    pub(crate) async fn told(&mut self) -> &'static str {
        let Ending { interrupt, terminate, hang_up } = self;
        let hung_up = async {
            match hang_up {
                Some(hang_up) => drop(hang_up.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => "interrupted",
            _ = terminate.recv() => "told to terminate",
            () = hung_up => "its terminal is gone",
        }
    }
}

/// Whether SIGHUP, the first signal, is ignored, by `/proc/self/status`.
fn ignores_hang_up(status: &str) -> Option<bool> {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    Some(u64::from_str_radix(ignored.trim(), 16).ok()? & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_stays_ignored() {
        for (status, ignored) in [
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n", Some(true)),
            ("SigIgn:\t0000000000001000\n", Some(false)),
            ("Name:\tx\n", None),
        ] {
            assert_eq!(ignores_hang_up(status), ignored, "{status}");
        }
    }
}
