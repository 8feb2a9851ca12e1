//! What became of a log since somebody looked last: the machine of an observer, and the line of
//! changes behind it.
//!
//! The machine never waits for who reads: the newest changes are kept up to a limit, and who comes
//! too late for some is told which.

use bytes::Bytes;
use quorate::{
    Batch, Corrupt, FormatLevel, Image, Kv, Machine, Offset, OffsetEpoch, OwnedRecord, Proposal,
    Record, Records, Request, Sessioned, Time,
};
use quorate_machine::kafka::{Mirror, Picture};
use std::collections::{BTreeMap, VecDeque};
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

/// A key of a key-value store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) key: Bytes,
    /// Where it was written last, where that is known.
    pub(super) version: Option<Offset>,
    pub(super) value: Bytes,
}

/// What is asked of it.
pub(super) enum Look {
    /// What is cheap to tell: the metadata.
    State,
    /// All keys, too, those that the store keeps for itself among them.
    Keys,
}

/// What it holds.
pub(super) struct Seen {
    pub(super) picture: Picture,
    /// Sorted; empty unless asked for.
    pub(super) keys: Vec<Key>,
}

/// A mirror of the metadata that tells a reader of each record. What has a key is not metadata: it
/// is kept beside it.
pub(super) struct Observed {
    mirror: Mirror,
    keys: Keys,
    line: Arc<Mutex<Line>>,
    news: watch::Sender<()>,
}

impl Observed {
    /// An empty one, and its reader.
    pub(super) fn new() -> (Observed, Reader) {
        let (news, heard) = watch::channel(());
        let line = Arc::<Mutex<Line>>::default();
        let reader = Reader { line: Arc::clone(&line), news: heard, at: 0 };
        (Observed { mirror: Mirror::new(), keys: BTreeMap::new(), line, news }, reader)
    }
}

/// The header in which a snapshot keeps the offset of a record.
const OFFSET: &[u8] = b"o";

/// That header in the log's encoding: both lengths as zig-zag numbers.
fn offset_header(offset: Offset) -> Bytes {
    [&[2, b'o', 16][..], &offset.0.to_be_bytes()].concat().into()
}

/// Keys in order, each with its version, where that is known, and its value.
type Keys = BTreeMap<Bytes, (Option<Offset>, Bytes)>;

/// Takes in a record with a key; nothing happens with any other.
fn keep(keys: &mut Keys, version: Option<Offset>, record: &Record<'_>) {
    let Some(key) = record.key else { return };
    match record.value {
        Some(value) => {
            let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
            keys.insert(key, (version, value));
        }
        None => drop(keys.remove(key)),
    }
}

impl Machine for Observed {
    const KEEPS_OFFSETS: bool = Mirror::KEEPS_OFFSETS;
    const QUICK_DIGEST: bool = Mirror::QUICK_DIGEST;
    type Query = Look;
    type Reply = Seen;

    fn fresh(&self) -> Observed {
        let (line, news) = (Arc::clone(&self.line), self.news.clone());
        Observed { mirror: self.mirror.fresh(), keys: BTreeMap::new(), line, news }
    }

    fn view(&self) -> Observed {
        let (line, news) = (Arc::clone(&self.line), self.news.clone());
        Observed { mirror: self.mirror.view(), keys: self.keys.clone(), line, news }
    }

    // Of a key-value store of ours: what lies behind a level that this build does not speak may
    // mean anything. Kafka's records have no keys.
    fn level_in(record: &Record<'_>) -> Option<FormatLevel> {
        Sessioned::<Kv>::level_in(record)
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.mirror.apply(batch);
        for record in batch.records {
            keep(&mut self.keys, Some(record.offset), record);
        }
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

    fn query(&self, look: &Look) -> Seen {
        let keys = match look {
            Look::State => Vec::new(),
            Look::Keys => self
                .keys
                .iter()
                .map(|(key, (version, value))| Key {
                    key: key.clone(),
                    version: *version,
                    value: value.clone(),
                })
                .collect(),
        };
        Seen { picture: self.mirror.query(&()), keys }
    }

    fn digest(&self) -> u64 {
        self.mirror.digest()
    }

    /// Each as it is in a snapshot of its own machine.
    fn snapshot(&self) -> Image {
        let keys = self.keys.clone().into_iter().map(|(key, (version, value))| {
            let headers = version.map(offset_header);
            OwnedRecord {
                header_count: headers.iter().len() as u32,
                headers: headers.unwrap_or_default(),
                ..OwnedRecord::new(version.unwrap_or_default(), key, value)
            }
        });
        Image::new(self.mirror.snapshot().chain(keys))
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        let keys = &mut self.keys;
        keys.clear();
        let mut keyless = records.filter(|owned| {
            let record = owned.as_record();
            let kept = record.headers.get(OFFSET).flatten();
            let kept = kept.and_then(|bytes| Some(u64::from_be_bytes(*bytes.as_array()?)));
            keep(keys, kept.map(Offset), &record);
            record.key.is_none()
        });
        self.mirror.restore(at, &mut keyless)?;
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
    fn the_keys_of_a_store_are_kept_through_a_snapshot_and_its_bookkeeping_too() {
        let (mut machine, _reader) = Observed::new();
        let writes: [(&[u8], Option<&[u8]>); 5] = [
            (b"b", Some(b"1")),
            (b"a", Some(b"2")),
            (b"\0s12345678", Some(b"session")),
            (b"gone", Some(b"3")),
            (b"gone", None),
        ];
        let record = |(offset, (key, value)): (u64, (&'static [u8], Option<&'static [u8]>))| {
            Record { offset: Offset(offset), key: Some(key), value, headers: Headers::NONE }
        };
        let records: Vec<Record<'_>> = (7..).zip(writes).map(record).collect();
        let (base, end) = (Offset(7), Offset(12));
        machine.apply(&Batch { base, end, epoch: Epoch(2), timestamp_ms: 5, records: &records });
        let key = |key: &'static [u8], version, value: &'static [u8]| Key {
            key: Bytes::from_static(key),
            version: Some(Offset(version)),
            value: Bytes::from_static(value),
        };
        let expected = [key(b"\0s12345678", 9, b"session"), key(b"a", 8, b"2"), key(b"b", 7, b"1")];
        assert_eq!(machine.query(&Look::Keys).keys, expected);
        assert_eq!(machine.query(&Look::State).keys, []);
        let mut again = machine.fresh();
        let at = OffsetEpoch::new(end, Epoch(2));
        again.restore(at, &mut machine.snapshot()).expect("what it wrote");
        assert_eq!(again.query(&Look::Keys).keys, expected);
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
