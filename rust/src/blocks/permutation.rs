//! A permutation of `0..n` that is computed, not stored.

use crate::blocks::rng::mix64;

const ROUNDS: u64 = 6;

/// A Feistel network over the smallest even number of bits that holds `n`, walked until the result
/// is below `n` (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Each round is
/// a bijection, so this is one, for any round function.
#[derive(Clone, Debug)]
pub struct Permutation {
    length: u64,
    half: u32,
    keys: [u64; ROUNDS as usize],
}

impl Permutation {
    /// `length` is at most 2**63.
    pub fn new(key: u64, length: u64) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        Self {
            length,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|round| mix64(key, round as u64)),
        }
    }

    /// Where the permutation takes `position`, which is below `length`.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        let mut value = position;
        loop {
            value = self.network(value);
            if value < self.length {
                return value;
            }
        }
    }

    #[inline]
    fn network(&self, value: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix64(key, right) & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gives_a_bijection() {
        for length in (1..70).chain([255, 256, 257, 1000, 4097]) {
            let permutation = Permutation::new(length ^ 5, length);
            let mut seen = vec![false; length as usize];
            for position in 0..length {
                let there = permutation.at(position) as usize;
                assert!(!std::mem::replace(&mut seen[there], true));
            }
        }
    }

    #[test]
    fn the_longest_length_works() {
        let permutation = Permutation::new(3, 1 << 63);
        let there: Vec<u64> = (0..4).map(|i| permutation.at(i)).collect();
        assert!(there.iter().all(|&value| value < 1 << 63));
        assert!(there.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn places_are_spread_evenly() {
        // Over many keys, each of 5 values comes first about as often: chi-squared with 4 degrees
        // of freedom exceeds 18.5 once in a thousand.
        let mut counts = [0f64; 5];
        for key in 0..5000 {
            counts[Permutation::new(key, 5).at(0) as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 18.5, "{counts:?}");
    }
}
