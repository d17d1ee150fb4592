//! The output of a convolution; with a flipped kernel, the gradient of its images.

use super::geometry::{groups, Geometry};
use super::instructions::{Instructions, Work};
use super::lanes::Lanes;
use super::tile::{multiply, Left, Product, Right, WIDEST};
use crate::kernels::xla::threads::Threads;
use std::ops::Range;

/// Products that are summed in one go; longer sums are sums of such, which round less.
const LONGEST_SUM: usize = 2048;

/// What a convolution multiplies.
pub struct Operands {
    pub geometry: Geometry,
    pub images: *const f32,
    pub weights: *const f32,
    /// Whether the weights are `[i, j, f, c]`.
    pub transposed: bool,
    /// Room for the weights in tiles, see `packed_len`.
    pub packed: *mut f32,
}

/// `out[n, h, q, f] = sum over i, j, c of images[n, h * s + i, q * s + j, c] * weights[i, j, c, f]`.
pub struct Forward {
    pub operands: Operands,
    pub out: *mut f32,
}

/// Where a tile of features of a row of the output goes.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    pub to: *mut f32,
    /// From one pixel to the next.
    pub pixel: usize,
}

// SAFETY: no thread writes to what is read, but for disjoint parts of `packed` before it is read.
unsafe impl Sync for Operands {}
// SAFETY: items write disjoint parts of `out`.
unsafe impl Sync for Forward {}

impl Forward {
    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what the geometry says, `packed` and `out` to memory of their own, and
    /// the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        self.operands.pack(instructions, threads);
        let g = &self.operands.geometry;
        let threads = threads.for_work(g.products());
        threads.for_each(g.images * g.chunks(), |item| {
            instructions.compute(self, item);
        });
    }
}

impl Operands {
    /// How many numbers `packed` has room for.
    pub fn packed_len(geometry: &Geometry) -> usize {
        let features = geometry.features.next_multiple_of(WIDEST);
        geometry.kernel_height * geometry.run() * features
    }

    /// Lays the kernel out in tiles of features.
    pub(super) unsafe fn pack(&self, instructions: Instructions, threads: &Threads) {
        let g = &self.geometry;
        let tile = instructions.tile();
        let packing = threads.for_work(Self::packed_len(g));
        packing.for_each(g.features.div_ceil(tile) * g.kernel_height, |item| {
            self.pack_row(item / g.kernel_height, item % g.kernel_height, tile);
        });
    }

    /// Lays out one row of the kernel for one tile of features, zeros where there are none.
    unsafe fn pack_row(&self, number: usize, i: usize, tile: usize) {
        let g = &self.geometry;
        let from = number * tile;
        let width = (g.features - from).min(tile);
        let rows = g.kernel_height * g.run();
        let to = self.packed.add((number * rows + i * g.run()) * tile);
        for r in 0..g.run() {
            let row = std::slice::from_raw_parts_mut(to.add(r * tile), tile);
            let (j, c) = (r / g.channels, r % g.channels);
            let kernel = self
                .weights
                .add((i * g.kernel_width + j) * g.channels * g.features);
            let (start, step) = if self.transposed {
                (from * g.channels + c, g.channels)
            } else {
                (c * g.features + from, 1)
            };
            for (f, value) in row[..width].iter_mut().enumerate() {
                *value = *kernel.add(start + f * step);
            }
            row[width..].fill(0.0);
        }
    }

    /// Computes a tile of features of row `h` of an image's output.
    #[inline(always)]
    pub(super) unsafe fn row<V: Lanes>(
        &self,
        (image, h): (usize, usize),
        number: usize,
        out: Destination,
    ) {
        let g = &self.geometry;
        let kernel_rows = g.kernel_rows(h);
        let most = kernel_rows.len().min(LONGEST_SUM / g.run()).max(1);
        for group in groups(g.columns, V::ROWS) {
            let mut start = kernel_rows.start;
            loop {
                let end = kernel_rows.end.min(start + most);
                let part = (start..end, start == kernel_rows.start);
                self.group::<V>((image, h), &group, number, part, out);
                start = end;
                if start == kernel_rows.end {
                    break;
                }
            }
        }
    }

    /// Computes a tile of features of the outputs in columns `group` of row `h` of an image, from
    /// some rows of the kernel, which are added to what is there unless they are the first.
    ///
    /// Where the kernel reaches over a side of the image, its columns are taken in several steps,
    /// each for the outputs at which they lie in the image.
    #[inline(always)]
    unsafe fn group<V: Lanes>(
        &self,
        (image, h): (usize, usize),
        group: &Range<usize>,
        number: usize,
        (kernel_rows, first): (Range<usize>, bool),
        out: Destination,
    ) {
        let g = &self.geometry;
        let tile = 2 * V::COUNT;
        let first_row = (h * g.stride_down + kernel_rows.start).saturating_sub(g.top);
        let row = self
            .images
            .add((image * g.height + first_row.min(g.height - 1)) * g.width * g.channels);
        let packed = self
            .packed
            .add((number * g.kernel_height + kernel_rows.start) * g.run() * tile);
        let width = (g.features - number * tile).min(tile);
        let whole = g.is_between_sides(group);
        if first && !whole {
            for q in group.clone() {
                out.to.add(q * out.pixel).write_bytes(0, width);
            }
        }
        let mut j = 0;
        while j < g.kernel_width {
            let (columns, outputs) = if whole {
                (0..g.kernel_width, group.clone())
            } else {
                g.columns_meeting(j, group)
            };
            j = columns.end;
            if outputs.is_empty() {
                continue;
            }
            let x = outputs.start * g.stride_right + columns.start - g.left;
            let left = Left {
                from: row.add(x * g.channels),
                row: g.stride_right * g.channels,
                steps: kernel_rows.len(),
                step: g.width * g.channels,
                run: columns.len() * g.channels,
                column: 1,
            };
            let right = Right {
                from: packed.add(columns.start * g.channels * tile),
                step: g.run() * tile,
            };
            let product = Product {
                to: out.to.add(outputs.start * out.pixel),
                row: out.pixel,
                width,
                add: !first || !whole,
            };
            multiply::<V>(outputs.len(), left, right, product);
        }
    }
}

impl Work for Forward {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, item: usize) {
        let g = &self.operands.geometry;
        let (image, chunk) = (item / g.chunks(), g.chunk(item % g.chunks()));
        let tile = 2 * V::COUNT;
        for number in 0..g.features.div_ceil(tile) {
            for h in chunk.clone() {
                let pixels = (image * g.rows + h) * g.columns;
                let out = Destination {
                    to: self.out.add(pixels * g.features + number * tile),
                    pixel: g.features,
                };
                self.operands.row::<V>((image, h), number, out);
            }
        }
    }
}
