//! Bytes that nobody should send, into every decoder: an error or a message, never a panic, and
//! never more in memory than came over the wire.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use bytes::{Bytes, BytesMut};
use common::Survey;
use quorate_base::Rng;
use quorate_wire::message::{Visit, visit};
use quorate_wire::record::control::{
    ControlRecord, ControlType, KRaftVersion, KRaftVoters, LeaderChange, SnapshotFooter,
    SnapshotHeader,
};
use quorate_wire::{
    ApiKey, Error, Kind, Message, RequestFrame, RequestHeader, ResponseFrame, Walk, arbitrary,
    encode_request, encode_response,
};

/// Runs one attack on every message in every version.
fn each_message(attack: fn(&dyn Target, &mut Rng)) {
    struct Meet<'a>(i16, &'a mut Rng, fn(&dyn Target, &mut Rng));
    impl Visit for Meet<'_> {
        type Output = ();
        fn message<M: Message>(self) {
            let Meet(version, rng, attack) = self;
            for _ in 0..60 {
                attack(&Sample { message: arbitrary::message::<M>(version, rng), version }, rng);
            }
        }
    }
    let mut rng = Rng::new(0xbad);
    for api in ApiKey::ALL {
        for version in api.oldest()..=api.newest() {
            for kind in [Kind::Request, Kind::Response] {
                visit(*api, kind, Meet(version, &mut rng, attack));
            }
        }
    }
}

/// A valid message to start from.
struct Sample<M> {
    message: M,
    version: i16,
}

/// A message as the attacks see it.
trait Target {
    /// A valid frame of it.
    fn frame(&self) -> Bytes;
    /// Reads a frame as this kind of message; asserts what must hold of anything that can be read.
    fn read(&self, frame: Bytes) -> Result<(), Error>;
}

impl<M: Message> Sample<M> {
    fn encode(&self, message: M) -> Bytes {
        let frame = match M::KIND {
            Kind::Request => {
                let client = Some("attacker".to_owned());
                encode_request(RequestHeader::new(M::API, self.version, 7, client), message)
            }
            Kind::Response => encode_response(message, self.version, 7),
        };
        frame.unwrap().into_payload()
    }

    fn decode(&self, frame: Bytes) -> Result<(M, i16), Error> {
        match M::KIND {
            Kind::Request => {
                let frame = RequestFrame::parse(frame)?;
                let version = frame.header.version;
                Ok((frame.decode()?, version))
            }
            Kind::Response => {
                Ok((ResponseFrame::parse(frame)?.decode(self.version)?, self.version))
            }
        }
    }
}

impl<M: Message> Target for Sample<M> {
    fn frame(&self) -> Bytes {
        self.encode(self.message.clone())
    }

    fn read(&self, frame: Bytes) -> Result<(), Error> {
        let (message, version) = self.decode(frame.clone())?;
        let weight = Survey::of(message.clone(), version).weight;
        assert!(weight <= frame.len(), "{weight} out of {} bytes: {message:?}", frame.len());
        let sample = Sample { message, version };
        if version == self.version {
            let (again, _) = sample.decode(sample.frame()).unwrap();
            assert_eq!(again, sample.message);
        }
        Ok(())
    }
}

#[test]
fn valid_frames_are_read() {
    each_message(|target, _| target.read(target.frame()).unwrap());
}

#[test]
fn a_frame_cut_anywhere_is_an_error() {
    each_message(|target, rng| {
        let frame = target.frame();
        let step = 1 + frame.len() / 100;
        for end in (rng.below(step as u64) as usize..frame.len()).step_by(step) {
            target.read(frame.slice(..end)).unwrap_err();
        }
    });
}

#[test]
fn bytes_behind_the_message_are_an_error() {
    each_message(|target, rng| {
        let mut frame = BytesMut::from(target.frame());
        frame.extend((0..=rng.below(9)).map(|_| rng.below(256) as u8));
        target.read(frame.freeze()).unwrap_err();
    });
}

#[test]
fn flipped_and_copied_bytes_do_no_harm() {
    each_message(|target, rng| {
        let mut frame = BytesMut::from(target.frame());
        for _ in 0..=rng.below(4) {
            let at = rng.below(frame.len() as u64) as usize;
            match rng.below(4) {
                0 => frame[at] = 0xff,
                1 => frame[at] = frame[at].wrapping_add(1),
                2 => frame[at] ^= 1 << rng.below(8),
                _ => frame[at] = rng.below(256) as u8,
            }
        }
        // Either is fine; `read` asserts what a message must hold.
        let _: Result<(), Error> = target.read(frame.freeze());
    });
}

#[test]
fn noise_behind_a_valid_header_does_no_harm() {
    each_message(|target, rng| {
        let mut frame = BytesMut::from(target.frame());
        let header = 24.min(frame.len());
        frame.truncate(header);
        // Mostly small numbers: they lead deeper into a message than large ones.
        let limit = if rng.one_in(2) { 5 } else { 256 };
        frame.extend((0..rng.below(200)).map(|_| rng.below(limit) as u8));
        let _: Result<(), Error> = target.read(frame.freeze());
    });
}

/// Reads damaged values of control records of one type.
fn damage_records<T: Walk>(kind: ControlType, version: i16, encode: fn(T) -> Result<Bytes, Error>) {
    let mut rng = Rng::new(2);
    for _ in 0..200 {
        let value = encode(arbitrary::record(version, &mut rng)).unwrap();
        let step = 1 + value.len() / 100;
        for end in (0..value.len()).step_by(step) {
            ControlRecord::decode(kind, value.slice(..end)).unwrap_err();
        }
        for _ in 0..20 {
            let mut damaged = BytesMut::from(&value[..]);
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.below(256) as u8;
            if let Ok(read) = ControlRecord::decode(kind, damaged.freeze()) {
                let again = read.clone().encode().unwrap();
                assert_eq!(ControlRecord::decode(kind, again), Ok(read));
            }
        }
    }
}

#[test]
fn damaged_control_records_do_no_harm() {
    damage_records(ControlType::LeaderChange, 0, LeaderChange::encode);
    damage_records(ControlType::LeaderChange, 1, LeaderChange::encode);
    damage_records(ControlType::SnapshotHeader, 0, SnapshotHeader::encode);
    damage_records(ControlType::SnapshotFooter, 0, SnapshotFooter::encode);
    damage_records(ControlType::KRaftVersion, 0, KRaftVersion::encode);
    damage_records(ControlType::KRaftVoters, 0, KRaftVoters::encode);
}
