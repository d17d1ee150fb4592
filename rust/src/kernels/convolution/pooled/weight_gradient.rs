//! The gradient of the kernel, from the outputs that won their windows.

use super::super::geometry::Geometry;
use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::super::scratch;
use super::gradient::PooledGradient;
use super::padded_image::padded;
use super::steps::{each_tile, registers, Steps, TileWork};
use super::wins::Wins;
use crate::kernels::xla::threads::Threads;
use std::ops::Range;

/// `out[i, j, c, f]`, the sum over the windows of `f` of what element `i, j` covers at their winners
/// times their gradient.
pub struct PooledWeightGradient {
    /// The convolution, all of its outputs; its channels fill registers.
    pub geometry: Geometry,
    pub images: *const f32,
    pub gradient: PooledGradient,
    /// `blocks` times `[f, i, j, c]`.
    pub sums: *mut f32,
    pub blocks: usize,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `sums` and `out`, and read memory that no thread writes.
unsafe impl Sync for PooledWeightGradient {}

/// Features that are added and written by one thread at a time.
const FEATURES: usize = 16;

impl PooledWeightGradient {
    /// Whether the channels of a convolution's images fill registers.
    pub fn covers(geometry: &Geometry, instructions: Instructions) -> bool {
        geometry.channels % (instructions.tile() / 2) == 0
    }

    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry and the windows say, `sums` and `out` to memory of
    /// their own, and the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let g = &self.geometry;
        let summing = threads.for_work(g.products() / self.gradient.windows.area());
        summing.for_each(self.blocks, |block| instructions.compute(self, block));
        let adding = threads.for_work(self.blocks * g.kernel_len());
        adding.for_each(g.features.div_ceil(FEATURES), |item| {
            let first = item * FEATURES;
            self.add_blocks(first..g.features.min(first + FEATURES));
        });
    }

    /// Writes the gradient of some features.
    unsafe fn add_blocks(&self, features: Range<usize>) {
        let g = &self.geometry;
        let len = g.kernel_len() / g.features;
        let at = features.start * len;
        let total = std::slice::from_raw_parts_mut(self.sums.add(at), features.len() * len);
        for block in 1..self.blocks {
            let sums = self.sums.add(block * g.kernel_len() + at);
            let sums = std::slice::from_raw_parts(sums, features.len() * len);
            for (total, value) in total.iter_mut().zip(sums) {
                *total += value;
            }
        }
        for place in 0..len {
            let out = self.out.add(place * g.features + features.start);
            for f in 0..features.len() {
                *out.add(f) = total[f * len + place];
            }
        }
    }

    /// Adds zero times what is not finite, for outputs that did not win: NaN, as in the sum over all.
    #[cold]
    #[inline(never)]
    unsafe fn add_zeros_times(&self, image: usize, sums: *mut f32) {
        let g = &self.geometry;
        let places = g.kernel_len() / g.features;
        for place in 0..places {
            let (tap, c) = (place / g.channels, place % g.channels);
            let (i, j) = (tap / g.kernel_width, tap % g.kernel_width);
            for h in g.rows_meeting(i, &(0..g.rows)) {
                for q in g.columns_at(j) {
                    let y = h * g.stride_down + i - g.top;
                    let x = q * g.stride_right + j - g.left;
                    let pixel = (image * g.height + y) * g.width + x;
                    let number = *self.images.add(pixel * g.channels + c);
                    if number.is_finite() {
                        continue;
                    }
                    for f in 0..g.features {
                        if !self.gradient.won((image, h, q), f, g.features) {
                            *sums.add(f * places + place) += 0.0 * number;
                        }
                    }
                }
            }
        }
    }
}

/// One image's part of a block's sums, from some rows of windows.
struct ImageSums<'a> {
    geometry: &'a Geometry,
    steps: &'a Steps,
    covered: *const f32,
    wins: Wins,
    sums: *mut f32,
}

impl TileWork for ImageSums<'_> {
    #[inline(always)]
    unsafe fn tile<V: Lanes, const TAPS: usize, const REGISTERS: usize>(
        &mut self,
        first_tap: usize,
        channel: usize,
    ) {
        let g = self.geometry;
        let taps = self.steps.to_taps::<TAPS>(first_tap);
        let places = g.kernel_len() / g.features;
        let covered = self.covered.add(channel);
        for f in 0..g.features {
            let to = self.sums.add(f * places + first_tap * g.channels + channel);
            let mut sums = [[V::load(to); REGISTERS]; TAPS];
            for (t, registers) in sums.iter_mut().enumerate() {
                for (r, sum) in registers.iter_mut().enumerate() {
                    *sum = V::load(to.add(t * g.channels + r * V::COUNT));
                }
            }
            for win in self.wins.of(f) {
                let from = covered.add(win.step as usize);
                for (tap, registers) in taps.iter().zip(&mut sums) {
                    for (r, sum) in registers.iter_mut().enumerate() {
                        let numbers = V::load(from.add(tap + r * V::COUNT));
                        *sum = sum.add_product(&win.gradient, numbers);
                    }
                }
            }
            for (t, registers) in sums.iter().enumerate() {
                for (r, sum) in registers.iter().enumerate() {
                    sum.store(to.add(t * g.channels + r * V::COUNT));
                }
            }
        }
    }
}

impl Work for PooledWeightGradient {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, block: usize) {
        let g = &self.geometry;
        let sums = self.sums.add(block * g.kernel_len());
        sums.write_bytes(0, g.kernel_len());
        let steps = Steps::new(g, &self.gradient.windows);
        let mut scratch = scratch::take();
        for image in block * g.images / self.blocks..(block + 1) * g.images / self.blocks {
            let from = self.images.add(image * g.image_len());
            let covered = padded(g, from, &mut scratch.images);
            for rows in steps.chunks::<V>() {
                let buffers = (&mut scratch.wins, &mut scratch.counts);
                let wins = Wins::list(&self.gradient, &steps, g.features, (image, rows), buffers);
                let mut sums_of_image = ImageSums {
                    geometry: g,
                    steps: &steps,
                    covered,
                    wins,
                    sums,
                };
                each_tile::<V, _>(g, registers::<V>(), &mut sums_of_image);
            }
            if !all_finite(from, g.image_len()) {
                self.add_zeros_times(image, sums);
            }
        }
        scratch::give_back(scratch);
    }
}

/// Whether none of the numbers is infinite or NaN.
///
/// # Safety
/// There are as many numbers.
#[inline(always)]
pub(super) unsafe fn all_finite(numbers: *const f32, len: usize) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let mut greatest = 0;
    for number in std::slice::from_raw_parts(numbers, len) {
        greatest = greatest.max(number.to_bits() & EXPONENT);
    }
    greatest < EXPONENT
}
