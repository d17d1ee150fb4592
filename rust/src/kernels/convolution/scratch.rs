//! Operands laid out for the innermost loop, in memory that each thread keeps.

use super::geometry::Geometry;
use std::cell::RefCell;
use std::ops::Range;

/// A cache line, so that no register is loaded from two of them.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [f32; 16]);

/// A buffer that grows.
#[derive(Default)]
pub struct Buffer(Vec<Line>);

impl Buffer {
    /// Room for `len` numbers, of any value.
    pub fn room(&mut self, len: usize) -> *mut f32 {
        let lines = len.div_ceil(16);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0.0; 16]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// What a thread keeps from item to item: rows of images and of gradients, unpooled gradients, and the
/// wins of windows.
#[derive(Default)]
pub struct Scratch {
    pub images: Buffer,
    pub gradients: Buffer,
    pub unpooled: Buffer,
    pub wins: Buffer,
    pub counts: Buffer,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Borrows this thread's scratch memory, until `give_back`.
///
/// No closure takes it: a closure would be compiled without the instructions of its caller.
pub fn take() -> Scratch {
    SCRATCH.take()
}

/// Returns what `take` lent.
pub fn give_back(scratch: Scratch) {
    SCRATCH.set(scratch);
}

/// Rows of one image, as wide as the kernel's places need.
pub struct ImageRows {
    start: *const f32,
    first: usize,
    /// Numbers from one row to the next.
    pub stride: usize,
}

impl ImageRows {
    /// Rows of the image at `image`: where they lie, or copied with zeros around them.
    ///
    /// # Safety
    /// `image` has the image's numbers.
    #[inline(always)]
    pub unsafe fn new(
        geometry: &Geometry,
        image: *const f32,
        rows: Range<usize>,
        buffer: &mut Buffer,
    ) -> Self {
        let stride = geometry.width * geometry.channels;
        if geometry.left == 0 && geometry.covered_width() <= geometry.width {
            return Self {
                start: image.add(rows.start * stride),
                first: rows.start,
                stride,
            };
        }
        let padded = geometry.covered_width() * geometry.channels;
        let left = (geometry.left * geometry.channels).min(padded);
        let inside = stride.min(padded - left);
        let start = buffer.room(rows.len() * padded);
        for (i, row) in rows.clone().enumerate() {
            let to = start.add(i * padded);
            to.write_bytes(0, left);
            std::ptr::copy_nonoverlapping(image.add(row * stride), to.add(left), inside);
            to.add(left + inside).write_bytes(0, padded - left - inside);
        }
        Self {
            start,
            first: rows.start,
            stride: padded,
        }
    }

    /// Where a row of the image starts, its padding included.
    ///
    /// # Safety
    /// `row` is one of the rows.
    #[inline(always)]
    pub unsafe fn row(&self, row: usize) -> *const f32 {
        self.start.add((row - self.first) * self.stride)
    }
}

/// Lays channels `from..from + width` of `pixels` pixels out in rows of `tile`, zeros at the end.
///
/// Where pixels have just that many channels they stay where they are.
///
/// # Safety
/// `pixels` pixels of `channels` numbers lie at `source`, and `from + width <= channels`.
#[inline(always)]
pub unsafe fn channel_tile(
    source: *const f32,
    pixels: usize,
    channels: usize,
    (from, width, tile): (usize, usize, usize),
    buffer: &mut Buffer,
) -> *const f32 {
    if channels == tile {
        return source;
    }
    let room = buffer.room(pixels * tile);
    for i in 0..pixels {
        let to = room.add(i * tile);
        std::ptr::copy_nonoverlapping(source.add(i * channels + from), to, width);
        to.add(width).write_bytes(0, tile - width);
    }
    room
}
