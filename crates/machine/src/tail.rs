//! What a leader has proposed and not yet applied, by key: the difference between state and tail.
//!
//! Filled by `propose`, emptied as the same records come back through `apply`, dropped with
//! leadership.

use bytes::Bytes;
use quorate_base::Offset;
use std::collections::BTreeMap;

/// The newest pending record of each key. `V` is what judging needs of a record's value.
pub(crate) struct Tail<V> {
    pending: BTreeMap<Bytes, Pending<V>>,
}

/// A record that is proposed and not applied.
pub(crate) struct Pending<V> {
    /// Where it will lie: the version that it will make.
    pub(crate) offset: Offset,
    /// `None`: it deletes the key.
    pub(crate) value: Option<V>,
}

impl<V> Tail<V> {
    /// Nothing pending.
    pub(crate) fn new() -> Tail<V> {
        Tail { pending: BTreeMap::new() }
    }

    /// The newest pending record of a key; if there is none, the applied state holds.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Pending<V>> {
        self.pending.get(key)
    }

    /// A record was proposed.
    pub(crate) fn put(&mut self, key: Bytes, offset: Offset, value: Option<V>) {
        self.pending.insert(key, Pending { offset, value });
    }

    /// A record was applied: it stops being pending unless a newer one of its key is.
    pub(crate) fn applied(&mut self, key: &[u8], offset: Offset) {
        let Some(pending) = self.pending.get(key) else { return };
        assert!(
            pending.offset >= offset,
            "the record proposed at {} became committed at {offset}",
            pending.offset
        );
        if pending.offset == offset {
            self.pending.remove(key);
        }
    }

    /// How many keys have a pending record.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The pending records whose keys begin so.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a Bytes, &'a Pending<V>)> {
        let from = Bytes::copy_from_slice(prefix);
        self.pending.range(from..).take_while(move |(key, _)| key.starts_with(prefix))
    }
}
