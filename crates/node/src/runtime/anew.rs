//! Why a node begins anew in its process, and what is done to its files before it does.

use super::event_loop::Fatal;
use crate::config::Config;
use crate::start::log_options;
use quorate_log::{OsDisk, start_over};
use tracing::{error, warn};

/// Why.
pub(super) enum Anew {
    /// Files are damaged, and others have what was in them; this says what is.
    Damaged(String),
    /// The log may hold what was deleted long ago [P82].
    StartOver,
}

impl Anew {
    /// To be called when no thread works on the files any more.
    pub(super) fn prepare(&self, config: &Config, files: &OsDisk) -> Result<(), Fatal> {
        match self {
            Anew::Damaged(why) => {
                error!(
                    why,
                    "files of this node are damaged: it begins anew, and reads all of them"
                );
                Ok(())
            }
            Anew::StartOver => {
                let done = start_over(&mut files.clone(), &log_options(config));
                let upto = done.map_err(|error| {
                    Fatal(format!(
                        "the log is to be copied anew, since deletions of records that it holds are gone \
                         everywhere, and it cannot be emptied: {error}"
                    ))
                })?;
                warn!(
                    %upto,
                    "this node was away while deletions were cleaned away of records that it holds: its log \
                     is empty now and is copied anew; until it is back there the node does not vote"
                );
                Ok(())
            }
        }
    }
}
