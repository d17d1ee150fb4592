//! The gradient of the images, from the outputs that won their windows.

use super::super::geometry::Geometry;
use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::super::scratch;
use super::gradient::PooledGradient;
use super::padded_image::{is_padded, rows, zeros};
use super::steps::{each_part, Parts, Steps};
use super::weight_gradient::all_finite;
use crate::xla::threads::Threads;
use std::ops::Range;

/// `out[n, y, x, c]`: each window adds its gradient times the kernel where its winner was computed.
pub struct PooledInputGradient {
    /// The convolution, all of its outputs; its channels fill registers.
    pub geometry: Geometry,
    pub gradient: PooledGradient,
    /// `[i, j, c, f]`.
    pub weights: *const f32,
    /// Room for the weights as `[f, i, j, c]`.
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
        let places = g.kernel_len() / g.features;
        for place in 0..places {
            for f in 0..g.features {
                *self.packed.add(f * places + place) = *self.weights.add(place * g.features + f);
            }
        }
        threads
            .for_work(g.products() / self.gradient.windows.area())
            .for_each(g.images, |image| instructions.compute(self, image));
        if !all_finite(self.weights, g.kernel_len()) {
            (0..g.images).for_each(|image| self.add_zeros_times(image));
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

/// What one image receives.
struct Image<'a> {
    geometry: &'a Geometry,
    steps: &'a Steps,
    columns: usize,
    covered: *mut f32,
    gradient: *const f32,
    winners: *const u8,
    packed: *const f32,
}

impl Parts for Image<'_> {
    #[inline(always)]
    unsafe fn part<V: Lanes, const TAPS: usize, const REGISTERS: usize>(
        &mut self,
        first_tap: usize,
        channel: usize,
        rows: Range<usize>,
    ) {
        let g = self.geometry;
        let taps = self.steps.to_taps::<TAPS>(first_tap);
        let places = g.kernel_len() / g.features;
        for f in 0..g.features {
            let from = self
                .packed
                .add(f * places + first_tap * g.channels + channel);
            let mut kernel = [[V::load(from); REGISTERS]; TAPS];
            for (t, registers) in kernel.iter_mut().enumerate() {
                for (r, weights) in registers.iter_mut().enumerate() {
                    *weights = V::load(from.add(t * g.channels + r * V::COUNT));
                }
            }
            for row in rows.clone() {
                let mut to = self.covered.add(self.steps.to_row(row) + channel);
                let first = row * self.columns * g.features + f;
                for column in 0..self.columns {
                    let at = first + column * g.features;
                    let covered = to.add(self.steps.to_winner(*self.winners.add(at)));
                    let factor = *self.gradient.add(at);
                    for (tap, registers) in taps.iter().zip(&kernel) {
                        for (r, weights) in registers.iter().enumerate() {
                            let to = covered.add(tap + r * V::COUNT);
                            V::load(to).add_product(&factor, *weights).store(to);
                        }
                    }
                    to = to.add(self.steps.right);
                }
            }
        }
    }
}

impl Work for PooledInputGradient {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, image: usize) {
        let g = &self.geometry;
        let out = self.out.add(image * g.image_len());
        out.write_bytes(0, g.image_len());
        let steps = Steps::new(g, &self.gradient.windows);
        let mut scratch = scratch::take();
        let covered = if is_padded(g) {
            zeros(g, &mut scratch.images)
        } else {
            out
        };
        let mut part = Image {
            geometry: g,
            steps: &steps,
            columns: self.gradient.windows.columns,
            covered,
            gradient: self
                .gradient
                .masked(g.features, image, &mut scratch.gradients),
            winners: self.gradient.winners_of(g.features, image),
            packed: self.packed,
        };
        each_part::<V, _>(&steps, &mut part);
        if is_padded(g) {
            for (inside, outside, len) in rows(g) {
                std::ptr::copy_nonoverlapping(covered.add(outside), out.add(inside), len);
            }
        }
        scratch::give_back(scratch);
    }
}
