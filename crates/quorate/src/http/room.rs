//! Room for large values: how much of them the process holds for its clients at a time.
//!
//! Bytes that wait for a slow client are memory that nobody else has, so they are counted: room is
//! taken before a body is read or an answer is made, and is free again when its bytes are. Small
//! answers take none: connections are limited too.

use super::reply::Refusal;
use bytes::Bytes;
use quorate_base::Span;
use quorate_node::handle::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An answer up to this size takes no room.
const SMALL: usize = 16 << 10;

/// A share of the room; free again when it is dropped.
pub(super) type Share = OwnedSemaphorePermit;

/// In KiB, so that all of it fits the semaphore.
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    pub(super) fn new(kib: usize) -> Room {
        Room(Arc::new(Semaphore::new(kib)))
    }

    /// A share for so many bytes, once there is one.
    pub(super) async fn take(&self, bytes: u64, patience: Duration) -> Result<Share, Refusal> {
        let kib = u32::try_from(1 + (bytes >> 10)).unwrap_or(u32::MAX);
        let share = Arc::clone(&self.0).acquire_many_owned(kib);
        match tokio::time::timeout(patience, share).await {
            Ok(share) => Ok(share.expect("nobody closes it")),
            Err(_) => Err(Refusal::from(Error::Overloaded)),
        }
    }

    /// The same for an answer of so many bytes; a small one needs none.
    pub(super) async fn take_for_answer(
        &self,
        bytes: usize,
        patience: Span,
    ) -> Result<Option<Share>, Refusal> {
        if bytes <= SMALL {
            return Ok(None);
        }
        self.take(bytes as u64, Duration::from_micros(patience.0)).await.map(Some)
    }
}

/// Bytes whose share is free again when the last of them is sent.
pub(super) fn hold(bytes: Bytes, share: Option<Share>) -> Bytes {
    struct Held {
        bytes: Bytes,
        _share: Share,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    match share {
        Some(share) => Bytes::from_owner(Held { bytes, _share: share }),
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_free_when_the_last_piece_of_its_bytes_is_gone() {
        let room = Room::new(100);
        let free = || room.0.available_permits();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let take = |bytes| room.take_for_answer(bytes, Span::ms(1));
            assert!(take(SMALL).await.expect("it needs none").is_none());
            let share = take(64 << 10).await.expect("there is room");
            assert_eq!(free(), 35);
            let bytes = hold(Bytes::from_static(b"value"), share);
            let piece = bytes.slice(1..2);
            drop(bytes);
            assert_eq!((free(), piece.as_ref()), (35, &b"a"[..]));
            assert!(take(64 << 10).await.is_err(), "there is no room for both");
            drop(piece);
            assert_eq!(free(), 100);
        });
    }
}
