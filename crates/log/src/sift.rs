//! What of a batch a cleaner keeps, and the batch that is left.
//!
//! A record goes if the round's map knows a later one of its key; a tombstone goes also once its
//! horizon has passed (KIP-534) and nobody can need it any more. Records without a key and control
//! batches stay. A batch that keeps a record keeps its offsets, its epoch, its producer and its
//! time, so that whoever applies it sees what he would have seen before.

use crate::batch::{
    Batch, CHECKED_FROM, CODEC_BITS, HEADER_BYTES, HORIZON_BIT, Header, LENGTH_END,
};
use crate::offset_map::OffsetMap;
use crate::record::{BadRecord, RecordView};
use crate::varint;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::Offset;

/// What a round takes away.
pub(crate) struct Rules {
    /// The highest offset of each key in the range.
    pub map: OffsetMap,
    /// Tombstones below this may go, if their horizon has passed: the cleaner has been through
    /// there before this round, and everybody who must know them does.
    pub tombstones_below: Offset,
    /// The time now, Unix milliseconds.
    pub now_ms: i64,
    /// The horizon of tombstones that are seen for the first time.
    pub horizon_ms: i64,
}

/// What is left of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// All of it, as it is.
    Whole,
    /// Some records, or all with a horizon that was not there.
    Part(Bytes),
    /// No record.
    Nothing,
}

/// What a round has met so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Met {
    /// Records that went.
    pub removed: u64,
    /// One past the highest tombstone that was collected.
    pub horizon: Offset,
    /// When the first of the tombstones that are left may go, Unix milliseconds.
    pub next_ms: Option<i64>,
    /// The first one whose time has come and that must wait for those who do not know it yet.
    pub held_up: Option<Offset>,
}

/// Looks at each record of a batch that is not of control.
pub(crate) fn sift(batch: &Batch, rules: &Rules, met: &mut Met) -> Result<Left, BadRecord> {
    let (header, all) = (&batch.header, batch.record_bytes());
    let mut records = batch.records();
    // Made once something goes.
    let mut left: Option<BytesMut> = None;
    let (mut kept, mut tombstones, mut position) = (0, 0, 0);
    while let Some(next) = records.next_with_bytes() {
        let (record, bytes) = next?;
        if rules.goes(&record, header, met) {
            met.removed += 1;
            left.get_or_insert_with(|| BytesMut::from(&all[..position]));
        } else {
            kept += 1;
            tombstones += usize::from(is_tombstone(&record));
            if let Some(left) = &mut left {
                left.put_slice(bytes);
            }
        }
        position += bytes.len();
    }
    if kept == 0 {
        return Ok(Left::Nothing);
    }
    let horizon_ms = match (tombstones > 0, header.delete_horizon) {
        (true, true) => Some(header.timestamp_ms),
        (true, false) => {
            note_horizon(met, rules.horizon_ms);
            Some(rules.horizon_ms)
        }
        (false, _) => None,
    };
    if left.is_none() && horizon_ms.is_some() == header.delete_horizon {
        return Ok(Left::Whole);
    }
    let records = left.map_or_else(|| all.clone(), BytesMut::freeze);
    Ok(Left::Part(rebuild(batch, &records, kept, horizon_ms)))
}

impl Rules {
    fn goes(&self, record: &RecordView<'_>, header: &Header, met: &mut Met) -> bool {
        let Some(key) = record.key else { return false };
        if self.map.get(key).is_some_and(|latest| latest > record.offset) {
            return true;
        }
        if record.value.is_some() || !header.delete_horizon {
            return false;
        }
        if self.now_ms < header.timestamp_ms {
            note_horizon(met, header.timestamp_ms);
            return false;
        }
        let goes = record.offset < self.tombstones_below;
        if goes {
            met.horizon = met.horizon.max(record.offset + 1);
        } else {
            met.held_up.get_or_insert(record.offset);
        }
        goes
    }
}

fn is_tombstone(record: &RecordView<'_>) -> bool {
    record.key.is_some() && record.value.is_none()
}

fn note_horizon(met: &mut Met, horizon_ms: i64) {
    met.next_ms = Some(met.next_ms.map_or(horizon_ms, |before| before.min(horizon_ms)));
}

/// The batch without records, which its producer's numbers are still read from.
pub(crate) fn emptied(batch: &Batch) -> Bytes {
    rebuild(batch, &[], 0, None)
}

/// The batch with these records of it, which are not compressed, and this horizon.
fn rebuild(batch: &Batch, records: &[u8], count: u32, horizon_ms: Option<i64>) -> Bytes {
    let header = &batch.header;
    let first_ms = horizon_ms.unwrap_or(header.time_ms());
    let later_ms = header.timestamp_ms.wrapping_sub(first_ms);
    let mut out = BytesMut::with_capacity(HEADER_BYTES + records.len() + 64);
    // What is not set below stays: base offset, epoch, format, last offset, producer.
    out.put_slice(&batch.bytes[..HEADER_BYTES]);
    match later_ms {
        0 => out.put_slice(records),
        _ => put_later(&mut out, records, later_ms),
    }
    assert!(out.len() <= i32::MAX as usize, "a batch's length is 31 bits");
    let length = (out.len() - LENGTH_END) as i32;
    let attributes = u16::from_be_bytes([batch.bytes[21], batch.bytes[22]]);
    let horizon = if horizon_ms.is_some() { HORIZON_BIT } else { 0 };
    let attributes = attributes & !(CODEC_BITS | HORIZON_BIT) | horizon;
    (&mut out[8..]).put_i32(length);
    (&mut out[21..]).put_u16(attributes);
    (&mut out[27..]).put_i64(first_ms);
    (&mut out[57..]).put_u32(count);
    let checksum = crc32c::crc32c(&out[CHECKED_FROM..]);
    (&mut out[CHECKED_FROM - 4..]).put_u32(checksum);
    out.freeze()
}

/// Records that have been read before, each so much later than its batch.
fn put_later(out: &mut BytesMut, mut records: &[u8], later_ms: i64) {
    let take = |from: &mut &[u8]| varint::take(from).expect("read before");
    while !records.is_empty() {
        let length = take(&mut records) as usize;
        let (mut body, rest) = records.split_at(length);
        records = rest;
        let (attributes, fields) = body.split_first().expect("read before");
        body = fields;
        let time = take(&mut body).wrapping_add(later_ms);
        varint::put(out, (1 + varint::size(time) + body.len()) as i64);
        out.put_u8(*attributes);
        varint::put(out, time);
        out.put_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, Batches};
    use quorate_base::Epoch;

    const TIME: i64 = 1_700_000_000_000;

    fn batch(records: &[(Option<&str>, Option<&str>)]) -> Batch {
        let mut builder = BatchBuilder::new(Offset(10), Epoch(3), TIME);
        for (key, value) in records {
            let header: (&[u8], Option<&[u8]>) = (b"h", Some(b"1"));
            builder.record(key.map(str::as_bytes), value.map(str::as_bytes), &[header]);
        }
        read(builder.finish())
    }

    fn read(bytes: Bytes) -> Batch {
        Batches::new(bytes).next().unwrap().unwrap()
    }

    fn rules(latest: &[(&str, u64)]) -> Rules {
        let mut map = OffsetMap::new([1, 2], 100, 1 << 16);
        latest.iter().for_each(|(key, offset)| map.put(key.as_bytes(), Offset(*offset)));
        Rules { map, tombstones_below: Offset(0), now_ms: TIME + 50, horizon_ms: TIME + 150 }
    }

    fn left(batch: &Batch, rules: &Rules) -> (Batch, Met) {
        let mut met = Met::default();
        match sift(batch, rules, &mut met).unwrap() {
            Left::Part(bytes) => (read(bytes), met),
            Left::Whole | Left::Nothing => panic!("a part is left"),
        }
    }

    /// Offset, time, key, value, and number of headers.
    type Record = (u64, i64, Option<String>, Option<String>, usize);

    fn records(batch: &Batch) -> Vec<Record> {
        let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8(b.to_vec()).unwrap());
        let records = batch.records().map(Result::unwrap);
        records
            .map(|r| (r.offset.0, r.timestamp_ms, text(r.key), text(r.value), r.headers().count()))
            .collect()
    }

    #[test]
    fn what_a_later_record_supersedes_goes_and_the_rest_stays_where_it_was() {
        let whole = batch(&[
            (Some("a"), Some("1")),
            (None, Some("2")),
            (Some("b"), Some("3")),
            (Some("a"), Some("4")),
            (Some("c"), Some("5")),
        ]);
        let (cleaned, met) = left(&whole, &rules(&[("a", 13), ("b", 20), ("c", 14)]));
        let mut expected = records(&whole);
        expected.retain(|record| ![10, 12].contains(&record.0));
        assert_eq!(records(&cleaned), expected);
        let Header { bytes, checksum, .. } = cleaned.header;
        assert_eq!(cleaned.header, Header { records: 3, bytes, checksum, ..whole.header });
        assert_eq!(met, Met { removed: 2, ..Met::default() });
        // Nothing more goes the second time, and a batch without a record is nothing.
        let again = sift(&cleaned, &rules(&[("a", 13)]), &mut Met::default()).unwrap();
        assert_eq!(again, Left::Whole);
        let one = batch(&[(Some("a"), Some("1"))]);
        let nothing = sift(&one, &rules(&[("a", 13)]), &mut Met::default()).unwrap();
        assert_eq!(nothing, Left::Nothing);
    }

    /// KIP-534: the horizon takes the place of the batch's first time; the records keep theirs.
    #[test]
    fn a_tombstone_gets_its_horizon_once_and_goes_when_all_conditions_hold() {
        let whole = batch(&[(Some("a"), None), (Some("b"), Some("2"))]);
        let (marked, met) = left(&whole, &rules(&[]));
        assert_eq!(records(&marked), records(&whole));
        assert!(marked.header.delete_horizon && !whole.header.delete_horizon);
        assert_eq!((marked.header.timestamp_ms, marked.timestamp_ms()), (TIME + 150, TIME));
        assert_eq!(met, Met { next_ms: Some(TIME + 150), ..Met::default() });
        let judge = |now_ms, below| {
            let rules = Rules { now_ms, tombstones_below: Offset(below), ..rules(&[]) };
            let mut met = Met::default();
            (sift(&marked, &rules, &mut met).unwrap(), met)
        };
        let early = Met { next_ms: Some(TIME + 150), ..Met::default() };
        assert_eq!(judge(TIME + 149, 11), (Left::Whole, early));
        let held_up = Met { held_up: Some(Offset(10)), ..Met::default() };
        assert_eq!(judge(TIME + 150, 10), (Left::Whole, held_up));
        let (Left::Part(after), met) = judge(TIME + 150, 11) else { panic!("it goes") };
        assert_eq!(met, Met { removed: 1, horizon: Offset(11), ..Met::default() });
        let after = read(after);
        assert_eq!(records(&after), records(&whole)[1..]);
        assert!(!after.header.delete_horizon, "none is left");
        assert_eq!(after.header.timestamp_ms, TIME);
    }

    /// One that a later record supersedes was no last word: the horizon does not count it.
    #[test]
    fn a_tombstone_that_is_superseded_goes_as_any_record() {
        let whole = batch(&[(Some("a"), None), (Some("b"), Some("2"))]);
        let (cleaned, met) = left(&whole, &rules(&[("a", 30)]));
        assert_eq!(records(&cleaned), records(&whole)[1..]);
        assert_eq!(met, Met { removed: 1, ..Met::default() });
    }

    /// Another program's batch: compressed records, one of which goes, are written as they are.
    #[test]
    fn compressed_records_stay_as_they_are_while_all_of_them_do() {
        use std::io::Write;
        let plain = batch(&[(Some("a"), Some("1")), (Some("b"), Some("2"))]);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain.record_bytes()).unwrap();
        let mut bytes = plain.bytes[..HEADER_BYTES].to_vec();
        bytes.extend(encoder.finish().unwrap());
        let length = (bytes.len() - LENGTH_END) as u32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        // The time of a producer's records may be that of the log, and he may have an id.
        bytes[22] = 1 | 1 << 3;
        bytes[43..51].copy_from_slice(&7i64.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[CHECKED_FROM - 4..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
        let gzip = read(bytes.into());
        assert_eq!(records(&gzip), records(&plain));
        assert_eq!(sift(&gzip, &rules(&[]), &mut Met::default()).unwrap(), Left::Whole);
        let (cleaned, _) = left(&gzip, &rules(&[("a", 99)]));
        assert_eq!(records(&cleaned), records(&plain)[1..]);
        assert_eq!((cleaned.header.codec, cleaned.bytes[22]), (0, 1 << 3));
        assert_eq!(cleaned.header.producer_id, 7);
        // Of a producer's batch the header stays, whatever is left of it.
        let nothing = sift(&gzip, &rules(&[("a", 99), ("b", 99)]), &mut Met::default()).unwrap();
        assert_eq!(nothing, Left::Nothing);
        let empty = read(emptied(&gzip));
        let Header { base, last, epoch, producer_id, records, .. } = empty.header;
        assert_eq!((base, last, epoch), (Offset(10), Offset(11), Epoch(3)));
        assert_eq!((producer_id, records, crate::empty::Empty::of(&empty.header)), (7, 0, None));
    }
}
