//! What became of a log since somebody looked last: the machine of an observer, and the line of
//! changes behind it.
//!
//! The machine never waits for who reads: the newest changes are kept up to a limit, and who comes
//! too late for some is told which.

use bytes::Bytes;
use quorate::{
    Batch, Corrupt, Image, Machine, Offset, OffsetEpoch, Proposal, Records, Request, Time,
};
use quorate_machine::kafka::{Mirror, Picture};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// So many bytes of changes are kept for a reader.
const KEPT_BYTES: usize = 32 << 20;
/// What a change costs besides its key and value.
const OWN_BYTES: usize = 128;

/// One committed record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) offset: u64,
    pub(super) epoch: u32,
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A record.
    Change(Change),
    /// Records from one offset to below the other are not shown: they came as a snapshot, or faster
    /// than they were read.
    Gap { from: u64, end: u64 },
}

#[derive(Default)]
struct Line {
    changes: VecDeque<Change>,
    bytes: usize,
    /// All below is gone from the line, or never was in it.
    gone: u64,
}

impl Line {
    fn push(&mut self, change: Change) {
        self.bytes += bytes(&change);
        self.changes.push_back(change);
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.bytes -= bytes(&oldest);
            self.gone = oldest.offset + 1;
        }
    }
}

fn bytes(change: &Change) -> usize {
    let part = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    part(&change.key) + part(&change.value) + OWN_BYTES
}

fn locked(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reading end.
pub(super) struct Reader {
    line: Arc<Mutex<Line>>,
    news: watch::Receiver<()>,
    /// What comes next lies here or above.
    at: u64,
}

impl Reader {
    /// Goes on at this offset; what lies below is passed over.
    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// The next change that is there already.
    pub(super) fn next(&mut self) -> Option<Next> {
        let mut line = locked(&self.line);
        if line.gone > self.at {
            let (from, end) = (self.at, line.gone);
            self.at = end;
            return Some(Next::Gap { from, end });
        }
        while let Some(change) = line.changes.pop_front() {
            line.bytes -= bytes(&change);
            line.gone = change.offset + 1;
            if change.offset >= self.at {
                self.at = line.gone;
                return Some(Next::Change(change));
            }
        }
        None
    }

    /// Waits until there may be more; `false` if there never will be, because the node is gone.
    pub(super) async fn more(&mut self) -> bool {
        self.news.changed().await.is_ok()
    }
}

/// A mirror of the metadata that tells a reader of each record.
pub(super) struct Observed {
    mirror: Mirror,
    line: Arc<Mutex<Line>>,
    news: watch::Sender<()>,
}

impl Observed {
    /// An empty one, and its reader.
    pub(super) fn new() -> (Observed, Reader) {
        let (news, heard) = watch::channel(());
        let line = Arc::<Mutex<Line>>::default();
        let reader = Reader { line: Arc::clone(&line), news: heard, at: 0 };
        (Observed { mirror: Mirror::new(), line, news }, reader)
    }
}

impl Machine for Observed {
    const KEEPS_OFFSETS: bool = Mirror::KEEPS_OFFSETS;
    const QUICK_DIGEST: bool = Mirror::QUICK_DIGEST;
    type Query = ();
    type Reply = Picture;

    fn fresh(&self) -> Observed {
        let (line, news) = (Arc::clone(&self.line), self.news.clone());
        Observed { mirror: self.mirror.fresh(), line, news }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.mirror.apply(batch);
        let mut line = locked(&self.line);
        for record in batch.records {
            line.push(Change {
                offset: record.offset.0,
                epoch: batch.epoch.0,
                timestamp_ms: batch.timestamp_ms,
                key: record.key.map(Bytes::copy_from_slice),
                value: record.value.map(Bytes::copy_from_slice),
            });
        }
        drop(line);
        self.news.send_replace(());
    }

    fn query(&self, query: &()) -> Picture {
        self.mirror.query(query)
    }

    fn digest(&self) -> u64 {
        self.mirror.digest()
    }

    fn snapshot(&self) -> Image {
        self.mirror.snapshot()
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        self.mirror.restore(at, records)?;
        // What it covers is not told record by record any more.
        let mut line = locked(&self.line);
        line.gone = line.gone.max(at.offset.0);
        Ok(())
    }

    fn propose(&mut self, now: Time, at: Offset, request: &Request, out: &mut Proposal) {
        self.mirror.propose(now, at, request, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate::{Epoch, Record};
    use quorate_machine::Headers;

    fn feed(machine: &mut Observed, base: u64, values: &[&[u8]]) {
        let record = |(value, offset): (&&'static [u8], u64)| Record {
            offset: Offset(offset),
            key: None,
            value: Some(value),
            headers: Headers::NONE,
        };
        let values: Vec<&'static [u8]> =
            values.iter().map(|value| &*value.to_vec().leak()).collect();
        let records: Vec<Record<'_>> = values.iter().zip(base..).map(record).collect();
        let (base, end) = (Offset(base), Offset(base + values.len() as u64));
        machine.apply(&Batch { base, end, epoch: Epoch(2), timestamp_ms: 5, records: &records });
    }

    fn offsets(reader: &mut Reader) -> Vec<u64> {
        let next = std::iter::from_fn(|| reader.next());
        next.map(|next| match next {
            Next::Change(change) => change.offset,
            Next::Gap { from, end } => panic!("{from} to {end} are missing"),
        })
        .collect()
    }

    #[test]
    fn every_change_from_an_offset_on_is_read_once() {
        let (mut machine, mut reader) = Observed::new();
        feed(&mut machine, 0, &[b"a", b"b", b"c"]);
        reader.seek(1);
        assert_eq!(offsets(&mut reader), [1, 2]);
        feed(&mut machine, 5, &[b"d"]);
        assert_eq!(offsets(&mut reader), [5]);
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn who_reads_too_late_is_told_what_is_missing() {
        let (mut machine, mut reader) = Observed::new();
        let large = vec![0; KEPT_BYTES / 4];
        for base in 0..9 {
            feed(&mut machine, base, &[&large]);
        }
        let Some(Next::Gap { from: 0, end }) = reader.next() else { panic!("nothing is missing") };
        assert!((5..9).contains(&end), "{end}");
        assert_eq!(offsets(&mut reader), (end..9).collect::<Vec<_>>());
        assert_eq!(locked(&reader.line).bytes, 0);
    }

    #[test]
    fn what_a_snapshot_covers_is_a_gap() {
        let (mut machine, mut reader) = Observed::new();
        feed(&mut machine, 0, &[b"a"]);
        assert_eq!(offsets(&mut reader), [0]);
        let mut again = machine.fresh();
        let at = OffsetEpoch::new(Offset(40), Epoch(2));
        again.restore(at, &mut std::iter::empty()).expect("nothing is a state");
        feed(&mut again, 40, &[b"b"]);
        assert_eq!(reader.next(), Some(Next::Gap { from: 1, end: 40 }));
        assert_eq!(offsets(&mut reader), [40]);
    }
}
