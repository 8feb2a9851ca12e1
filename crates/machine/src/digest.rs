//! The hash behind [`crate::Machine::digest`]: fast, the same on every processor, no secret.
//!
//! It finds replicas that differ by mistake, not by malice. Never written to disk or sent, so it
//! may change with any version.

/// Hashes one byte string after another; where they end counts.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Nothing hashed yet.
    pub(crate) fn new() -> Hash {
        Hash(0x243f_6a88_85a3_08d3)
    }

    /// Takes in a number.
    pub(crate) fn number(self, number: u64) -> Hash {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        Hash((product as u64) ^ (product >> 64) as u64)
    }

    /// Takes in a byte string and its length, eight bytes a step.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Hash {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut hash = self.number(bytes.len() as u64);
        for word in words {
            hash = hash.number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash.number(u64::from_le_bytes(last))
    }

    /// The hash of all that was taken in.
    pub(crate) fn finish(self) -> u64 {
        self.number(0).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_bit_and_every_boundary_counts() {
        let mut seen = BTreeSet::new();
        for len in 0..20 {
            for bit in 0..len * 8 {
                let mut bytes = vec![0; len];
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(Hash::new().bytes(&bytes).finish()), "len {len} bit {bit}");
            }
        }
        for cut in 0..4 {
            let (left, right) = b"abc".split_at(cut);
            assert!(seen.insert(Hash::new().bytes(left).bytes(right).finish()), "cut {cut}");
        }
    }
}
