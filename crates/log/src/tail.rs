//! The newest batches, in memory: what followers and watchers that keep up are served from.

use bytes::Bytes;
use quorate_base::Offset;
use std::collections::VecDeque;

/// One batch. `bytes` is a slice of what came in, never a copy.
#[derive(Clone, Debug)]
pub(crate) struct TailBatch {
    pub base: Offset,
    pub last: Offset,
    /// Where it begins in its segment's file.
    pub position: u64,
    pub bytes: Bytes,
}

/// Batches without gaps, up to the end of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    batches: VecDeque<TailBatch>,
    bytes: u64,
}

impl Tail {
    /// First offset held.
    pub fn base(&self) -> Option<Offset> {
        self.batches.front().map(|batch| batch.base)
    }

    pub fn push(&mut self, batch: TailBatch) {
        self.bytes += batch.bytes.len() as u64;
        self.batches.push_back(batch);
    }

    /// Drops the oldest batches that are durable until `limit` bytes are left.
    pub fn evict(&mut self, durable: Offset, limit: u64) {
        while self.bytes > limit && self.batches.front().is_some_and(|batch| batch.last < durable) {
            let gone = self.batches.pop_front().expect("looked at just now");
            self.bytes -= gone.bytes.len() as u64;
        }
    }

    /// The batch that holds `offset`.
    pub fn find(&self, offset: Offset) -> Option<&TailBatch> {
        self.from(offset).next()
    }

    /// The batches from the one that holds `offset` on; none if that one is not held.
    pub fn from(&self, offset: Offset) -> impl Iterator<Item = &TailBatch> {
        let held = self.base().is_some_and(|base| base <= offset);
        let at = if held {
            self.batches.partition_point(|batch| batch.last < offset)
        } else {
            self.batches.len()
        };
        self.batches.range(at..)
    }

    /// Drops the batches from `end` on.
    pub fn truncate(&mut self, end: Offset) {
        while self.batches.back().is_some_and(|batch| batch.last >= end) {
            let gone = self.batches.pop_back().expect("looked at just now");
            self.bytes -= gone.bytes.len() as u64;
        }
    }

    /// Drops the batches below `start`, where one begins.
    pub fn trim(&mut self, start: Offset) {
        while self.batches.front().is_some_and(|batch| batch.last < start) {
            let gone = self.batches.pop_front().expect("looked at just now");
            self.bytes -= gone.bytes.len() as u64;
        }
    }

    pub fn check(&self, end: Offset) {
        let mut next = self.base().unwrap_or(end);
        let mut bytes = 0;
        for batch in &self.batches {
            assert_eq!(batch.base, next, "the tail has a gap");
            next = batch.last + 1;
            bytes += batch.bytes.len() as u64;
        }
        assert_eq!(next, end, "the tail ends elsewhere than the log");
        assert_eq!(bytes, self.bytes, "the tail's bytes are miscounted");
    }
}
