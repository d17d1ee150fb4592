//! The gradient of the images, from the outputs that won their windows.

use super::super::geometry::Geometry;
use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::super::scratch;
use super::gradient::PooledGradient;
use super::padded_image::{is_padded, rows, zeros};
use super::steps::{each_tile, Steps, TileWork};
use super::weight_gradient::all_finite;
use super::winners::Winners;
use crate::kernels::xla::threads::Threads;
use std::ops::Range;

/// `out[n, y, x, c]`: each window adds its gradient times the kernel where its winner was computed.
pub struct PooledInputGradient {
    /// The convolution, all of its outputs; its channels fill registers.
    pub geometry: Geometry,
    pub gradient: PooledGradient,
    /// `[i, j, c, f]`.
    pub weights: *const f32,
    /// Room for the weights as `[register of c, f, i, j, c in it]`.
    pub packed: *mut f32,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `packed`, then of `out`.
unsafe impl Sync for PooledInputGradient {}

impl PooledInputGradient {
    /// Whether the channels of a convolution's images fill registers.
    pub fn covers(geometry: &Geometry, instructions: Instructions) -> bool {
        geometry.channels % (instructions.tile() / 2) == 0
    }

    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry and the windows say, `packed` and `out` to memory of
    /// their own, and the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let g = &self.geometry;
        self.pack(instructions.tile() / 2);
        threads
            .for_work(g.products() / self.gradient.windows.area())
            .for_each(g.images, |image| instructions.compute(self, image));
        if !all_finite(self.weights, g.kernel_len()) {
            (0..g.images).for_each(|image| self.add_zeros_times(image));
        }
    }

    /// Lays the weights out so that those of one register, one feature and all elements lie together.
    unsafe fn pack(&self, lanes: usize) {
        let g = &self.geometry;
        let taps = g.kernel_height * g.kernel_width;
        for (place, weights) in std::slice::from_raw_parts(self.weights, g.kernel_len())
            .chunks_exact(g.features)
            .enumerate()
        {
            let (tap, c) = (place / g.channels, place % g.channels);
            let first = (c / lanes * g.features * taps + tap) * lanes + c % lanes;
            let mut to = self.packed.add(first);
            for weight in weights {
                *to = *weight;
                to = to.wrapping_add(taps * lanes);
            }
        }
    }

    /// Adds zero times weights that are not finite, for outputs that did not win: NaN, as in the sum
    /// over all.
    #[cold]
    #[inline(never)]
    unsafe fn add_zeros_times(&self, image: usize) {
        let g = &self.geometry;
        for at in 0..g.kernel_len() {
            let weight = *self.weights.add(at);
            if weight.is_finite() {
                continue;
            }
            let (place, f) = (at / g.features, at % g.features);
            let (tap, c) = (place / g.channels, place % g.channels);
            let (i, j) = (tap / g.kernel_width, tap % g.kernel_width);
            for h in g.rows_meeting(i, &(0..g.rows)) {
                for q in g.columns_at(j) {
                    if self.gradient.won((image, h, q), f, g.features) {
                        continue;
                    }
                    let y = h * g.stride_down + i - g.top;
                    let x = q * g.stride_right + j - g.left;
                    let pixel = (image * g.height + y) * g.width + x;
                    *self.out.add(pixel * g.channels + c) += 0.0 * weight;
                }
            }
        }
    }
}

/// What one image receives from some windows.
struct ImageSums<'a> {
    geometry: &'a Geometry,
    steps: &'a Steps,
    windows: Range<usize>,
    columns: usize,
    area: usize,
    covered: *mut f32,
    winners: Winners,
    packed: *const f32,
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
        let step = g.kernel_height * g.kernel_width * V::COUNT;
        let kernel = self
            .packed
            .add(channel / V::COUNT * g.features * step + first_tap * V::COUNT);
        for number in 0..self.windows.len() {
            let window = self.windows.start + number;
            let (row, column) = (window / self.columns, window % self.columns);
            let to_window = self.steps.to_window(row, column);
            for output in 0..self.area {
                let winners = self.winners.of(number, output);
                if winners.is_empty() {
                    continue;
                }
                let to = to_window + self.steps.to_winner(output as u8);
                let to = self.covered.add(to as usize + channel);
                let mut sums = [V::load(to); TAPS];
                for (tap, sum) in taps.iter().zip(&mut sums) {
                    *sum = V::load(to.add(*tap));
                }
                for winner in winners {
                    let weights = kernel.add(winner.feature as usize * step);
                    for (t, sum) in sums.iter_mut().enumerate() {
                        let weights = V::load(weights.add(t * V::COUNT));
                        *sum = sum.add_product(&winner.gradient, weights);
                    }
                }
                for (tap, sum) in taps.iter().zip(&sums) {
                    sum.store(to.add(*tap));
                }
            }
        }
    }
}

impl Work for PooledInputGradient {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, image: usize) {
        let g = &self.geometry;
        let w = &self.gradient.windows;
        let out = self.out.add(image * g.image_len());
        out.write_bytes(0, g.image_len());
        let steps = Steps::new(g, w);
        let mut scratch = scratch::take();
        let covered = if is_padded(g) {
            zeros(g, &mut scratch.images)
        } else {
            out
        };
        for windows in Winners::chunks(&self.gradient) {
            let some = (image, windows.clone());
            let buffers = (&mut scratch.wins, &mut scratch.counts);
            let mut sums_of_image = ImageSums {
                geometry: g,
                steps: &steps,
                windows,
                columns: w.columns,
                area: w.area(),
                covered,
                winners: Winners::list(&self.gradient, g.features, some, buffers),
                packed: self.packed,
            };
            each_tile::<V, _>(g, 1, &mut sums_of_image);
        }
        if is_padded(g) {
            for (inside, outside, len) in rows(g) {
                std::ptr::copy_nonoverlapping(covered.add(outside), out.add(inside), len);
            }
        }
        scratch::give_back(scratch);
    }
}
