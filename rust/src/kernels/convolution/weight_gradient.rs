//! The gradient of a convolution's kernel.
//!
//! Each block of images has sums of its own, which are added in the blocks' order at the end. How
//! many blocks there are is the caller's choice and must not depend on the machine.

use super::geometry::{groups, Geometry};
use super::instructions::{Instructions, Work};
use super::lanes::Lanes;
use super::pooled::gradient::PooledGradient;
use super::scratch::{self, channel_tile, ImageRows, Scratch};
use super::tile::{multiply, Left, Product, Right, WIDEST};
use crate::kernels::xla::threads::Threads;

/// The gradient of a convolution's outputs.
pub enum Gradient {
    /// All of it, where it lies.
    Whole(*const f32),
    /// What the pooling of the outputs makes it.
    Pooled(PooledGradient),
}

/// `out[i, j, c, f] = sum over n, h, q of images[n, h * s + i, q * s + j, c] * gradient[n, h, q, f]`.
pub struct WeightGradient {
    pub geometry: Geometry,
    pub images: *const f32,
    pub gradient: Gradient,
    /// `blocks` times `sums_len` numbers: by block, tile of features, and row of the kernel.
    pub sums: *mut f32,
    pub blocks: usize,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `sums` and `out`, and read memory that no thread writes.
unsafe impl Sync for WeightGradient {}

impl WeightGradient {
    /// How many numbers `sums` has for each block.
    pub fn sums_len(geometry: &Geometry) -> usize {
        geometry.kernel_height * geometry.run() * geometry.features.next_multiple_of(WIDEST)
    }

    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry says, `sums` and `out` to memory of their own, and the
    /// processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let g = &self.geometry;
        let tile = instructions.tile();
        let tiles = g.features.div_ceil(tile);
        let summing = threads.for_work(g.products());
        summing.for_each(self.blocks * tiles, |item| {
            instructions.compute(self, item);
        });
        let adding = threads.for_work(self.blocks * g.kernel_len());
        adding.for_each(tiles * g.kernel_height, |item| {
            self.add_blocks(item / g.kernel_height, item % g.kernel_height, tile);
        });
    }

    /// Writes row `i` of the kernel's gradient, for one tile of features.
    unsafe fn add_blocks(&self, number: usize, i: usize, tile: usize) {
        let g = &self.geometry;
        let width = (g.features - number * tile).min(tile);
        for row in i * g.run()..(i + 1) * g.run() {
            let out = self.out.add(row * g.features + number * tile);
            let out = std::slice::from_raw_parts_mut(out, width);
            for block in 0..self.blocks {
                let sums = self.tile_of_sums(block, number, tile).add(row * tile);
                let sums = std::slice::from_raw_parts(sums, width);
                if block == 0 {
                    out.copy_from_slice(sums);
                } else {
                    for (total, value) in out.iter_mut().zip(sums) {
                        *total += value;
                    }
                }
            }
        }
    }

    unsafe fn tile_of_sums(&self, block: usize, number: usize, tile: usize) -> *mut f32 {
        let rows = self.geometry.kernel_height * self.geometry.run();
        self.sums
            .add(block * Self::sums_len(&self.geometry) + number * rows * tile)
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
        let whole = match &self.gradient {
            Gradient::Whole(gradient) => gradient.add(image * g.output_len()),
            Gradient::Pooled(gradient) => {
                let room = scratch.unpooled.room(g.output_len());
                gradient.unpool((g.rows, g.columns, g.features), image, room);
                room
            }
        };
        for chunk in (0..g.chunks()).map(|number| g.chunk(number)) {
            let gradient = channel_tile(
                whole.add(chunk.start * g.columns * g.features),
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
                let right = Right {
                    from: gradient.add((meeting.start - chunk.start) * g.columns * tile),
                    step: g.columns * tile,
                };
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
                        to: sums.add((i * g.run() + group.start) * tile),
                        row: tile,
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
        let tile = 2 * V::COUNT;
        let tiles = g.features.div_ceil(tile);
        let (block, number) = (item / tiles, item % tiles);
        let from = number * tile;
        let width = (g.features - from).min(tile);
        let sums = self.tile_of_sums(block, number, tile);
        sums.write_bytes(0, g.kernel_height * g.run() * tile);
        let images = block * g.images / self.blocks..(block + 1) * g.images / self.blocks;
        let mut scratch = scratch::take();
        for image in images {
            self.add_image::<V>(image, (from, width), sums, &mut scratch);
        }
        scratch::give_back(scratch);
    }
}
