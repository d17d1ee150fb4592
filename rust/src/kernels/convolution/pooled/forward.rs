//! The pooled outputs, and who won.

use super::super::forward::{Destination, Operands};
use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::super::scratch;
use super::super::tile::WIDEST;
use super::windows::{Windows, NONE};
use crate::kernels::xla::threads::Threads;
use std::ops::Range;

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
    ///
    /// Adds zero times what it finds to `probe`: what is not finite makes that NaN, and the result void.
    #[inline(always)]
    unsafe fn pool<V: Lanes>(&self, from: *const f32, tile: &Tile, probe: &mut V) -> Pooled {
        let row = self.operands.geometry.columns * 2 * V::COUNT;
        let mut pooled = Pooled::default();
        for start in [0, V::COUNT] {
            let bias = V::load(tile.bias.as_ptr().add(start));
            let mut best = (V::all(0.0), V::all(f32::from(NONE)));
            let mut number = 0u8;
            for down in 0..self.windows.height {
                let outputs = from.add(down * row + start);
                for right in 0..self.windows.width {
                    let value = V::load(outputs.add(right * 2 * V::COUNT)).plus(bias);
                    *probe = probe.add_product(&0.0, value);
                    best = value.or_best(V::all(f32::from(number)), best);
                    number += 1;
                }
            }
            best.0.store(pooled.values.as_mut_ptr().add(start));
            best.1.store_bytes(pooled.winners.as_mut_ptr().add(start));
        }
        pooled
    }

    /// The same for numbers of all kinds.
    #[cold]
    #[inline(never)]
    unsafe fn pool_any(&self, from: *const f32, tile: &Tile, lanes: usize) -> Pooled {
        let row = self.operands.geometry.columns * 2 * lanes;
        let mut pooled = Pooled::default();
        for f in 0..tile.width {
            let mut best = f32::NEG_INFINITY;
            let mut greatest = 0.0f32;
            let mut winner = NONE;
            for number in 0..self.windows.area() {
                let (down, right) = (number / self.windows.width, number % self.windows.width);
                let value = *from.add(down * row + right * 2 * lanes + f) + tile.bias[f];
                if value.is_nan() || greatest.is_nan() {
                    greatest = f32::NAN;
                } else {
                    greatest = greatest.max(value);
                }
                let value = if value <= 0.0 { 0.0 } else { value };
                // A NaN is not at least anything, so that it wins, and then loses to what follows.
                #[allow(clippy::neg_cmp_op_on_partial_ord)]
                if !(best >= value) {
                    best = value;
                    winner = number as u8;
                }
            }
            pooled.values[f] = greatest;
            pooled.winners[f] = if best > 0.0 { winner } else { NONE };
        }
        pooled
    }

    /// Writes the pooled values and the winners of a window.
    #[inline(always)]
    unsafe fn write<V: Lanes>(&self, pooled: &Pooled, at: usize, tile: &Tile) {
        let (values, winners) = (self.pooled.add(at), self.winners.add(at));
        // A copy of a known length is no call.
        let width = if tile.width == 2 * V::COUNT {
            2 * V::COUNT
        } else {
            tile.width
        };
        std::ptr::copy_nonoverlapping(pooled.values.as_ptr(), values, width);
        std::ptr::copy_nonoverlapping(pooled.winners.as_ptr(), winners, width);
    }

    /// Pools a chunk of a tile of outputs.
    #[inline(always)]
    unsafe fn pool_chunk<V: Lanes>(
        &self,
        outputs: *const f32,
        (image, chunk): (usize, &Range<usize>),
        tile: &Tile,
    ) {
        let (g, w) = (&self.operands.geometry, &self.windows);
        let mut probe = V::all(0.0);
        for trial in 0..2 {
            for window in chunk.start * w.columns..chunk.end * w.columns {
                let (row, column) = (window / w.columns - chunk.start, window % w.columns);
                let pixel = row * w.height * g.columns + column * w.width;
                let from = outputs.add(pixel * 2 * V::COUNT);
                let pooled = if trial == 0 {
                    self.pool::<V>(from, tile, &mut probe)
                } else {
                    self.pool_any(from, tile, V::COUNT)
                };
                let at = (image * w.count() + window) * g.features + tile.first;
                self.write::<V>(&pooled, at, tile);
            }
            let mut found = [0.0f32; WIDEST];
            probe.store(found.as_mut_ptr());
            if !found.iter().any(|value| value.is_nan()) {
                return;
            }
        }
    }
}

/// A tile of features.
struct Tile {
    first: usize,
    width: usize,
    bias: [f32; WIDEST],
}

#[derive(Default)]
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
            let tile = Tile { first, width, bias };
            self.pool_chunk::<V>(outputs, (image, &chunk), &tile);
        }
        scratch::give_back(scratch);
    }
}
