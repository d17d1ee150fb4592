//! Random numbers that are the same on every platform and in every release of the library.

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit integers.
fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Derives a key from two others; `mix64(a, b)` and `mix64(b, a)` differ.
pub fn mix64(a: u64, b: u64) -> u64 {
    let hashed = finalize(a.wrapping_add(GOLDEN_GAMMA));
    finalize((hashed ^ b).wrapping_add(GOLDEN_GAMMA))
}

/// xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64 as its authors advise.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub fn new(key: u64) -> Self {
        let mut seed = key;
        let state = std::array::from_fn(|_| {
            seed = seed.wrapping_add(GOLDEN_GAMMA);
            finalize(seed)
        });
        Self { state }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform integer in `[0, bound)`, without modulo bias (Lemire, 2019). `bound` is not 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_seeding_gives_the_published_sequence() {
        // The first outputs of the reference splitmix64.c for the seed 1234567.
        let rng = Rng::new(1_234_567);
        assert_eq!(
            rng.state,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
            ]
        );
    }

    #[test]
    fn xoshiro_gives_the_published_sequence() {
        // The first outputs of the reference xoshiro256plusplus.c for the state 1, 2, 3, 4.
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let drawn: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
            ]
        );
    }

    #[test]
    fn draws_stay_below_their_bound() {
        let mut rng = Rng::new(7);
        for bound in [1, 2, 3, 1 << 33, u64::MAX] {
            assert!((0..1000).all(|_| rng.below(bound) < bound));
        }
    }

    #[test]
    fn keys_depend_on_the_order_of_their_parts() {
        assert_ne!(mix64(1, 2), mix64(2, 1));
        assert_ne!(mix64(0, 0), 0);
    }
}
