//! The pooled outputs, and who won.

use super::super::forward::{Destination, Operands};
use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::super::scratch;
use super::super::tile::WIDEST;
use super::windows::{Windows, NONE};
use crate::xla::threads::Threads;

/// The greatest `max(0, out[n, h, q, f] + bias[f])` of each window of a convolution's outputs.
///
/// The winner of a window is the number of the output that the pooling's gradient goes to, in the
/// order of the window's rows: the first of the greatest, or after a NaN the first of the greatest
/// that follow it; `NONE` if that output is not positive. A NaN makes the pooled value NaN.
pub struct PooledForward {
    /// The convolution, without outputs that are in no window.
    pub operands: Operands,
    pub windows: Windows,
    pub bias: *const f32,
    pub pooled: *mut f32,
    pub winners: *mut u8,
}

// SAFETY: items write disjoint parts of `pooled` and `winners`.
unsafe impl Sync for PooledForward {}

impl PooledForward {
    /// Computes `pooled` and `winners`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry and the windows say, those that are written to memory
    /// of their own, and the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        self.operands.pack(instructions, threads);
        let g = &self.operands.geometry;
        let threads = threads.for_work(g.products());
        threads.for_each(g.images * self.windows.chunks(), |item| {
            instructions.compute(self, item);
        });
    }

    /// Pools one window of a tile of outputs, the first of which is at `from`.
    #[inline(always)]
    unsafe fn pool<V: Lanes>(&self, from: *const f32, bias: &[f32; WIDEST], result: &mut Pooled) {
        let tile = 2 * V::COUNT;
        let row = self.operands.geometry.columns * tile;
        let mut best = [f32::NEG_INFINITY; WIDEST];
        let mut winners = [0u32; WIDEST];
        let mut greatest = [0.0f32; WIDEST];
        for number in 0..self.windows.area() {
            let (down, right) = (number / self.windows.width, number % self.windows.width);
            let outputs = from.add(down * row + right * tile);
            for f in 0..tile {
                let value = *outputs.add(f) + bias[f];
                let rises = value > greatest[f] || value.is_nan();
                greatest[f] = if rises { value } else { greatest[f] };
                let value = if value > 0.0 || value.is_nan() {
                    value
                } else {
                    0.0
                };
                let stays = best[f] >= value;
                best[f] = if stays { best[f] } else { value };
                winners[f] = if stays { winners[f] } else { number as u32 };
            }
        }
        for f in 0..tile {
            let winner = if best[f] > 0.0 {
                winners[f]
            } else {
                u32::from(NONE)
            };
            result.values[f] = greatest[f];
            result.winners[f] = winner as u8;
        }
    }
}

struct Pooled {
    values: [f32; WIDEST],
    winners: [u8; WIDEST],
}

impl Work for PooledForward {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, item: usize) {
        let g = &self.operands.geometry;
        let w = &self.windows;
        let tile = 2 * V::COUNT;
        let (image, chunk) = (item / w.chunks(), w.chunk(item % w.chunks()));
        let mut scratch = scratch::take();
        let outputs = scratch
            .images
            .room(chunk.len() * w.height * g.columns * tile);
        for number in 0..g.features.div_ceil(tile) {
            let first = number * tile;
            let width = (g.features - first).min(tile);
            for h in chunk.start * w.height..chunk.end * w.height {
                let out = Destination {
                    to: outputs.add((h - chunk.start * w.height) * g.columns * tile),
                    pixel: tile,
                };
                self.operands.row::<V>((image, h), number, out);
            }
            let mut bias = [0.0f32; WIDEST];
            std::ptr::copy_nonoverlapping(self.bias.add(first), bias.as_mut_ptr(), width);
            let mut result = Pooled {
                values: [0.0; WIDEST],
                winners: [0; WIDEST],
            };
            for window in chunk.start * w.columns..chunk.end * w.columns {
                let (row, column) = (window / w.columns - chunk.start, window % w.columns);
                let pixel = row * w.height * g.columns + column * w.width;
                self.pool::<V>(outputs.add(pixel * tile), &bias, &mut result);
                let at = (image * w.count() + window) * g.features + first;
                let (values, winners) = (self.pooled.add(at), self.winners.add(at));
                if width == tile {
                    std::ptr::copy_nonoverlapping(result.values.as_ptr(), values, tile);
                    std::ptr::copy_nonoverlapping(result.winners.as_ptr(), winners, tile);
                } else {
                    std::ptr::copy_nonoverlapping(result.values.as_ptr(), values, width);
                    std::ptr::copy_nonoverlapping(result.winners.as_ptr(), winners, width);
                }
            }
        }
        scratch::give_back(scratch);
    }
}
