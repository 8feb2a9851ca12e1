//! SipHash-2-4 with 128 bits of output: what the cleaner knows a key by.
//!
//! Keyed, so that who writes keys cannot make two of them look alike; the seed is another one in
//! each round and never leaves the process. (Aumasson and Bernstein, "SipHash: a fast short-input
//! PRF".)

/// Hashes `bytes` under a key of two words.
pub(crate) fn hash([k0, k1]: [u64; 2], bytes: &[u8]) -> [u64; 2] {
    let mut state = State {
        v0: k0 ^ 0x736f_6d65_7073_6575,
        v1: k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        v2: k0 ^ 0x6c79_6765_6e65_7261,
        v3: k1 ^ 0x7465_6462_7974_6573,
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.take(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    state.take(u64::from_le_bytes(last));
    state.v2 ^= 0xee;
    let first = state.finish();
    state.v1 ^= 0xdd;
    [first, state.finish()]
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    fn take(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    fn finish(&mut self) -> u64 {
        (0..4).for_each(|_| self.round());
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of the vectors that its authors published for 128 bits: no bytes, and one.
    #[test]
    fn it_is_what_its_authors_say() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes = |[a, b]: [u64; 2]| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let empty = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        assert_eq!(bytes(hash(key, &[])), empty);
        let one = [
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45,
        ];
        assert_eq!(bytes(hash(key, &[0])), one);
    }

    #[test]
    fn each_byte_and_the_length_count() {
        let mut seen = std::collections::BTreeSet::new();
        for len in 0..40usize {
            assert!(seen.insert(hash([1, 2], &vec![0; len])));
            for at in 0..len {
                let mut bytes = vec![0; len];
                bytes[at] = 1;
                assert!(seen.insert(hash([1, 2], &bytes)), "byte {at} of {len}");
            }
        }
        assert_ne!(hash([1, 2], b"k"), hash([1, 3], b"k"));
        assert_ne!(hash([1, 2], b"k"), hash([2, 2], b"k"));
    }
}
