//! Your own machine under faults: a counter on three to seven nodes that crash, lose power, forget
//! and are cut off, and whose answers must be those of a single counter.
//!
//! `cargo run --release -p quorate-sim --example own_machine -- 0 --seeds 50` runs 50 worlds. What
//! follows the `--` is what `sim` takes: docs/TESTING.md.

use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch, Rng, Time};
use quorate_machine::{
    Answer, Batch, Corrupt, Image, Machine, OwnedRecord, Proposal, Records, Request, Sessioned,
};
use quorate_sim::linear::Model;
use quorate_sim::{Said, Subject, command, run_own};
use std::process::ExitCode;

/// What you test: any machine. This one counts the records of the log.
#[derive(Default)]
pub struct Counter(u64);

impl Machine for Counter {
    type Query = ();
    type Reply = u64;

    fn fresh(&self) -> Counter {
        Counter::default()
    }

    fn view(&self) -> Counter {
        Counter(self.0)
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.0 += batch.records.len() as u64;
    }

    fn query(&self, _query: &()) -> u64 {
        self.0
    }

    fn digest(&self) -> u64 {
        self.0
    }

    fn snapshot(&self) -> Image {
        let value = Bytes::copy_from_slice(&self.0.to_be_bytes());
        let record = OwnedRecord::new(Offset::ZERO, Bytes::from_static(b"count"), value);
        Image::new(std::iter::once(record))
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        let value = records.next().and_then(|record| record.value?.first_chunk().copied());
        self.0 =
            u64::from_be_bytes(value.ok_or(Corrupt { offset: at.offset, what: "eight bytes" })?);
        Ok(())
    }

    fn propose(&mut self, _now: Time, _at: Offset, request: &Request, out: &mut Proposal) {
        let quorate_machine::Operation::Write(body) = &request.operation else {
            return out.answer(Answer::Refused(Bytes::new()));
        };
        out.record(Some(b"add"), Some(body));
        out.answer(Answer::Done(Bytes::new()));
    }
}

/// The test itself: what clients do, and a model that says which answers make sense.
pub struct Counting;

impl Model for Counting {
    type State = u64;
    type Call = Said<(), u64>;

    fn after(&self, count: &u64, said: &Self::Call) -> Option<u64> {
        match said {
            Said::Wrote { .. } => Some(count + 1),
            Said::Read { reply, .. } => (reply == count).then_some(*count),
        }
    }

    fn only_looks(&self, said: &Self::Call) -> bool {
        matches!(said, Said::Read { .. })
    }
}

impl Subject for Counting {
    type Machine = Sessioned<Counter>;

    fn machine(&self) -> Sessioned<Counter> {
        Sessioned::new(Counter::default())
    }

    fn write(&self, rng: &mut Rng) -> Bytes {
        Bytes::copy_from_slice(&rng.next().to_be_bytes())
    }

    fn read(&self, _rng: &mut Rng) {}

    fn initial(&self) -> u64 {
        0
    }
}

fn main() -> ExitCode {
    command("-p quorate-sim --example own_machine", |plan, how| run_own(Counting, plan, how))
}
