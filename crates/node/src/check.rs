//! What checkers may see of a replica: pictures and invariants, for the simulator and for tests.
//! The server never calls these, and none changes anything.

use crate::replica::Replica;
use quorate_base::Offset;
use quorate_log::Log;
use quorate_machine::Machine;
use quorate_raft::View;

impl<M: Machine> Replica<M> {
    /// The protocol's picture of itself.
    pub fn view(&self) -> View<'_> {
        self.quorum.view()
    }

    /// The log's marks.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether this node judges requests: it leads, and has applied all that earlier leaders left.
    pub fn serves(&self) -> bool {
        self.leading.serving.is_some()
    }

    /// End of what the machine holds.
    pub fn applied(&self) -> Offset {
        self.applied.upto
    }

    /// All that must hold between two turns; looks at everything.
    ///
    /// # Panics
    /// If something does not hold; the message has the values.
    pub fn check(&self) {
        self.quorum.check();
        self.log.check();
        let view = self.quorum.view();
        assert_eq!(view.end, self.log.end(), "the protocol's end and the log's");
        assert_eq!(view.start, self.log.start(), "the protocol's start and the log's");
        assert_eq!(view.epochs, self.log.epochs().entries(), "the protocol's epochs and the log's");
        let (applied, commit) = (self.applied.upto, self.applied.commit);
        let loading = self.applied.loading();
        assert!(!self.serves() || loading.is_none(), "a leader loads {loading:?}");
        assert!(applied <= commit, "applied {applied} of {commit} committed");
        assert!(commit <= view.end, "committed {commit} beyond the end {}", view.end);
    }
}
