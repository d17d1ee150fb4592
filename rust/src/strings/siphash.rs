//! SipHash-2-4, the keyed hash of TensorFlow's `to_hash_bucket_strong`.

struct State([u64; 4]);

impl State {
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }

    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }
}

/// The hash of a text under a key.
pub fn siphash(key: [u64; 2], text: &[u8]) -> u64 {
    let mut state = State([
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ]);
    let words = text.chunks_exact(8);
    let mut last = (text.len() as u64) << 56;
    for (place, &byte) in words.remainder().iter().enumerate() {
        last |= u64::from(byte) << (8 * place);
    }
    for word in words {
        state.absorb(
            word.iter()
                .rev()
                .fold(0, |all, &byte| all << 8 | u64::from(byte)),
        );
    }
    state.absorb(last);
    state.0[2] ^= 0xff;
    (0..4).for_each(|_| state.round());
    state.0.iter().fold(0, |all, part| all ^ part)
}
