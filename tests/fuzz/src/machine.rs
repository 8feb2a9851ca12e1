//! The state of Kafka's metadata records: whatever a log holds, it is taken, told or refused.

use crate::damage::damage;
use bytes::Bytes;
use quorate_base::Rng;
use quorate_machine::kafka::{Loader, MetadataImage};
use quorate_wire::arbitrary;
use quorate_wire::record::metadata::MetadataRecord;

/// Values of records, each behind its length in two bytes; few ids and names, so that records meet.
pub fn make_metadata(rng: &mut Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..rng.below(60) {
        let types = MetadataRecord::TYPES;
        let (api_key, _, newest) = types[rng.below(types.len() as u64) as usize];
        let version = rng.below(newest as u64 + 1) as i16;
        let record = arbitrary::narrow_metadata(api_key, version, rng);
        let record = record.expect("the type is in the table");
        let mut value = record.encode(version).expect("drawn records can be encoded").to_vec();
        if rng.one_in(10) {
            damage(&mut value, rng);
        }
        input.extend((value.len() as u16).to_be_bytes());
        input.extend(value);
    }
    if rng.one_in(10) {
        damage(&mut input, rng);
    }
    input
}

/// Takes all records; a state comes out that its own records make again.
pub fn check_metadata(input: &[u8]) {
    let mut loader = Loader::default();
    let mut rest = input;
    while let Some((len, after)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(after.len());
        let (value, after) = after.split_at(len);
        if let Err(fault) = loader.apply_value(Some(Bytes::copy_from_slice(value))) {
            assert!(!fault.to_string().is_empty());
        }
        rest = after;
    }
    let image = loader.image();
    let mut again = MetadataImage::default();
    for (record, version) in image.records() {
        let value = record.encode(version).expect("a state can be written");
        let (record, _) = MetadataRecord::decode(value).expect("what was written can be read");
        assert_eq!(again.apply(record), Ok(()), "its own record is refused");
    }
    assert_eq!(again, *image, "comes back differently");
    let mut before = None;
    for leaf in image.leaves() {
        assert!(before < Some(leaf.path.clone()), "{:?} is out of order", leaf.path);
        before = Some(leaf.path);
    }
}
