//! Reading the coefficients of a block that holds them all.

use super::bits::Bits;
use super::huffman::{NoCode, Table, END, FAST};
use super::huffman::{Pair, Pairs, PART};
use super::transform::{Block, PLACES};
use std::rc::Rc;

/// A component of a scan.
pub struct ScanComponent<'a> {
    pub dc: &'a Table,
    pub ac: &'a Table,
    pub pairs: Rc<Pairs>,
    pub factors: Block,
    /// Which of the planes.
    pub plane: usize,
    /// The DC coefficient of the block before.
    pub before: i32,
}

/// Room for the coefficients of a block, and for those that lie beyond: for all that a byte can say.
pub type Room = [i16; 256];

impl ScanComponent<'_> {
    /// Reads a block; returns the position of its last coefficient, at most.
    #[inline(always)]
    pub fn read<const KEEP: bool>(
        &mut self,
        bits: &mut Bits,
        room: &mut Room,
    ) -> Result<usize, NoCode> {
        let mut here = *bits; // In registers.
        here.refill();
        let last = match self.dc.number(&mut here) {
            Ok((_, difference)) => {
                self.before = self.before.wrapping_add(difference);
                self.rest::<KEEP>(&mut here, room)
            }
            Err(error) => Err(error),
        };
        *bits = here;
        last
    }

    /// Reads all coefficients but the first.
    #[inline(always)]
    fn rest<const KEEP: bool>(&self, bits: &mut Bits, room: &mut Room) -> Result<usize, NoCode> {
        let mut put = |k: usize, value: i16| {
            if KEEP {
                room[usize::from(PLACES[k % PLACES.len()])] = value;
            }
        };
        let mut k = 1;
        'refilled: loop {
            bits.refill();
            for _ in 0..LOOKUPS {
                let pair = self.pairs.at(bits.peek(FAST));
                let [first, second] = pair.values();
                put(k + pair.first(), first);
                put(k + pair.second(), second);
                let next = k + pair.next();
                if next < 64 {
                    bits.consume_by(pair.word());
                    k = next;
                    continue;
                }
                let last = k + pair.second() - 1;
                if (END..PART).contains(&next) && last < 63 {
                    bits.consume_by(pair.word());
                    return Ok(last);
                }
                if next < PART {
                    return self.filled(pair, k, bits);
                }
                bits.refill();
                let (run, value) = self.long(pair, bits)?;
                if k + run > 63 {
                    return if run == END { Ok(k - 1) } else { Err(NoCode) };
                }
                put(k + run, value as i16);
                k += run + 1;
                if k > 63 {
                    return Ok(63);
                }
                continue 'refilled;
            }
        }
    }

    /// The next number, too long for a look-up, and the zeros before it, or `END`.
    #[inline(always)]
    fn long(&self, component: Pair, bits: &mut Bits) -> Result<(usize, i32), NoCode> {
        if component.bits() == 0 {
            return self.ac.number(bits);
        }
        bits.consume(component.bits());
        Ok((component.first(), bits.signed(component.second() as u32)))
    }

    /// After a pair which fills the block from `k` on.
    #[inline(always)]
    fn filled(&self, pair: Pair, k: usize, bits: &mut Bits) -> Result<usize, NoCode> {
        match (k + pair.first(), k + pair.next()) {
            (63, _) => {
                let first = self.ac.short(bits.peek(FAST)).ok_or(NoCode)?;
                bits.consume(first.bits);
                Ok(63)
            }
            (_, 64) => {
                bits.consume_by(pair.word());
                Ok(63)
            }
            _ => Err(NoCode),
        }
    }
}

/// Of 56 bits so many look-ups are certain to be served.
const LOOKUPS: usize = 5;

#[cfg(test)]
mod tests {
    use super::super::bits::{extended, Entropy};
    use super::*;

    /// As many codes of each length as a usual table has, short ones for what is frequent.
    fn table() -> Table {
        let counts = [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125];
        let frequent = [1, 2, 3, 4, 0x11, 0, 5, 0x12, 0x21, 0x31, 0xf0];
        let mut symbols: Vec<u8> = frequent.to_vec();
        let all = (0..16u8).flat_map(|run| (1..=10).map(move |size| run << 4 | size));
        symbols.extend(all.filter(|symbol| !frequent.contains(symbol)));
        assert_eq!(symbols.len(), 162);
        Table::new(&counts, &symbols).expect("a table")
    }

    /// A block's coefficients but the first, symbol by symbol.
    fn plainly(bits: &mut Bits, table: &Table) -> Option<[i16; 64]> {
        let mut block = [0; 64];
        let mut k = 1;
        while k < 64 {
            bits.refill();
            let symbol = table.symbol(bits).ok()?;
            let size = u32::from(symbol & 15);
            if symbol == 0 {
                break;
            }
            k += usize::from(symbol >> 4);
            let value = extended(bits.take(size), size);
            *block.get_mut(k)? = value as i16;
            k += 1;
        }
        Some(block)
    }

    #[test]
    fn look_ups_give_what_symbols_give() {
        let (ac, dc) = (
            table(),
            Table::new(&[0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0; 4]),
        );
        let dc = dc.expect("a table");
        let mut component = ScanComponent {
            dc: &dc,
            ac: &ac,
            pairs: Rc::new(Pairs::new(&ac)),
            factors: [1; 64],
            plane: 0,
            before: 0,
        };
        let (mut state, mut whole) = (1u64, 0);
        let bytes: Vec<u8> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                ((state >> 56) as u8).min(0xfe)
            })
            .collect();
        for bytes in bytes.chunks(200) {
            let entropy = Entropy::read(bytes, 0).0;
            let mut bits = entropy.segment(0).expect("a segment");
            let mut plain = bits;
            while !plain.overrun() {
                plain.refill();
                plain.consume(2); // The code of the first.
                let wanted = plainly(&mut plain, &ac);
                let mut room = [0; 256];
                let read = component.read::<true>(&mut bits, &mut room);
                let Some(wanted) = wanted else {
                    assert!(read.is_err());
                    break;
                };
                let last = read.ok().expect("a block");
                for (k, &value) in wanted.iter().enumerate() {
                    assert_eq!(value, room[usize::from(PLACES[k])], "coefficient {k}");
                    assert!(value == 0 || k <= last, "{k} lies behind {last}");
                }
                whole += 1;
            }
        }
        assert!(whole > 2_000, "{whole} blocks");
    }
}
