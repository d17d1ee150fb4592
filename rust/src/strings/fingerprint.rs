//! Hashes by which TensorFlow sorts strings into buckets: FarmHash's `Fingerprint64`, and the keyed
//! SipHash-2-4 of `to_hash_bucket_strong`.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

fn fetch64(text: &[u8], place: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&text[place..place + 8]);
    u64::from_le_bytes(word)
}

fn fetch32(text: &[u8], place: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&text[place..place + 4]);
    u64::from(u32::from_le_bytes(word))
}

fn shift_mix(value: u64) -> u64 {
    value ^ value >> 47
}

fn hash_16(u: u64, v: u64, factor: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(factor));
    shift_mix((v ^ a).wrapping_mul(factor)).wrapping_mul(factor)
}

fn factor(text: &[u8]) -> u64 {
    K2.wrapping_add(2 * text.len() as u64)
}

/// The fingerprint of a text.
pub fn fingerprint64(text: &[u8]) -> u64 {
    match text.len() {
        0..=16 => up_to_16(text),
        17..=32 => up_to_32(text),
        33..=64 => up_to_64(text),
        _ => longer(text),
    }
}

fn up_to_16(text: &[u8]) -> u64 {
    let length = text.len();
    match length {
        8.. => {
            let k = factor(text);
            let a = fetch64(text, 0).wrapping_add(K2);
            let b = fetch64(text, length - 8);
            let c = b.rotate_right(37).wrapping_mul(k).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(k);
            hash_16(c, d, k)
        }
        4..=7 => {
            let a = (length as u64).wrapping_add(fetch32(text, 0) << 3);
            hash_16(a, fetch32(text, length - 4), factor(text))
        }
        1..=3 => {
            let [a, b, c] = [text[0], text[length >> 1], text[length - 1]].map(u64::from);
            let y = a + (b << 8);
            let z = length as u64 + (c << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        0 => K2,
    }
}

fn up_to_32(text: &[u8]) -> u64 {
    let k = factor(text);
    let a = fetch64(text, 0).wrapping_mul(K1);
    let b = fetch64(text, 8);
    let c = fetch64(text, text.len() - 8).wrapping_mul(k);
    let d = fetch64(text, text.len() - 16).wrapping_mul(K2);
    let u = (a.wrapping_add(b).rotate_right(43))
        .wrapping_add(c.rotate_right(30))
        .wrapping_add(d);
    let v = a
        .wrapping_add(b.wrapping_add(K2).rotate_right(18))
        .wrapping_add(c);
    hash_16(u, v, k)
}

fn up_to_64(text: &[u8]) -> u64 {
    let (k, end) = (factor(text), text.len());
    let a = fetch64(text, 0).wrapping_mul(K2);
    let b = fetch64(text, 8);
    let c = fetch64(text, end - 8).wrapping_mul(k);
    let d = fetch64(text, end - 16).wrapping_mul(K2);
    let y = (a.wrapping_add(b).rotate_right(43))
        .wrapping_add(c.rotate_right(30))
        .wrapping_add(d);
    let z = hash_16(
        y,
        a.wrapping_add(b.wrapping_add(K2).rotate_right(18))
            .wrapping_add(c),
        k,
    );
    let e = fetch64(text, 16).wrapping_mul(k);
    let f = fetch64(text, 24);
    let g = y.wrapping_add(fetch64(text, end - 32)).wrapping_mul(k);
    let h = z.wrapping_add(fetch64(text, end - 24)).wrapping_mul(k);
    let u = (e.wrapping_add(f).rotate_right(43))
        .wrapping_add(g.rotate_right(30))
        .wrapping_add(h);
    let v = e
        .wrapping_add(f.wrapping_add(a).rotate_right(18))
        .wrapping_add(g);
    hash_16(u, v, k)
}

type Pair = (u64, u64);

fn weak_hash(text: &[u8], place: usize, a: u64, b: u64) -> Pair {
    let [w, x, y, z] = [0, 8, 16, 24].map(|step| fetch64(text, place + step));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let c = a;
    let a = a.wrapping_add(x).wrapping_add(y);
    let b = b.wrapping_add(a.rotate_right(44));
    (a.wrapping_add(z), b.wrapping_add(c))
}

struct Mixing {
    x: u64,
    y: u64,
    z: u64,
    v: Pair,
    w: Pair,
}

impl Mixing {
    fn new(text: &[u8]) -> Self {
        const SEED: u64 = 81;
        let y = SEED.wrapping_mul(K1).wrapping_add(113);
        Self {
            x: SEED.wrapping_mul(K2).wrapping_add(fetch64(text, 0)),
            y,
            z: shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
            v: (0, 0),
            w: (0, 0),
        }
    }

    /// Takes in the 64 bytes at `place`.
    fn absorb(&mut self, text: &[u8], place: usize, k: u64, weight: u64) {
        let fetch = |step: usize| fetch64(text, place + step);
        let x = self.x.wrapping_add(self.y).wrapping_add(self.v.0);
        self.x = x.wrapping_add(fetch(8)).rotate_right(37).wrapping_mul(k);
        let y = self.y.wrapping_add(self.v.1).wrapping_add(fetch(48));
        self.y = y.rotate_right(42).wrapping_mul(k);
        self.x ^= self.w.1.wrapping_mul(weight);
        let added = self.v.0.wrapping_mul(weight).wrapping_add(fetch(40));
        self.y = self.y.wrapping_add(added);
        self.z = self
            .z
            .wrapping_add(self.w.0)
            .rotate_right(33)
            .wrapping_mul(k);
        let seeds = (self.v.1.wrapping_mul(k), self.x.wrapping_add(self.w.0));
        self.v = weak_hash(text, place, seeds.0, seeds.1);
        let seeds = (
            self.z.wrapping_add(self.w.1),
            self.y.wrapping_add(fetch(16)),
        );
        self.w = weak_hash(text, place + 32, seeds.0, seeds.1);
        std::mem::swap(&mut self.z, &mut self.x);
    }
}

fn longer(text: &[u8]) -> u64 {
    let before_last = text.len() - 1;
    let mut mixing = Mixing::new(text);
    (0..before_last / 64).for_each(|block| mixing.absorb(text, 64 * block, K1, 1));
    let k = K1.wrapping_add((mixing.z & 0xff) << 1);
    mixing.w.0 = mixing.w.0.wrapping_add((before_last & 63) as u64);
    mixing.v.0 = mixing.v.0.wrapping_add(mixing.w.0);
    mixing.w.0 = mixing.w.0.wrapping_add(mixing.v.0);
    mixing.absorb(text, text.len() - 64, k, 9);
    let Mixing { x, y, z, v, w } = mixing;
    let first = hash_16(v.0, w.0, k)
        .wrapping_add(shift_mix(y).wrapping_mul(K0))
        .wrapping_add(z);
    hash_16(first, hash_16(v.1, w.1, k).wrapping_add(x), k)
}

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
