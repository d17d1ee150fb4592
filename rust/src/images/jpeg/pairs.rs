//! Coefficients by two: most codes are so short that one look-up finds two of them.

use super::huffman::{Number, Start, Table, END, FAST};

/// For the next `FAST` bits, the one or two coefficients that they begin with.
pub struct Pairs([Pair; 1 << FAST]);

impl Pairs {
    pub fn new(table: &Table) -> Self {
        let mut pairs = [Pair(0); 1 << FAST];
        for (next, pair) in pairs.iter_mut().enumerate() {
            *pair = match table.start(next) {
                Start::Number(first) => {
                    let rest = (next << first.bits) % (1 << FAST);
                    let fits = |second: &Number| first.bits + second.bits <= FAST;
                    Pair::new(&first, table.short(rest).filter(fits))
                }
                Start::Symbol { length, run, size } => Pair::part(length, run, size),
                Start::Unknown => Pair::part(0, 0, 0),
            };
        }
        Self(pairs)
    }

    #[inline(always)]
    pub fn at(&self, next: usize) -> Pair {
        self.0[next % (1 << FAST)]
    }
}

/// From the lowest byte: the bits of both; the steps from here to the first coefficient, to the
/// second, and to what follows both; two bytes of the first value, and two of the second.
///
/// Where there is but one, the second value is 0 and stands behind the first; where there is none, both
/// are 0.
#[derive(Clone, Copy)]
pub struct Pair(u64);

/// The step of bits that are not all of a coefficient, and more than other steps lead to.
pub const PART: usize = 255;

impl Pair {
    #[inline(always)]
    fn new(first: &Number, second: Option<Number>) -> Self {
        let (bits, run, value) = (first.bits, first.run, first.value);
        let after = run + 1;
        match second {
            _ if run == END => Self::packed(bits, [0, 0, END], [0, 0]),
            None => Self::packed(bits, [run, after, after], [value, 0]),
            Some(end) if end.run == END => {
                Self::packed(bits + end.bits, [run, after, after + END], [value, 0])
            }
            Some(second) => {
                let place = after + second.run;
                let values = [value, second.value];
                Self::packed(bits + second.bits, [run, place, place + 1], values)
            }
        }
    }

    /// A code, of known length or of 0, without its number.
    fn part(length: u32, run: usize, size: u32) -> Self {
        Self::packed(length, [run, size as usize, PART], [0, 0])
    }

    #[inline(always)]
    fn packed(bits: u32, steps: [usize; 3], values: [i32; 2]) -> Self {
        let [first, second, next] = steps;
        let steps = first << 8 | second << 16 | next << 24;
        let [first, second] = values; // Not `map`: it is not inlined, and there are thousands.
        let values = u64::from(first as u16) << 32 | u64::from(second as u16) << 48;
        Self(u64::from(bits) | steps as u64 | values)
    }

    /// All of it, whose last bits are those of `bits`.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The bits of both.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0 as u32 & 0xff
    }

    /// From here to the first.
    #[inline(always)]
    pub fn first(self) -> usize {
        self.byte(1)
    }

    /// From here to the second, or behind the last; of a part, the bits of its number.
    #[inline(always)]
    pub fn second(self) -> usize {
        self.byte(2)
    }

    /// From here to what follows both; `END` or more if the block ends.
    #[inline(always)]
    pub fn next(self) -> usize {
        self.byte(3)
    }

    #[inline(always)]
    pub fn values(self) -> [i16; 2] {
        [(self.0 >> 32) as i16, (self.0 >> 48) as i16]
    }

    #[inline(always)]
    fn byte(self, number: u32) -> usize {
        (self.0 >> (8 * number)) as usize & 0xff
    }
}
