//! Nodes of ours whose log and snapshots Kafka's raft benchmark can read: their records have values
//! and no keys, and no headers, which is all that program understands.
//!
//! The binary's own nodes serve the key-value machine, whose records have keys, so this process
//! runs the nodes itself, or is one ([`serve`]) where a node must be killed.

use crate::scenario::Failure;
use bytes::Bytes;
use quorate::{
    Answer, Batch, Config, Corrupt, Embedded, Image, Machine, Offset, OffsetEpoch, Operation,
    OwnedRecord, Proposal, Records, Request, Time, settings,
};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;

/// Values that are kept: enough for snapshots of several pieces and batches.
const KEPT: usize = 2_000;

/// A hash of all values and of where each lies in the log, and the newest of the values.
#[derive(Default)]
pub struct Values {
    hash: u64,
    newest: VecDeque<Bytes>,
}

impl Machine for Values {
    const KEEPS_OFFSETS: bool = false;
    type Query = ();
    type Reply = ();

    fn fresh(&self) -> Values {
        Values::default()
    }

    fn view(&self) -> Values {
        Values { hash: self.hash, newest: self.newest.clone() }
    }

    fn propose(&mut self, _: Time, _: Offset, request: &Request, out: &mut Proposal) {
        match &request.operation {
            Operation::Write(value) => {
                out.record(None, Some(value));
                out.answer(Answer::Done("written".into()));
            }
            Operation::OpenSession { .. }
            | Operation::RenewSession(_)
            | Operation::CloseSession(_) => {
                out.answer(Answer::Refused("there are no sessions".into()));
            }
        }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        for record in batch.records {
            // The same in every process: this hasher has no random key.
            let mut hasher = DefaultHasher::new();
            (self.hash, record.offset.0, record.key, record.value).hash(&mut hasher);
            self.hash = hasher.finish();
            self.newest.push_back(Bytes::copy_from_slice(record.value.unwrap_or_default()));
        }
        let spare = self.newest.len().saturating_sub(KEPT);
        self.newest.drain(..spare);
    }

    fn query(&self, (): &()) {}

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.hash, &self.newest).hash(&mut hasher);
        hasher.finish()
    }

    fn snapshot(&self) -> Image {
        let hash = Bytes::from(format!("{:016x}", self.hash));
        let values = std::iter::once(hash).chain(self.newest.clone());
        Image::new(values.map(keyless))
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        let corrupt = |what| Corrupt { offset: at.offset, what };
        let first = records.next().and_then(|record| record.value);
        let text = first.as_deref().and_then(|hash| std::str::from_utf8(hash).ok());
        let hash = text.and_then(|text| u64::from_str_radix(text, 16).ok());
        self.hash = hash.ok_or(corrupt("a hash is a number in hexadecimal"))?;
        let values: Option<_> = records.map(|record| record.value).collect();
        self.newest = values.ok_or(corrupt("a value is null"))?;
        Ok(())
    }
}

/// Counts the records of a log that others write, and of the snapshot before it. Writes nothing.
#[derive(Default)]
pub struct Anything(u64);

impl Machine for Anything {
    const KEEPS_OFFSETS: bool = false;

    type Query = ();
    type Reply = ();

    fn fresh(&self) -> Anything {
        Anything::default()
    }

    fn view(&self) -> Anything {
        Anything(self.0)
    }

    fn propose(&mut self, _: Time, _: Offset, _: &Request, out: &mut Proposal) {
        out.answer(Answer::Refused("this only listens".into()));
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.0 += batch.records.len() as u64;
    }

    fn query(&self, (): &()) {}

    fn digest(&self) -> u64 {
        self.0
    }

    fn snapshot(&self) -> Image {
        Image::new(std::iter::once(keyless(self.0.to_string().into())))
    }

    fn restore(&mut self, _: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        self.0 = records.count() as u64;
        Ok(())
    }
}

/// A record as Kafka's benchmark knows them.
fn keyless(value: Bytes) -> OwnedRecord {
    OwnedRecord { key: None, ..OwnedRecord::new(Offset(0), Bytes::new(), value) }
}

/// What a property file says.
pub fn config(file: &Path) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(file)?;
    match settings::read(&text, &[]) {
        Ok(settings) => Ok(settings.config),
        Err(problems) => Err(Failure(format!("{}: {problems:?}", file.display()))),
    }
}

/// This process is a node until its standard input closes, as it does when its parent ends, or
/// until it is killed.
pub fn serve(file: &Path) -> Result<(), Failure> {
    let _node = Embedded::start(config(file)?, Values::default())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
