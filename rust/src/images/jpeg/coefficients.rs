//! Reading the coefficients of a block that holds them all.

use super::bits::Bits;
use super::huffman::{NoCode, Table, END, FAST};
use super::order::{Block, PLACES};
use super::pairs::{Pair, Pairs, PART};
use std::rc::Rc;

/// One component's part in a scan.
pub struct Part<'a> {
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

impl Part<'_> {
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
                    bits.consume(pair.bits());
                    k = next;
                    continue;
                }
                let last = k + pair.second() - 1;
                if (END..PART).contains(&next) && last < 63 {
                    bits.consume(pair.bits());
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
    fn long(&self, part: Pair, bits: &mut Bits) -> Result<(usize, i32), NoCode> {
        if part.bits() == 0 {
            return self.ac.number(bits);
        }
        bits.consume(part.bits());
        Ok((part.first(), bits.signed(part.second() as u32)))
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
                bits.consume(pair.bits());
                Ok(63)
            }
            _ => Err(NoCode),
        }
    }
}

/// Of 56 bits so many look-ups are certain to be served.
const LOOKUPS: usize = 5;
