//! Scans that hold a few coefficients of each block, or some of their bits.

use super::bits::Bits;
use super::huffman::{NoCode, Table};
use super::markers::Scan;
use super::scan::Blocks;
use super::transform::{Block, PLACES};

/// The coefficients of one component, in the order of `PLACES`.
pub struct Coefficients {
    pub values: Vec<i16>,
    /// Blocks in a row, and beyond the image to a whole coded unit.
    pub columns: usize,
}

impl Coefficients {
    #[inline(always)]
    pub fn block(&mut self, row: usize, column: usize) -> &mut Block {
        let at = (row * self.columns + column) * 64;
        (&mut self.values[at..at + 64])
            .try_into()
            .expect("64 coefficients")
    }
}

/// A component of a scan.
pub struct ProgressiveComponent<'a> {
    /// Not there if the scan refines: codes are for its first pass alone.
    pub dc: Option<&'a Table>,
    pub ac: Option<&'a Table>,
    pub component: usize,
    pub before: i32,
}

pub struct Progressive<'a> {
    pub scan: &'a Scan,
    pub components: Vec<ProgressiveComponent<'a>>,
    pub coefficients: &'a mut [Coefficients],
    /// Blocks without further coefficients that follow.
    pub empty: u32,
}

impl Blocks for Progressive<'_> {
    fn restart(&mut self) {
        self.empty = 0;
        for component in &mut self.components {
            component.before = 0;
        }
    }

    #[inline(always)]
    fn read(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode> {
        let component = &mut self.components[slot];
        let block = self.coefficients[component.component].block(row, column);
        let (low, band) = (self.scan.low, self.scan.first..=self.scan.last);
        match (self.scan.first, self.scan.high) {
            (0, 0) => {
                bits.refill();
                let (_, difference) = component.dc.ok_or(NoCode)?.number(bits)?;
                component.before = component.before.wrapping_add(difference);
                block[0] = (component.before << low) as i16;
                Ok(())
            }
            (0, _) => {
                block[0] |= i16::from(bits.bit()) << low;
                Ok(())
            }
            (_, 0) => first(
                bits,
                component.ac.ok_or(NoCode)?,
                block,
                band,
                low,
                &mut self.empty,
            ),
            _ => refine(
                bits,
                component.ac.ok_or(NoCode)?,
                block,
                band,
                low,
                &mut self.empty,
            ),
        }
    }
}

type Band = std::ops::RangeInclusive<usize>;

/// How many blocks have no more coefficients, this one included.
#[inline(always)]
fn run_of_blocks(bits: &mut Bits, size: u32) -> u32 {
    bits.refill();
    (1 << size) + bits.take(size) as u32
}

#[inline(always)]
fn first(
    bits: &mut Bits,
    table: &Table,
    block: &mut Block,
    band: Band,
    low: u32,
    empty: &mut u32,
) -> Result<(), NoCode> {
    if *empty > 0 {
        *empty -= 1;
        return Ok(());
    }
    let mut k = *band.start();
    while k <= *band.end() {
        bits.refill();
        let symbol = table.symbol(bits)?;
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 && run < 15 {
            *empty = run_of_blocks(bits, run as u32) - 1;
            return Ok(());
        }
        k += run;
        if k > 63 {
            return Err(NoCode);
        }
        if size > 0 {
            block[usize::from(PLACES[k])] = (bits.signed(size) << low) as i16;
        }
        k += 1;
    }
    Ok(())
}

#[inline(always)]
fn refine(
    bits: &mut Bits,
    table: &Table,
    block: &mut Block,
    band: Band,
    low: u32,
    empty: &mut u32,
) -> Result<(), NoCode> {
    let one = 1i16 << low;
    let (mut k, end) = (*band.start(), *band.end());
    while *empty == 0 && k <= end {
        bits.refill();
        let symbol = table.symbol(bits)?;
        let run = symbol >> 4;
        let value = match symbol & 15 {
            0 if run < 15 => {
                *empty = run_of_blocks(bits, u32::from(run));
                break;
            }
            0 => 0,
            1 if bits.bit() => one,
            1 => -one,
            _ => return Err(NoCode),
        };
        k = correct(bits, block, k..=end, one, run);
        if value != 0 {
            if k > end {
                return Err(NoCode);
            }
            block[usize::from(PLACES[k])] = value;
        }
        k += 1;
    }
    if *empty > 0 {
        if k <= end {
            correct(bits, block, k..=end, one, u8::MAX);
        }
        *empty -= 1;
    }
    Ok(())
}

/// Reads a bit for each coefficient that is there, past `zeros` that are not; returns where the
/// next one is that is not there.
#[inline(always)]
fn correct(bits: &mut Bits, block: &mut Block, band: Band, one: i16, mut zeros: u8) -> usize {
    let end = *band.end();
    for k in band {
        let value = &mut block[usize::from(PLACES[k])];
        if *value == 0 {
            if zeros == 0 {
                return k;
            }
            zeros -= 1;
        } else if bits.bit() && *value & one == 0 {
            *value = value.wrapping_add(if *value > 0 { one } else { -one });
        }
    }
    end + 1
}
