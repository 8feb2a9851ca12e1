//! Control records: what the log says about itself. Only their keys are known here; the values are
//! for the codec.

use crate::BatchBuilder;
use bytes::Bytes;
use quorate_base::{Epoch, Offset};

/// The kinds of control records, by Kafka's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlType {
    /// A transaction was aborted; never in a metadata log.
    Abort = 0,
    /// A transaction was committed; never in a metadata log.
    Commit = 1,
    /// First record of each epoch.
    LeaderChange = 2,
    /// First record of a snapshot.
    SnapshotHeader = 3,
    /// Last record of a snapshot.
    SnapshotFooter = 4,
    /// The protocol level from here on.
    KraftVersion = 5,
    /// The voter set from here on.
    KraftVoters = 6,
}

impl ControlType {
    /// What the key of a control record says: a version, then the type. `None` if it is not of that
    /// form or of no known type.
    pub fn of_key(key: &[u8]) -> Option<ControlType> {
        let [version, _, 0, kind] = key.first_chunk()? else { return None };
        // Later versions keep these four bytes; negative ones do not exist.
        match kind {
            _ if *version >= 0x80 => None,
            0 => Some(ControlType::Abort),
            1 => Some(ControlType::Commit),
            2 => Some(ControlType::LeaderChange),
            3 => Some(ControlType::SnapshotHeader),
            4 => Some(ControlType::SnapshotFooter),
            5 => Some(ControlType::KraftVersion),
            6 => Some(ControlType::KraftVoters),
            7.. => None,
        }
    }

    /// The key of a record of this type.
    pub fn key(self) -> [u8; 4] {
        [0, 0, 0, self as u8]
    }
}

/// A batch of one control record; `value` is encoded already.
pub fn control_batch(
    base: Offset,
    epoch: Epoch,
    timestamp_ms: i64,
    kind: ControlType,
    value: &[u8],
) -> Bytes {
    let mut batch = BatchBuilder::control(base, epoch, timestamp_ms);
    batch.record(Some(&kind.key()), Some(value), &[]);
    batch.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_written() {
        use ControlType::*;
        for kind in
            [Abort, Commit, LeaderChange, SnapshotHeader, SnapshotFooter, KraftVersion, KraftVoters]
        {
            assert_eq!(ControlType::of_key(&kind.key()), Some(kind));
        }
        assert_eq!(ControlType::of_key(&[0, 0, 0, 7]), None);
        assert_eq!(ControlType::of_key(&[0, 0, 0]), None);
        assert_eq!(ControlType::of_key(&[0xff, 0xff, 0, 2]), None);
    }
}
