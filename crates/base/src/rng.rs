//! A small seeded generator, so that one seed gives one run on every machine and version.
//!
//! For timeouts, choices and simulations; never for secrets.

/// SplitMix64: one word of state, passes the usual test suites, never gets stuck.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Equal seeds give equal streams.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "a generator without end is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, limit)`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // Multiply-shift; its bias at these limits is far below what any caller could notice.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// True once in `n` calls on average; never when `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// A generator of its own for a part of the run, so that one more draw here moves nothing
    /// there.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams_and_limits_hold() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for limit in 1..1_000 {
            let drawn = a.below(limit);
            assert_eq!(drawn, b.below(limit));
            assert!(drawn < limit);
        }
        assert_eq!(a.below(0), 0);
        assert!(!a.one_in(0));
    }
}
