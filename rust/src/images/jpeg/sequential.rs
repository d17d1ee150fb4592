//! Scans whose blocks hold all of their coefficients: read and transformed block by block.

#[cfg(target_arch = "x86_64")]
use super::super::vectorized::has_avx2;
use super::bits::{Bits, Entropy};
use super::huffman::{NoCode, Table, END, FAST};
use super::order::{Block, NOWHERE, PLACES};
use super::pairs::{Pair, Pairs};
use super::plane::Plane;
use super::scan::{Blocks, Stopped, Units};
#[cfg(target_arch = "x86_64")]
use super::transform::Wide;
use super::transform::{flat, transform_by, Lanes, Plain};
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

/// Room for the coefficients of a block, and for those that lie beyond.
type Room = [i16; 2 * NOWHERE];

pub struct Sequential<'a> {
    parts: Vec<Part<'a>>,
    planes: &'a mut [Plane],
    /// Zeros between blocks, of a whole block.
    room: Room,
}

impl<'a> Sequential<'a> {
    pub fn new(parts: Vec<Part<'a>>, planes: &'a mut [Plane]) -> Self {
        Self {
            parts,
            planes,
            room: [0; 2 * NOWHERE],
        }
    }

    /// Reads a block, and writes its samples where they are needed.
    #[inline(always)]
    fn block<L: Lanes>(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode> {
        let part = &mut self.parts[slot];
        let plane = &mut self.planes[part.plane];
        let place = plane.place(row, column);
        let Some(place) = place.filter(|_| plane.size > 1) else {
            part.read::<false>(bits, &mut self.room)?;
            if let Some(place) = place {
                let samples = &mut plane.samples[place..];
                flat(part.before as i16, &part.factors, 1, samples, plane.stride);
            }
            return Ok(());
        };
        let last = part.read::<true>(bits, &mut self.room)?;
        let (samples, dc) = (&mut plane.samples[place..], part.before as i16);
        if last == 0 {
            flat(dc, &part.factors, plane.size, samples, plane.stride);
            return Ok(());
        }
        let block: &mut Block = self.room.first_chunk_mut().expect("room for a block");
        block[0] = dc;
        transform_by::<L>(block, &part.factors, plane.size, samples, plane.stride);
        block.fill(0);
        Ok(())
    }
}

impl Part<'_> {
    /// Reads a block; returns the position of its last coefficient, at most.
    #[inline(always)]
    fn read<const KEEP: bool>(
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
                room[usize::from(PLACES[k % PLACES.len()]) % (2 * NOWHERE)] = value;
            }
        };
        let mut k = 1;
        'refilled: loop {
            bits.refill();
            for _ in 0..SHORT {
                let Some(pair) = self.pairs.at(bits.peek(FAST)) else {
                    let (run, value) = self.ac.number(bits)?;
                    k += run;
                    if k > 63 {
                        return ended(run, k);
                    }
                    put(k, value as i16);
                    k += 1;
                    if k > 63 {
                        return Ok(63);
                    }
                    continue 'refilled;
                };
                let first = k + pair.run();
                if first > 63 {
                    bits.consume(pair.first_bits());
                    return ended(pair.run(), first);
                }
                put(first, pair.first());
                put(first + pair.step(), pair.second());
                k = first + pair.next();
                if k > 63 {
                    return completed(pair, first, bits);
                }
                bits.consume(pair.bits());
            }
        }
    }
}

/// Of 56 bits so many look-ups are certain to be served, the last for the longest code.
const SHORT: usize = 3;

/// After a run to beyond the block: its last coefficient, if that is how blocks end.
#[inline(always)]
fn ended(run: usize, k: usize) -> Result<usize, NoCode> {
    match run {
        END => Ok(k - END - 1),
        _ => Err(NoCode),
    }
}

/// After a pair of which not both belong in the block, or which fills it.
#[inline(always)]
fn completed(pair: Pair, first: usize, bits: &mut Bits) -> Result<usize, NoCode> {
    if first == 63 {
        bits.consume(pair.first_bits());
        return Ok(63);
    }
    bits.consume(pair.bits());
    match first + pair.next() {
        64 => Ok(63),
        next if next > END => Ok(first),
        _ => Err(NoCode),
    }
}

impl Blocks for Sequential<'_> {
    fn restart(&mut self) {
        for part in &mut self.parts {
            part.before = 0;
        }
    }

    fn read(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode> {
        self.block::<Plain>(bits, slot, row, column)
    }
}

/// Where the processor has AVX2.
#[cfg(target_arch = "x86_64")]
struct Widely<'a>(Sequential<'a>);

#[cfg(target_arch = "x86_64")]
impl Blocks for Widely<'_> {
    fn restart(&mut self) {
        self.0.restart();
    }

    fn read(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode> {
        // SAFETY: the processor has the instructions.
        unsafe { wide_block(&mut self.0, bits, slot, row, column) }
    }
}

/// As `Sequential::block`.
///
/// # Safety
/// The processor has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn wide_block(
    blocks: &mut Sequential,
    bits: &mut Bits,
    slot: usize,
    row: usize,
    column: usize,
) -> Result<(), NoCode> {
    blocks.block::<Wide>(bits, slot, row, column)
}

/// Reads the first `rows` of a scan's units, with `restart` units between restart markers.
pub fn read(
    units: &Units,
    entropy: &Entropy,
    bytes: &[u8],
    restart: usize,
    rows: usize,
    mut blocks: Sequential,
) -> Result<(), Stopped> {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        return units.read(entropy, bytes, restart, rows, &mut Widely(blocks));
    }
    units.read(entropy, bytes, restart, rows, &mut blocks)
}
