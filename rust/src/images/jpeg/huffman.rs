//! Tables of Huffman codes.

use super::bits::{extended, Bits};

/// Codes up to this length, with the number that follows them, are decoded by one look-up.
const FAST: u32 = 10;

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

/// A symbol that ends a block, as the run that stands in `numbers`.
pub const END: usize = 128;

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
        for below in 0..1usize << free {
            self.symbols[first + below] = u16::from(symbol) << 8 | length as u16;
            if size > free {
                continue;
            }
            let number = extended((below >> (free - size)) as i32, size);
            let run = if symbol == 0 {
                END as i32
            } else {
                i32::from(symbol >> 4)
            };
            self.numbers[first + below] = number << 16 | run << 8 | (length + size) as i32;
        }
    }

    /// The next number and what stands before it; the bits for both are ready.
    ///
    /// For symbols of AC coefficients: a run of zeros, or `END`.
    #[inline(always)]
    pub fn number(&self, bits: &mut Bits) -> Result<(usize, i32), NoCode> {
        match self.short(bits) {
            Some(found) => Ok(found),
            None => self.long(bits),
        }
    }

    /// As `number`, if both take no more than `FAST` bits.
    #[inline(always)]
    pub fn short(&self, bits: &mut Bits) -> Option<(usize, i32)> {
        let entry = self.numbers[bits.peek(FAST)];
        bits.consume(entry as u32 & 0xff);
        (entry != 0).then_some(((entry >> 8) as usize & 0xff, entry >> 16))
    }

    /// As `number`, however many bits they take.
    #[inline(always)]
    pub fn long(&self, bits: &mut Bits) -> Result<(usize, i32), NoCode> {
        let symbol = self.symbol(bits)?;
        let number = bits.signed(u32::from(symbol & 15));
        let run = if symbol == 0 {
            END
        } else {
            usize::from(symbol >> 4)
        };
        Ok((run, number))
    }

    /// The next symbol; the bits for it are ready.
    #[inline(always)]
    pub fn symbol(&self, bits: &mut Bits) -> Result<u8, NoCode> {
        let entry = self.symbols[bits.peek(FAST)];
        if entry != 0 {
            bits.consume(u32::from(entry & 0xff));
            return Ok((entry >> 8) as u8);
        }
        self.long_symbol(bits)
    }

    #[cold]
    fn long_symbol(&self, bits: &mut Bits) -> Result<u8, NoCode> {
        let next = bits.peek(16) as u32;
        let length = (1..=16).find(|&n| next < self.limits[n]).ok_or(NoCode)?;
        let position = (next >> (16 - length)) as i32 + self.shifts[length];
        bits.consume(length as u32);
        let value = usize::try_from(position)
            .ok()
            .and_then(|p| self.values.get(p));
        value.copied().ok_or(NoCode)
    }
}
