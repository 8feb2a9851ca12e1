//! Where one frame ends and the next begins: four bytes of length, then as many bytes.
//!
//! Works on what a reader has received and reserves nothing for what was only announced: memory
//! follows the bytes that came. A frame is cut off without a copy.

use crate::{ApiKey, Error, OnlyActive, Served};
use bytes::{Buf, Bytes, BytesMut};

/// The largest frame that is taken by default: Kafka's `socket.request.max.bytes`.
pub const MAX_FRAME_BYTES: usize = 100 * 1024 * 1024;

/// Cuts the next frame, without its length prefix, off the front of `received`; `None` while it is
/// incomplete. After an error the connection is of no further use: where the next frame begins is
/// unknown.
pub fn split(received: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Error> {
    let Some((prefix, rest)) = received.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    match usize::try_from(announced) {
        Ok(length) if length <= limit => {
            if rest.len() < length {
                return Ok(None);
            }
            received.advance(prefix.len());
            Ok(Some(received.split_to(length).freeze()))
        }
        Ok(_) | Err(_) => Err(Error::BadFrameLength { announced, limit }),
    }
}

/// [`split`] for the side that answers: an API that no listener of ours serves, and a request that
/// is longer than its API has reason to be, are refused as soon as the key is there, before the
/// rest is held.
pub fn split_request(received: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Error> {
    let Some([_, _, _, _, key @ ..]) = received.first_chunk::<6>() else {
        return split(received, limit);
    };
    let key = i16::from_be_bytes(*key);
    let taken = |api: &ApiKey| Served::of(*api).is_some() || OnlyActive::of(*api).is_some();
    let api = ApiKey::from_key(key).filter(taken).ok_or(Error::UnknownApi { key })?;
    split(received, limit.min(api.max_request_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_and_in_order_however_the_bytes_arrive() {
        let stream = [0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9];
        for step in 1..=stream.len() {
            let (mut received, mut frames) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(step) {
                received.extend_from_slice(piece);
                while let Some(frame) = split(&mut received, 2).unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, [&[7u8, 8][..], &[], &[9]], "in steps of {step}");
            assert!(received.is_empty());
        }
    }

    #[test]
    fn a_length_outside_of_the_limit_is_refused_before_the_bytes_come() {
        let check = |announced: i32| {
            let mut received = BytesMut::from(&announced.to_be_bytes()[..]);
            let found = split(&mut received, 10);
            assert_eq!(found, Err(Error::BadFrameLength { announced, limit: 10 }));
        };
        check(11);
        check(i32::MAX);
        check(-1);
        check(i32::MIN);
    }

    #[test]
    fn requests_are_judged_by_their_first_six_bytes() {
        let check = |bytes: &[u8], expect| {
            assert_eq!(split_request(&mut BytesMut::from(bytes), MAX_FRAME_BYTES), expect);
        };
        let limit = ApiKey::Vote.max_request_bytes();
        let too_long = Error::BadFrameLength { announced: 0x0010_0000, limit };
        check(&[0, 0x10, 0, 0, 0], Ok(None));
        check(&[0, 0x10, 0, 0, 0, 52], Err(too_long));
        check(&[0, 0x10, 0, 0, 0, 1], Ok(None));
        check(&[0, 0x10, 0, 0, 0, 2], Err(Error::UnknownApi { key: 2 }));
        // We can read CreateTopics; nobody here answers it.
        check(&[0, 0, 0, 9, 0, 19], Err(Error::UnknownApi { key: 19 }));
        check(&[0, 0, 0, 2, 0, 63], Ok(Some(Bytes::from_static(&[0, 63]))));
        check(&[0, 0, 0, 2, 0, 1], Ok(Some(Bytes::from_static(&[0, 1]))));
        let follows = [0, 0, 0, 0, 0, 2];
        check(&follows[..5], Ok(Some(Bytes::new())));
    }
}
