//! The codec: every message in every version, control records, and the cutting of frames.

use crate::damage::{damage, noise};
use bytes::{Bytes, BytesMut};
use quorate_base::Rng;
use quorate_wire::message::{Visit, visit};
use quorate_wire::record::control::{
    ControlRecord, ControlType, KRaftVersion, KRaftVoters, LeaderChange, SnapshotFooter,
    SnapshotHeader,
};
use quorate_wire::record::metadata::MetadataRecord;
use quorate_wire::{
    ApiKey, Error, Kind, MAX_FRAME_BYTES, Message, RequestFrame, RequestHeader, ResponseFrame,
    arbitrary, encode_request, encode_response, print, split, split_request,
};

/// A valid frame of a message, all fields drawn.
struct Draw<'a> {
    version: i16,
    rng: &'a mut Rng,
}

impl Visit for Draw<'_> {
    type Output = Bytes;

    fn message<M: Message>(self) -> Bytes {
        let message: M = arbitrary::message(self.version, self.rng);
        let correlation = self.rng.next() as i32;
        let frame = match M::KIND {
            Kind::Request => {
                let client = self.rng.one_in(2).then(|| "client".to_owned());
                let header = RequestHeader::new(M::API, self.version, correlation, client);
                encode_request(header, message)
            }
            Kind::Response => encode_response(message, self.version, correlation),
        };
        frame.expect("drawn messages can be encoded").into_payload()
    }
}

fn draw_api(rng: &mut Rng) -> (ApiKey, i16) {
    let api = ApiKey::ALL[rng.below(ApiKey::ALL.len() as u64) as usize];
    let versions = (api.newest() - api.oldest() + 1) as u64;
    (api, api.oldest() + rng.below(versions) as i16)
}

/// Damages most; some keep their header and go on with noise.
fn spoil(bytes: &mut Vec<u8>, header: usize, rng: &mut Rng) {
    match rng.below(8) {
        0 => {}
        1 => {
            bytes.truncate(header);
            bytes.extend(noise(rng, 200));
        }
        2 => *bytes = noise(rng, 200),
        _ => damage(bytes, rng),
    }
}

/// A request frame, without its length.
pub fn make_request(rng: &mut Rng) -> Vec<u8> {
    let (api, version) = draw_api(rng);
    let mut frame = visit(api, Kind::Request, Draw { version, rng }).to_vec();
    spoil(&mut frame, 10, rng);
    frame
}

/// Decodes; what can be decoded shows, and comes back when it is encoded and decoded again.
struct ThereAndBack {
    frame: Bytes,
    version: i16,
}

impl Visit for ThereAndBack {
    type Output = ();

    fn message<M: Message>(self) {
        let ThereAndBack { frame, version } = self;
        let correlation = 7;
        let read = |frame: Bytes| -> Result<M, Error> {
            match M::KIND {
                Kind::Request => RequestFrame::parse(frame)?.decode(),
                Kind::Response => ResponseFrame::parse(frame)?.decode(version),
            }
        };
        let message = match read(frame) {
            Ok(message) => message,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        assert!(!print(&message, version).is_empty());
        let written = match M::KIND {
            Kind::Request => {
                let header = RequestHeader::new(M::API, version, correlation, None);
                encode_request(header, message.clone())
            }
            Kind::Response => encode_response(message.clone(), version, correlation),
        };
        let written = written.expect("what was decoded can be encoded");
        assert_eq!(read(written.into_payload()), Ok(message), "comes back differently");
    }
}

/// Reads a request frame.
pub fn check_request(input: &[u8]) {
    let frame = Bytes::copy_from_slice(input);
    match RequestFrame::parse(frame.clone()) {
        Ok(request) => {
            let version = request.header.version;
            visit(request.header.api, Kind::Request, ThereAndBack { frame, version });
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The key and version that the asker remembers, then a response frame without its length.
pub fn make_response(rng: &mut Rng) -> Vec<u8> {
    let (api, version) = draw_api(rng);
    let mut frame = visit(api, Kind::Response, Draw { version, rng }).to_vec();
    spoil(&mut frame, 5, rng);
    [&api.key().to_be_bytes()[..], &version.to_be_bytes(), &frame].concat()
}

/// Reads a response frame.
pub fn check_response(input: &[u8]) {
    let Some(([a, b, c, d], frame)) = input.split_first_chunk() else { return };
    let (key, version) = (i16::from_be_bytes([*a, *b]), i16::from_be_bytes([*c, *d]));
    let Some(api) = ApiKey::from_key(key).filter(|api| api.speaks(version)) else { return };
    let frame = Bytes::copy_from_slice(frame);
    visit(api, Kind::Response, ThereAndBack { frame, version });
}

/// The key of a control record, then its value.
pub fn make_control(rng: &mut Rng) -> Vec<u8> {
    let (kind, value) = match rng.below(6) {
        0 => {
            let version = rng.below(2) as i16;
            let record: LeaderChange = arbitrary::record(version, rng);
            (ControlType::LeaderChange, record.encode())
        }
        1 => {
            let record: SnapshotHeader = arbitrary::record(0, rng);
            (ControlType::SnapshotHeader, record.encode())
        }
        2 => {
            let record: SnapshotFooter = arbitrary::record(0, rng);
            (ControlType::SnapshotFooter, record.encode())
        }
        3 => {
            let record: KRaftVersion = arbitrary::record(0, rng);
            (ControlType::KRaftVersion, record.encode())
        }
        4 => {
            let record: KRaftVoters = arbitrary::record(0, rng);
            (ControlType::KRaftVoters, record.encode())
        }
        _ => (ControlType::from_number(rng.below(9) as i16), Ok(noise(rng, 60).into())),
    };
    let value = value.expect("drawn records can be encoded");
    let mut input = [&kind.key()[..], &value].concat();
    spoil(&mut input, 6, rng);
    input
}

/// Reads a control record.
pub fn check_control(input: &[u8]) {
    let Ok(kind) = ControlType::of_key(input) else { return };
    let value = Bytes::copy_from_slice(&input[kind.key().len()..]);
    match ControlRecord::decode(kind, value) {
        Ok(record) => {
            assert_eq!(record.kind(), kind);
            assert!(!record.to_string().is_empty());
            let again = record.clone().encode().expect("what was decoded can be encoded");
            assert_eq!(ControlRecord::decode(kind, again), Ok(record), "comes back differently");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A metadata record of any type and version that is known, all fields drawn.
pub fn draw_metadata(rng: &mut Rng) -> (MetadataRecord, i16) {
    let types = MetadataRecord::TYPES;
    let (api_key, _, newest) = types[rng.below(types.len() as u64) as usize];
    let version = rng.below(newest as u64 + 1) as i16;
    let record = arbitrary::metadata(api_key, version, rng).expect("the type is in the table");
    (record, version)
}

/// The value of a metadata record, most of them damaged.
pub fn make_metadata(rng: &mut Rng) -> Vec<u8> {
    let (record, version) = draw_metadata(rng);
    let mut value = record.encode(version).expect("drawn records can be encoded").to_vec();
    spoil(&mut value, 3, rng);
    value
}

/// Reads a metadata record.
pub fn check_metadata(input: &[u8]) {
    match MetadataRecord::decode(Bytes::copy_from_slice(input)) {
        Ok((record, version)) => {
            assert!(!record.json(version).is_empty() && !record.print(version).is_empty());
            let again = record.clone().encode(version).expect("what was decoded can be encoded");
            let read = MetadataRecord::decode(again);
            assert_eq!(read, Ok((record, version)), "comes back differently");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// How many bytes arrive at a time, then a stream of frames.
pub fn make_stream(rng: &mut Rng) -> Vec<u8> {
    let mut stream = vec![1 + rng.below(40) as u8];
    for _ in 0..=rng.below(4) {
        let frame = match rng.one_in(4) {
            true => noise(rng, 30),
            false => {
                let (api, version) = draw_api(rng);
                visit(api, Kind::Request, Draw { version, rng }).to_vec()
            }
        };
        stream.extend((frame.len() as i32).to_be_bytes());
        stream.extend(frame);
    }
    if rng.one_in(2) {
        damage(&mut stream, rng);
    }
    stream
}

/// Frames up to the first after which a server closes the connection, and whether there was one.
fn frames(stream: &[u8], step: usize, limit: usize, requests: bool) -> (Vec<Bytes>, bool) {
    let (mut received, mut frames) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        received.extend_from_slice(piece);
        loop {
            let next = match requests {
                true => split_request(&mut received, limit),
                false => split(&mut received, limit),
            };
            match next {
                Ok(None) => break,
                // Too short for a key: no request, whatever follows it.
                Ok(Some(frame)) if requests && frame.len() < 2 => return (frames, true),
                Ok(Some(frame)) => frames.push(frame),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return (frames, true);
                }
            }
        }
    }
    (frames, false)
}

/// Cuts a stream in two ways.
pub fn check_stream(input: &[u8]) {
    let Some((step, stream)) = input.split_first() else { return };
    let step = usize::from(*step).max(1);
    for requests in [false, true] {
        let whole = frames(stream, stream.len().max(1), MAX_FRAME_BYTES, requests);
        let pieces = frames(stream, step, MAX_FRAME_BYTES, requests);
        assert_eq!(whole, pieces, "in steps of {step}, requests: {requests}");
        let taken: usize = whole.0.iter().map(|frame| 4 + frame.len()).sum();
        assert!(taken <= stream.len());
    }
}
