//! The order in which the blocks of a scan come.

use super::super::defect::Defect;
use super::bits::{Bits, Entropy};
use super::frame::Frame;
use super::huffman::NoCode;
use super::markers::Scan;

/// What is done with each block of a scan.
pub trait Blocks {
    /// Forget the block before: the next follows a restart marker.
    fn restart(&mut self);

    /// Read the block at a row and a column of the component in a slot of the scan.
    fn read(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode>;
}

/// Where reading a scan ended before its end.
pub struct Stopped {
    /// The row of coded units.
    pub row: usize,
    pub defect: Defect,
}

/// The rows of units of a scan: of one component's blocks, or of all components' together.
pub struct Units<'a> {
    frame: &'a Frame,
    scan: &'a Scan,
    pub rows: usize,
    columns: usize,
}

impl<'a> Units<'a> {
    pub fn new(frame: &'a Frame, scan: &'a Scan) -> Self {
        let (rows, columns) = match scan.single() {
            Some(number) => {
                let component = &frame.components[number];
                (component.rows, component.columns)
            }
            None => (frame.mcu_rows, frame.mcu_columns),
        };
        Self {
            frame,
            scan,
            rows,
            columns,
        }
    }

    /// Reads the first `rows`, with `restart` units between restart markers (0: without).
    #[inline(always)]
    pub fn read<B: Blocks>(
        &self,
        entropy: &Entropy,
        bytes: &[u8],
        restart: usize,
        rows: usize,
        blocks: &mut B,
    ) -> Result<(), Stopped> {
        let (mut segment, mut left) = (0, restart);
        let stopped = |row, defect| Stopped { row, defect };
        let Some(mut bits) = entropy.segment(0) else {
            return Ok(());
        };
        for row in 0..rows {
            for column in 0..self.columns {
                if restart > 0 && left == 0 {
                    segment += 1;
                    left = restart;
                    bits = entropy
                        .segment(segment)
                        .ok_or_else(|| stopped(row, entropy.ended(&bits, bytes)))?;
                    blocks.restart();
                }
                left = left.wrapping_sub(1);
                let read = self.unit(&mut bits, row, column, blocks);
                if bits.overrun() {
                    return Err(stopped(row, entropy.ended(&bits, bytes)));
                }
                if read.is_err() {
                    let offset = entropy.offset(&bits, bytes);
                    let what = "the JPEG data are damaged: no such code or coefficient";
                    return Err(stopped(row, Defect::damaged(offset, what)));
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn unit<B: Blocks>(
        &self,
        bits: &mut Bits,
        row: usize,
        column: usize,
        blocks: &mut B,
    ) -> Result<(), NoCode> {
        if self.scan.single().is_some() {
            return blocks.read(bits, 0, row, column);
        }
        for (slot, &(number, ..)) in self.scan.components.iter().enumerate() {
            let component = &self.frame.components[number];
            for v in 0..component.v {
                for h in 0..component.h {
                    blocks.read(bits, slot, row * component.v + v, column * component.h + h)?;
                }
            }
        }
        Ok(())
    }
}
