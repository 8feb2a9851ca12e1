//! The key-value store: a key's value and its version, the offset of the record that set it.
//!
//! A put logs the key and the value as they are, a delete logs a null value, so that any Kafka
//! consumer reads the log. Keys that begin with byte 0x00 are reserved: records under them are kept
//! like all others, so that state, digest and snapshots hold whatever a newer version logs there,
//! and are never shown. Requests are [`Write`]s, answers [`Outcome`]s, questions [`Query`]s.

mod limits;
mod outcome;
mod query;
mod write;

pub use limits::{
    Invalid, MAX_KEY_BYTES, MAX_LIST_BYTES, MAX_LIST_KEYS, MAX_VALUE_BYTES, check_key, check_value,
};
pub use outcome::{BadOutcome, Outcome};
pub use query::{Found, Item, Query, Reply, Stat};
pub use write::{Condition, Write};

use crate::leaves::Leaves;
use crate::tail::Tail;
use crate::{
    Answer, Batch, Corrupt, Image, Machine, Operation, Proposal, Records, Request, SessionRefusal,
};
use bytes::Bytes;
use limits::is_reserved;
use quorate_base::{Epoch, Offset, OffsetEpoch, Time};

const LEADER: &str = "only a leader is asked to propose";

/// The store. Wrap it in [`crate::Sessioned`] to have repeated writes applied once.
#[derive(Default)]
pub struct Kv {
    state: Leaves,
    /// Reserved keys in `state`.
    reserved_keys: usize,
    /// Records without a key that were met in the log and passed over: they name nothing here.
    keyless_records: u64,
    /// `Some` while leading.
    tail: Option<Tail<()>>,
}

impl Kv {
    /// An empty store.
    pub fn new() -> Kv {
        Kv::default()
    }

    /// Keys that this leader proposed to change and has not applied yet; 0 on others.
    pub fn pending(&self) -> usize {
        self.tail.as_ref().map_or(0, Tail::len)
    }

    /// What a write at this offset leads to, on the tail. Changes nothing.
    fn judge(&self, at: Offset, write: &Write<'_>) -> Outcome {
        let current = match self.tail.as_ref().expect(LEADER).get(write.key()) {
            Some(pending) => pending.value.map(|()| pending.offset),
            None => self.state.get(write.key()).map(|entry| entry.version),
        };
        if !write.condition().holds(current) {
            return Outcome::ConditionFailed { current };
        }
        match (write, current) {
            (Write::Put { .. }, previous) => Outcome::Written { version: at, previous },
            (Write::Delete { .. }, Some(previous)) => Outcome::Deleted { at, previous },
            (Write::Delete { .. }, None) => Outcome::Absent,
        }
    }

    fn count(&mut self, key: &[u8], put: bool, changed: bool) {
        if changed && is_reserved(key) {
            match put {
                true => self.reserved_keys += 1,
                false => self.reserved_keys -= 1,
            }
        }
    }
}

impl Machine for Kv {
    type Query = Query;
    type Reply = Reply;

    fn fresh(&self) -> Kv {
        Kv::default()
    }

    fn view(&self) -> Kv {
        Kv { state: self.state.clone(), tail: None, ..*self }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        for record in batch.records {
            let Some(key) = record.key else {
                self.keyless_records += 1;
                continue;
            };
            let changed = match record.value {
                Some(value) => self.state.put(key, value, record.offset),
                None => self.state.remove(key),
            };
            self.count(key, record.value.is_some(), changed);
            if let Some(tail) = &mut self.tail {
                tail.applied(key, record.offset);
            }
        }
    }

    fn query(&self, query: &Query) -> Reply {
        match query {
            Query::Get { key } => Reply::Get(query::get(&self.state, key)),
            Query::List { prefix, after, limit } => {
                query::list(&self.state, prefix, after.as_deref(), *limit)
            }
            Query::Stat => Reply::Stat(Stat {
                keys: self.state.len() - self.reserved_keys,
                bytes: self.state.bytes(),
                reserved_keys: self.reserved_keys,
                keyless_records: self.keyless_records,
            }),
        }
    }

    fn digest(&self) -> u64 {
        self.state.digest()
    }

    fn snapshot(&self) -> Image {
        self.state.image()
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        assert!(self.tail.is_none(), "a leader never goes back to a snapshot");
        *self = Kv::new();
        for record in records {
            self.state.restore(at, &record)?;
            self.count(record.key.as_deref().unwrap_or_default(), true, true);
        }
        Ok(())
    }

    fn lead(&mut self, _now: Time, since: Option<(Epoch, Offset)>) {
        self.tail = since.map(|_| Tail::new());
    }

    fn propose(&mut self, _now: Time, at: Offset, request: &Request, out: &mut Proposal) {
        let bytes = match &request.operation {
            Operation::Write(bytes) => bytes,
            Operation::OpenSession { .. }
            | Operation::RenewSession(_)
            | Operation::CloseSession(_) => {
                return out.answer(Answer::Session(SessionRefusal::Unsupported));
            }
        };
        let write = match Write::decode(bytes) {
            Ok(write) => write,
            Err(invalid) => return out.answer(Outcome::Invalid(invalid).answer()),
        };
        let outcome = self.judge(at, &write);
        if outcome.changes() {
            out.record(Some(write.key()), write.value());
            let key = Bytes::copy_from_slice(write.key());
            let tail = self.tail.as_mut().expect(LEADER);
            tail.put(key, at, write.value().map(|_| ()));
        }
        out.answer(outcome.answer());
    }
}
