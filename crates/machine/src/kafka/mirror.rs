//! The machine that only listens: it holds the state of a cluster whose controllers are others.
//!
//! For observers. It refuses every request, and what it is fed can never fail it: a record that is
//! left out is counted, and the last one kept, to be asked for. Counts are what this process saw,
//! not state: they are neither in a snapshot nor in the digest.

use super::image::MetadataImage;
use super::loader::{Fault, Loader};
use crate::digest::Hash;
use crate::{
    Answer, Batch, Corrupt, Image, Machine, OwnedRecord, Proposal, Record, Records, Request,
};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch, Time};
use std::cell::Cell;

/// A state of Kafka's metadata that follows a log.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    loader: Loader,
    /// The records of the transaction that is open, from its Begin on. Invariant: empty if none is.
    open: Vec<Bytes>,
    counts: Counts,
    /// Of the state as it is now, once somebody asked.
    digest: Cell<Option<u64>>,
}

/// What a mirror was fed since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Metadata records that are part of the state.
    pub taken: u64,
    /// Records that should be and are not.
    pub left_out: u64,
    /// The last of these: where it lies and what is wrong with it.
    pub last_left_out: Option<(Offset, Fault)>,
    /// Records with a key. Metadata records have none: somebody else's state is in this log, too.
    pub keyed: u64,
}

/// What a mirror shows.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The state in effect.
    pub image: MetadataImage,
    /// Whether a metadata transaction is open, whose records are not in effect yet.
    pub in_transaction: bool,
    /// What it was made of.
    pub counts: Counts,
}

impl Mirror {
    /// An empty one.
    pub fn new() -> Mirror {
        Mirror::default()
    }

    /// The state in effect.
    pub fn image(&self) -> &MetadataImage {
        self.loader.image()
    }

    /// What it was fed.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn take(&mut self, record: &Record<'_>) {
        if record.key.is_some() {
            self.counts.keyed += 1;
            return;
        }
        let value = record.value.map(Bytes::copy_from_slice);
        match self.loader.apply_value(value.clone()) {
            Ok(()) => {
                self.counts.taken += 1;
                match self.loader.in_transaction() {
                    true => self.open.extend(value),
                    false => self.open.clear(),
                }
            }
            Err(fault) => {
                self.counts.left_out += 1;
                self.counts.last_left_out = Some((record.offset, fault));
            }
        }
    }
}

impl Machine for Mirror {
    /// Kafka's snapshots have no headers.
    const KEEPS_OFFSETS: bool = false;
    const QUICK_DIGEST: bool = false;
    type Query = ();
    type Reply = Picture;

    fn fresh(&self) -> Mirror {
        Mirror::new()
    }

    fn view(&self) -> Mirror {
        self.clone()
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.digest.set(None);
        batch.records.iter().for_each(|record| self.take(record));
    }

    fn query(&self, (): &()) -> Picture {
        Picture {
            image: self.image().clone(),
            in_transaction: self.loader.in_transaction(),
            counts: self.counts.clone(),
        }
    }

    /// Takes as long as writing a snapshot, once for each state that it is asked for.
    fn digest(&self) -> u64 {
        if let Some(digest) = self.digest.get() {
            return digest;
        }
        let values = self.snapshot().filter_map(|record| record.value);
        let digest = values.fold(Hash::new(), |hash, value| hash.bytes(&value)).finish();
        self.digest.set(Some(digest));
        digest
    }

    /// The state in the order of Kafka's snapshots. An open transaction comes last as it was
    /// written, so that its end, which lies behind the snapshot, finds what came before.
    fn snapshot(&self) -> Image {
        let state = self.image().clone().into_records();
        // No log of Kafka's makes a state that its records cannot hold.
        let state = state.filter_map(|(record, version)| record.encode(version).ok());
        let values = state.chain(self.open.clone());
        Image::new(values.zip(0..).map(|(value, at)| OwnedRecord {
            key: None,
            ..OwnedRecord::new(Offset(at), Bytes::new(), value)
        }))
    }

    fn restore(&mut self, _: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        *self = Mirror::new();
        records.for_each(|record| self.take(&record.as_record()));
        Ok(())
    }

    fn propose(&mut self, _: Time, _: Offset, _: &Request, out: &mut Proposal) {
        let why = "this node only listens: ask a controller of the cluster";
        out.answer(Answer::Refused(Bytes::from_static(why.as_bytes())));
    }
}
