//! Inputs made of others by changes that often break parsers.

use _core::blocks::rng::Rng;

/// Inputs do not grow beyond this.
const LONGEST: usize = 1 << 16;

/// Numbers at the ends of what integers can hold.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// The inputs of a run.
pub struct Inputs {
    seeds: Vec<Vec<u8>>,
    rng: Rng,
}

impl Inputs {
    pub fn new(seeds: Vec<Vec<u8>>) -> Self {
        let rng = Rng::new(seeds.len() as u64);
        Self { seeds, rng }
    }

    /// The seed whose turn it is, with one to four changes.
    pub fn next(&mut self, turn: usize) -> Vec<u8> {
        let mut bytes = self.seeds[turn % self.seeds.len()].clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn below(&mut self, end: usize) -> usize {
        (self.rng.next_u64() % end.max(1) as u64) as usize
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(8) {
            _ if bytes.is_empty() => bytes.push(self.below(256) as u8),
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..self.end(at, bytes.len()))),
            4 => self.copy(bytes, at),
            5 => self.graft(bytes, at),
            6 => self.edge(bytes, at),
            _ => {
                let step = self.below(9) as u8;
                bytes[at] = bytes[at].wrapping_add(step).wrapping_sub(4);
            }
        }
    }

    /// Where a piece from `at` on ends, which is mostly short.
    fn end(&mut self, at: usize, length: usize) -> usize {
        let most = if self.below(4) == 0 { length } else { 16 };
        (at + 1 + self.below(most)).min(length)
    }

    /// Repeats a piece of the input at another place of it, many times once in a while.
    fn copy(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let end = self.end(at, bytes.len());
        let times = if self.below(8) == 0 { 64 } else { 1 };
        let piece = bytes[at..end].repeat(times);
        let place = self.below(bytes.len());
        bytes.splice(place..place, piece);
    }

    /// Puts a piece of a seed in place of what is there.
    fn graft(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let number = self.below(self.seeds.len());
        let length = self.seeds[number].len();
        let start = self.below(length);
        let stop = self.end(start, length);
        let piece = self.seeds[number][start..stop].to_vec();
        let end = self.end(at, bytes.len());
        bytes.splice(at..end, piece);
    }

    /// Writes an integer of one to eight bytes over what is there.
    fn edge(&mut self, bytes: &mut [u8], at: usize) {
        let value = EDGES[self.below(EDGES.len())];
        let width = 1 << self.below(4);
        let little = value.to_le_bytes();
        let mut digits = little[..width].to_vec();
        if self.below(2) == 0 {
            digits.reverse();
        }
        let fits = width.min(bytes.len() - at);
        bytes[at..at + fits].copy_from_slice(&digits[..fits]);
    }
}
