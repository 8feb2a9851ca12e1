//! Nodes of ours whose log Kafka's raft benchmark can read: its records have values and no keys,
//! and no headers, which is all that program understands.
//!
//! The binary's own nodes serve the key-value machine, whose records have keys, so this process
//! runs the nodes itself, or is one ([`serve`]) where a node must be killed.

use crate::scenario::Failure;
use quorate::{
    Answer, Batch, Config, Corrupt, Embedded, Image, Machine, Offset, OffsetEpoch, Operation,
    OwnedRecord, Proposal, Records, Request, Time, settings,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;

/// A hash of all values and of where each lies in the log.
#[derive(Default)]
pub struct Values(u64);

impl Machine for Values {
    type Query = ();
    type Reply = ();

    fn fresh(&self) -> Values {
        Values::default()
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
            (self.0, record.offset.0, record.key, record.value).hash(&mut hasher);
            self.0 = hasher.finish();
        }
    }

    fn query(&self, (): &()) {}

    fn digest(&self) -> u64 {
        self.0
    }

    fn snapshot(&self) -> Image {
        let hash = self.0.to_be_bytes().to_vec();
        Image::new(std::iter::once(OwnedRecord::new(Offset(0), "hash".into(), hash.into())))
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        let hash = records.next().and_then(|record| record.value?.as_ref().try_into().ok());
        let corrupt = Corrupt { offset: at.offset, what: "a hash has eight bytes" };
        self.0 = u64::from_be_bytes(hash.ok_or(corrupt)?);
        Ok(())
    }
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
