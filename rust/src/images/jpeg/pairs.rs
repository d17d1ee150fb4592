//! Coefficients by two: most codes are so short that one look-up finds two of them.

use super::huffman::{Number, Table, END, FAST};

/// For the next `FAST` bits, the one or two coefficients that they begin with.
pub struct Pairs([Pair; 1 << FAST]);

impl Pairs {
    pub fn new(table: &Table) -> Self {
        let mut pairs = [Pair(0); 1 << FAST];
        for (next, pair) in pairs.iter_mut().enumerate() {
            if let Some(first) = table.short(next) {
                let rest = (next << first.bits) % (1 << FAST);
                let fits = |second: &Number| first.bits + second.bits <= FAST;
                *pair = Pair::new(&first, table.short(rest).filter(fits));
            }
        }
        Self(pairs)
    }

    /// Nothing if not even one is found.
    #[inline(always)]
    pub fn at(&self, next: usize) -> Option<Pair> {
        let pair = self.0[next % (1 << FAST)];
        (pair.0 != 0).then_some(pair)
    }
}

/// From the lowest byte: the bits of both, the bits of the first, the run before the first, the step
/// from it to the second, two bytes of the first value, the second value, the step from the first
/// to what follows.
///
/// Where there is but one, the second value is 0 and stands behind the first.
#[derive(Clone, Copy)]
pub struct Pair(u64);

impl Pair {
    fn new(first: &Number, second: Option<Number>) -> Self {
        let value = u64::from(first.value as u16);
        let alone = u64::from(first.bits) << 8 | (first.run as u64) << 16 | value << 32;
        let small = second.and_then(|second| Some((i8::try_from(second.value).ok()?, second)));
        let (bits, step, value, next) = match small {
            _ if first.run == END => (0, 1, 0, 1),
            None => (0, 1, 0, 1),
            Some((_, end)) if end.run == END => (end.bits, 1, 0, 1 + END),
            Some((value, number)) => (number.bits, number.run + 1, value as u8, number.run + 2),
        };
        let both = u64::from(first.bits + bits);
        Self(both | alone | (step as u64) << 24 | u64::from(value) << 48 | (next as u64) << 56)
    }

    /// The bits of both.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0 as u32 & 0xff
    }

    #[inline(always)]
    pub fn first_bits(self) -> u32 {
        self.byte(1) as u32
    }

    /// The zeros before the first, or `END`.
    #[inline(always)]
    pub fn run(self) -> usize {
        self.byte(2)
    }

    #[inline(always)]
    pub fn step(self) -> usize {
        self.byte(3)
    }

    #[inline(always)]
    pub fn first(self) -> i16 {
        (self.0 >> 32) as i16
    }

    #[inline(always)]
    pub fn second(self) -> i16 {
        i16::from((self.0 >> 48) as i8)
    }

    /// From the first to what follows both; more than `END` if the block ends.
    #[inline(always)]
    pub fn next(self) -> usize {
        self.byte(7)
    }

    #[inline(always)]
    fn byte(self, number: u32) -> usize {
        (self.0 >> (8 * number)) as usize & 0xff
    }
}
