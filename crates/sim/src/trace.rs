//! What happened, one line an event, and a hash of all of it that tells two runs apart.
//!
//! Columns: time, node, role, epoch, `start/high watermark/durable/end`, what. Lines cost more than
//! the run itself, so they are made only when someone wants to read them; the hash never depends on
//! that.

use crate::book::Book;
use quorate_base::Time;
use quorate_raft::View;
use std::collections::VecDeque;

/// The lines and the hash.
pub(crate) struct Trace {
    hash: u64,
    /// How many of the newest lines are kept.
    keep: usize,
    lines: VecDeque<String>,
}

impl Trace {
    pub fn new(keep: usize) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, keep, lines: VecDeque::new() }
    }

    /// Whether lines are wanted.
    pub fn reads(&self) -> bool {
        self.keep > 0
    }

    /// Takes numbers into the hash.
    pub fn mix(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Takes bytes into the hash.
    pub fn mix_bytes(&mut self, bytes: &[u8]) {
        self.mix(&[bytes.len() as u64]);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(&[u64::from_le_bytes(*word)]);
        }
        for byte in rest {
            self.mix(&[u64::from(*byte)]);
        }
    }

    /// A line about the world.
    pub fn world(&mut self, now: Time, what: impl FnOnce() -> String) {
        if self.reads() {
            self.push(format!("{} -  {:<18} {:>3} {:<16} {}", seconds(now), "", "", "", what()));
        }
    }

    /// A line about a node that is down.
    pub fn down(&mut self, now: Time, node: usize, book: &Book, what: impl FnOnce() -> String) {
        if self.reads() {
            let end = format!("?/?/?/{}", book.end());
            let (role, node) = ("down", node + 1);
            self.push(format!(
                "{} {node:<2} {role:<18} {:>3} {end:<16} {}",
                seconds(now),
                "",
                what()
            ));
        }
    }

    /// A line about a node.
    pub fn node(&mut self, now: Time, node: usize, view: &View<'_>, what: impl FnOnce() -> String) {
        if !self.reads() {
            return;
        }
        let high_watermark = view.high_watermark.map_or("-".to_owned(), |at| at.to_string());
        let marks = format!("{}/{high_watermark}/{}/{}", view.start, view.durable, view.end);
        let (role, node) = (view.role.to_string(), node + 1);
        self.push(format!(
            "{} {node:<2} {role:<18} {:>3} {marks:<16} {}",
            seconds(now),
            view.epoch,
            what()
        ));
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The hash of all that happened, and the lines that were kept.
    pub fn end(self) -> (u64, Vec<String>) {
        (self.hash, self.lines.into())
    }
}

/// A time, as traces show it.
pub(crate) fn seconds(at: Time) -> String {
    format!("{:>3}.{:06}", at.0 / 1_000_000, at.0 % 1_000_000)
}
