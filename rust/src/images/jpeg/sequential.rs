//! Scans whose blocks hold all of their coefficients: read and transformed block by block.

use super::bits::Bits;
use super::huffman::{NoCode, Table, END};
use super::plane::Plane;
use super::scan::Blocks;
use super::zigzag::NATURAL;
use super::{idct, reduced};

/// One component's part in a scan.
pub struct Part<'a> {
    pub dc: &'a Table,
    pub ac: &'a Table,
    /// In zigzag order.
    pub quantization: &'a [u16; 64],
    /// Which of the planes.
    pub plane: usize,
    /// The DC coefficient of the block before.
    pub before: i32,
}

/// Of 56 bits so many numbers can be read, all but the last of which are short.
const SHORT: usize = 3;

pub struct Sequential<'a> {
    pub parts: Vec<Part<'a>>,
    pub planes: &'a mut [Plane],
    /// Zeros between blocks.
    pub block: [i32; 64],
}

impl Blocks for Sequential<'_> {
    fn restart(&mut self) {
        for part in &mut self.parts {
            part.before = 0;
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
        let part = &mut self.parts[slot];
        let plane = &mut self.planes[part.plane];
        let Some(place) = plane.place(row, column) else {
            part.read::<false>(bits, &mut self.block)?;
            return Ok(());
        };
        let samples = &mut plane.samples[place..];
        if plane.size == 1 {
            let dc = part.read::<false>(bits, &mut self.block)?.0;
            idct::flat(dc, 1, samples, plane.stride);
            return Ok(());
        }
        let (dc, last) = part.read::<true>(bits, &mut self.block)?;
        if last == 0 {
            idct::flat(dc, plane.size, samples, plane.stride);
            return Ok(());
        }
        self.block[0] = dc;
        if plane.size == 8 && last < idct::CORNER {
            idct::corner(&self.block, samples, plane.stride);
        } else {
            transform(&self.block, plane.size, samples, plane.stride);
        }
        self.block.fill(0);
        Ok(())
    }
}

/// Writes the samples of dequantized coefficients.
#[inline(always)]
pub fn transform(block: &[i32; 64], size: usize, samples: &mut [u8], stride: usize) {
    match size {
        1 => idct::flat(block[0], 1, samples, stride),
        2 => reduced::to_two(block, samples, stride),
        4 => reduced::to_four(block, samples, stride),
        _ => idct::full(block, samples, stride),
    }
}

impl Part<'_> {
    /// Reads a block; returns its first coefficient and the position of its last.
    #[inline(always)]
    fn read<const KEEP: bool>(
        &mut self,
        bits: &mut Bits,
        block: &mut [i32; 64],
    ) -> Result<(i32, usize), NoCode> {
        bits.refill();
        let (_, difference) = self.dc.number(bits)?;
        self.before = self.before.wrapping_add(difference);
        let dc = self.before.wrapping_mul(i32::from(self.quantization[0]));
        let (mut k, mut last) = (1, 0);
        'refilled: while k < 64 {
            bits.refill();
            for _ in 0..SHORT {
                let short = self.ac.short(bits);
                let (run, value) = match short {
                    Some(found) => found,
                    None => self.ac.long(bits)?,
                };
                k += run;
                if k > 63 {
                    return if run == END {
                        Ok((dc, last))
                    } else {
                        Err(NoCode)
                    };
                }
                if KEEP {
                    let scale = i32::from(self.quantization[k]);
                    block[usize::from(NATURAL[k] & 63)] = value.wrapping_mul(scale);
                    last = k;
                }
                k += 1;
                if short.is_none() || k > 63 {
                    continue 'refilled;
                }
            }
        }
        Ok((dc, last))
    }
}
