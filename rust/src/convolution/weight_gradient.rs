//! The gradient of a convolution's kernel.
//!
//! Each block of images has sums of its own, which are added in the blocks' order at the end. How
//! many blocks there are is the caller's choice and must not depend on the machine.

use super::geometry::{groups, Geometry};
use super::instructions::{Instructions, Work};
use super::lanes::Lanes;
use super::scratch::{self, channel_tile, ImageRows, Scratch};
use super::tile::{multiply, Left, Product};
use crate::xla::threads::Threads;

/// `out[i, j, c, f] = sum over n, h, q of images[n, h * s + i, q * s + j, c] * gradient[n, h, q, f]`.
pub struct WeightGradient {
    pub geometry: Geometry,
    pub images: *const f32,
    pub gradient: *const f32,
    /// `blocks` times the kernel's numbers; unused if there is one block.
    pub sums: *mut f32,
    pub blocks: usize,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `sums` and `out`, and read memory that nobody writes.
unsafe impl Sync for WeightGradient {}

impl WeightGradient {
    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry says, `sums` and `out` to memory of their own, and the
    /// processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let tiles = self.geometry.features.div_ceil(instructions.tile());
        threads.for_each(self.blocks * tiles, |item| {
            instructions.compute(self, item);
        });
        if self.blocks == 1 {
            return;
        }
        let len = self.geometry.kernel_len();
        let part = len.div_ceil(self.blocks).max(1024);
        threads.for_each(len.div_ceil(part), |item| {
            self.add_blocks(item * part..len.min((item + 1) * part));
        });
    }

    unsafe fn add_blocks(&self, part: std::ops::Range<usize>) {
        let out = std::slice::from_raw_parts_mut(self.out.add(part.start), part.len());
        let sums = self.sums.add(part.start);
        out.copy_from_slice(std::slice::from_raw_parts(sums, part.len()));
        for block in 1..self.blocks {
            let more = sums.add(block * self.geometry.kernel_len());
            let more = std::slice::from_raw_parts(more, part.len());
            for (total, value) in out.iter_mut().zip(more) {
                *total += value;
            }
        }
    }

    /// Adds one image's part to a tile of features of a block's sums.
    #[inline(always)]
    unsafe fn add_image<V: Lanes>(
        &self,
        image: usize,
        features: (usize, usize),
        sums: *mut f32,
        scratch: &mut Scratch,
    ) {
        let g = &self.geometry;
        let tile = 2 * V::COUNT;
        for chunk in (0..g.chunks()).map(|number| g.chunk(number)) {
            let gradient = channel_tile(
                self.gradient
                    .add(image * g.output_len() + chunk.start * g.columns * g.features),
                chunk.len() * g.columns,
                g.features,
                (features.0, features.1, tile),
                &mut scratch.gradients,
            );
            let from = self.images.add(image * g.image_len());
            let rows = ImageRows::new(g, from, g.image_rows(&chunk), &mut scratch.images);
            for i in 0..g.kernel_height {
                let meeting = g.rows_meeting(i, &chunk);
                if meeting.is_empty() {
                    continue;
                }
                let first = rows.row(meeting.start * g.stride_down + i - g.top);
                let right = gradient.add((meeting.start - chunk.start) * g.columns * tile);
                for group in groups(g.run(), V::ROWS) {
                    let left = Left {
                        from: first.add(group.start),
                        row: 1,
                        steps: meeting.len(),
                        step: g.stride_down * rows.stride,
                        run: g.columns,
                        column: g.stride_right * g.channels,
                    };
                    let product = Product {
                        to: sums.add((i * g.run() + group.start) * g.features),
                        row: g.features,
                        width: features.1,
                        add: true,
                    };
                    multiply::<V>(group.len(), left, right, product);
                }
            }
        }
    }
}

impl Work for WeightGradient {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, item: usize) {
        let g = &self.geometry;
        let tiles = g.features.div_ceil(2 * V::COUNT);
        let (block, from) = (item / tiles, (item % tiles) * 2 * V::COUNT);
        let width = (g.features - from).min(2 * V::COUNT);
        let sums = if self.blocks == 1 {
            self.out.add(from)
        } else {
            self.sums.add(block * g.kernel_len() + from)
        };
        for row in 0..g.kernel_height * g.run() {
            sums.add(row * g.features).write_bytes(0, width);
        }
        let images = block * g.images / self.blocks..(block + 1) * g.images / self.blocks;
        let mut scratch = scratch::take();
        for image in images {
            self.add_image::<V>(image, (from, width), sums, &mut scratch);
        }
        scratch::give_back(scratch);
    }
}
