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
pub struct Units {
    pub rows: usize,
    columns: usize,
    /// The blocks of each unit.
    blocks: Vec<Position>,
}

/// Where a block of a unit lies in its component.
struct Position {
    slot: usize,
    /// Rows and columns of blocks from a unit to the next.
    steps: (usize, usize),
    row: usize,
    column: usize,
}

impl Units {
    pub fn new(frame: &Frame, scan: &Scan) -> Self {
        if let Some(number) = scan.single() {
            let component = &frame.components[number];
            return Self {
                rows: component.rows,
                columns: component.columns,
                blocks: positions(0, (1, 1)).collect(),
            };
        }
        let components = scan.components.iter().enumerate();
        let blocks = components.flat_map(|(slot, &(number, ..))| {
            let component = &frame.components[number];
            positions(slot, (component.v, component.h))
        });
        Self {
            rows: frame.mcu_rows,
            columns: frame.mcu_columns,
            blocks: blocks.collect(),
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
                        .ok_or_else(|| stopped(row, entropy.ended(bits, bytes)))?;
                    blocks.restart();
                }
                left = left.wrapping_sub(1);
                let read = self.unit(&mut bits, row, column, blocks);
                if bits.overrun() {
                    return Err(stopped(row, entropy.ended(bits, bytes)));
                }
                if read.is_err() {
                    let offset = entropy.offset(bits, bytes);
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
        for block in &self.blocks {
            let (down, across) = block.steps;
            let (row, column) = (row * down + block.row, column * across + block.column);
            blocks.read(bits, block.slot, row, column)?;
        }
        Ok(())
    }
}

/// The blocks of a unit that are of one component.
fn positions(slot: usize, (rows, columns): (usize, usize)) -> impl Iterator<Item = Position> {
    (0..rows * columns).map(move |at| Position {
        slot,
        steps: (rows, columns),
        row: at / columns,
        column: at % columns,
    })
}
