//! What a client was told is in the log: an acknowledged write is committed when it is acknowledged
//! and still there at the end; one that was "not done" never appears; a read shows a state that the
//! log had.

use super::Failure;
use crate::book::Book;
use crate::history::{Kind, Op, Seen};
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::Batches;
use std::collections::BTreeMap;

const NAME: &str = "acknowledged_never_lost";

/// The committed records, by the keys of this world.
pub(crate) struct AcknowledgedNeverLost {
    /// Of each key: the offset of each of its records and its value, by offset.
    records: BTreeMap<Bytes, Vec<(Offset, Option<Bytes>)>>,
}

/// The name of a key in the store.
pub(crate) fn key_name(key: u32) -> Bytes {
    Bytes::from(format!("k{key}"))
}

impl AcknowledgedNeverLost {
    /// From all that is committed.
    pub fn new(ledger: &Book) -> AcknowledgedNeverLost {
        let mut records: BTreeMap<Bytes, Vec<(Offset, Option<Bytes>)>> = BTreeMap::new();
        for entry in &ledger.entries {
            for batch in Batches::checked_before(entry.bytes.clone()) {
                if batch.control() {
                    continue;
                }
                for record in batch.records().flatten() {
                    let Some(key) = record.key else { continue };
                    let value = record.value.map(Bytes::copy_from_slice);
                    let key = Bytes::copy_from_slice(key);
                    records.entry(key).or_default().push((record.offset, value));
                }
            }
        }
        AcknowledgedNeverLost { records }
    }

    /// An answer that was just given must rest on committed records alone.
    pub fn answered(op: &Op, committed: Offset) -> Result<(), Failure> {
        let needs = match &op.seen {
            Seen::Written { version } | Seen::Deleted { at: version } => *version + 1,
            Seen::Failed { current: Some(version) } => *version + 1,
            Seen::Found { end, .. } => *end,
            Seen::Failed { current: None } | Seen::Absent | Seen::Unknown | Seen::NotDone => {
                return Ok(());
            }
        };
        match needs <= committed {
            true => Ok(()),
            false => Err(Failure::new(
                NAME,
                format!("{op:?} was answered, but only {committed} is committed anywhere"),
            )),
        }
    }

    /// Judges one operation against all that was committed by the end.
    pub fn see(&self, op: &Op) -> Result<(), Failure> {
        let failure = |what: &str| Err(Failure::new(NAME, format!("{op:?}: {what}")));
        let records = self.records.get(&key_name(op.key)).map_or(&[][..], Vec::as_slice);
        let at = |offset: Offset| {
            records.iter().find(|(found, _)| *found == offset).map(|(_, value)| value)
        };
        let put = match &op.kind {
            Kind::Put { value, .. } => Some(value),
            Kind::Delete { .. } | Kind::Get | Kind::Peek => None,
        };
        match &op.seen {
            Seen::Written { version } if at(*version).is_some_and(|v| v.as_ref() == put) => {}
            Seen::Written { .. } => return failure("its record is not in the log"),
            Seen::Deleted { at: offset } if at(*offset) == Some(&None) => {}
            Seen::Deleted { .. } => return failure("its tombstone is not in the log"),
            Seen::NotDone => {
                if put.is_some() && records.iter().any(|(_, value)| value.as_ref() == put) {
                    return failure("it is in the log, though its client was told it is not");
                }
            }
            Seen::Found { found, end } => {
                let then = records.iter().take_while(|(offset, _)| offset < end).last();
                let then = then.and_then(|(offset, value)| Some((value.clone()?, *offset)));
                if then != *found {
                    return failure(&format!("the log below {end} says {then:?}"));
                }
            }
            Seen::Failed { .. } | Seen::Absent | Seen::Unknown => {}
        }
        if let Some(value) = put {
            let times = records.iter().filter(|(_, v)| v.as_ref() == Some(value)).count();
            if times > 1 {
                return failure(&format!("it was done {times} times"));
            }
        }
        Ok(())
    }
}
