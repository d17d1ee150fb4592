//! Tables of Huffman codes. Most codes are so short that one look-up finds two coefficients.

use super::bits::{extended, Bits};

/// Codes up to this length, with the number that follows them, are decoded by one look-up.
pub const FAST: u32 = 11;

/// The code is not in the table.
pub struct NoCode;

/// A table of codes of up to 16 bits.
#[derive(Clone)]
pub struct Table {
    /// For the next bits: a symbol's number << 16 | its upper half << 8 | bits used; or 0.
    numbers: Box<[i32; 1 << FAST]>,
    /// For the next bits: a symbol << 8 | the length of its code; or 0.
    symbols: Box<[u16; 1 << FAST]>,
    /// One more than the largest code of each length, as 16 bits.
    limits: [u32; 17],
    /// What to add to a code of each length to get the position of its symbol.
    shifts: [i32; 17],
    values: [u8; 256],
}

/// A number in a file: the bits of its code and its own, and the zeros before it, or `END`.
pub struct Number {
    pub bits: u32,
    pub run: usize,
    pub value: i32,
}

/// What `FAST` bits begin with.
pub enum Start {
    Number(Number),
    /// A code of a length, the zeros before a number, and the number's bits.
    Symbol {
        length: u32,
        run: usize,
        size: u32,
    },
    Unknown,
}

/// The run of symbols that end a block.
pub const END: usize = 128;

/// The symbol of 16 zeros.
const ZEROS: u8 = 0xf0;

impl Table {
    /// Codes of the given number for each length of 1 to 16, and the symbols in order.
    ///
    /// Nothing if there are more codes of a length than it has bits for.
    pub fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            numbers: Box::new([0; 1 << FAST]),
            symbols: Box::new([0; 1 << FAST]),
            limits: [0; 17],
            shifts: [0; 17],
            values: [0; 256],
        };
        table.values[..symbols.len()].copy_from_slice(symbols);
        let (mut code, mut position) = (0u32, 0);
        for length in 1..=16u32 {
            let count = u32::from(counts[length as usize - 1]);
            table.shifts[length as usize] = position as i32 - code as i32;
            for _ in 0..count {
                if code >> length != 0 {
                    return None;
                }
                table.enter(code, length, symbols[position]);
                code += 1;
                position += 1;
            }
            if code > 1 << length {
                return None;
            }
            table.limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Some(table)
    }

    fn enter(&mut self, code: u32, length: u32, symbol: u8) {
        if length > FAST {
            return;
        }
        let free = FAST - length;
        let first = (code << free) as usize;
        let size = u32::from(symbol & 15);
        let places = first..first + (1 << free);
        self.symbols[places.clone()].fill(u16::from(symbol) << 8 | length as u16);
        if size > free {
            return;
        }
        let rest = (run_of(symbol) as i32) << 8 | (length + size) as i32;
        let numbers = self.numbers[places].chunks_exact_mut(1 << (free - size));
        for (value, places) in numbers.enumerate() {
            places.fill(extended(value as i32, size) << 16 | rest);
        }
    }

    /// What the next bits stand for, if it takes no more than `FAST` of them.
    #[inline(always)]
    pub fn short(&self, next: usize) -> Option<Number> {
        let entry = self.numbers[next];
        (entry != 0).then_some(Number {
            bits: entry as u32 & 0xff,
            run: (entry >> 8) as usize & 0xff,
            value: entry >> 16,
        })
    }

    /// What the next bits begin with.
    pub fn start(&self, next: usize) -> Start {
        if let Some(number) = self.short(next) {
            return Start::Number(number);
        }
        match self.symbols[next] {
            0 => Start::Unknown,
            entry => {
                let symbol = (entry >> 8) as u8;
                let (length, size) = (u32::from(entry & 0xff), u32::from(symbol & 15));
                let run = run_of(symbol);
                Start::Symbol { length, run, size }
            }
        }
    }

    /// The next number and what stands before it; the bits for both are ready.
    #[inline(always)]
    pub fn number(&self, bits: &mut Bits) -> Result<(usize, i32), NoCode> {
        if let Some(found) = self.short(bits.peek(FAST)) {
            bits.consume(found.bits);
            return Ok((found.run, found.value));
        }
        let symbol = self.symbol(bits)?;
        Ok((run_of(symbol), bits.signed(u32::from(symbol & 15))))
    }

    /// The next symbol; the bits for it are ready.
    #[inline(always)]
    pub fn symbol(&self, bits: &mut Bits) -> Result<u8, NoCode> {
        let entry = self.symbols[bits.peek(FAST)];
        if entry != 0 {
            bits.consume(u32::from(entry & 0xff));
            return Ok((entry >> 8) as u8);
        }
        let (symbol, length) = self.long_symbol(bits.peek(16) as u32)?;
        bits.consume(length);
        Ok(symbol)
    }

    /// The symbol that 16 bits begin with, and the length of its code.
    #[cold]
    fn long_symbol(&self, next: u32) -> Result<(u8, u32), NoCode> {
        let length = (1..=16).find(|&n| next < self.limits[n]).ok_or(NoCode)?;
        let position = (next >> (16 - length)) as i32 + self.shifts[length];
        let value = usize::try_from(position)
            .ok()
            .and_then(|p| self.values.get(p));
        Ok((*value.ok_or(NoCode)?, length as u32))
    }
}

/// The zeros before a coefficient, by the symbol of its code, or `END`.
#[inline(always)]
fn run_of(symbol: u8) -> usize {
    if symbol & 15 == 0 && symbol != ZEROS {
        END
    } else {
        usize::from(symbol >> 4)
    }
}

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
