//! The samples of one component that an output needs.

use super::super::image::Window;
use super::super::spare;
use super::frame::{Component, Frame};
use std::ops::Range;

/// Samples of some blocks of a component, at the size to which its blocks are decoded.
pub struct Plane {
    /// Blocks, across and down.
    pub columns: Range<usize>,
    pub rows: Range<usize>,
    /// Samples of a block in each direction: 8, 4, 2 or 1.
    pub size: usize,
    /// Samples of the whole component that belong to the image.
    pub width: usize,
    pub height: usize,
    /// How many output pixels a sample stands for.
    pub across: usize,
    pub down: usize,
    pub stride: usize,
    pub samples: Vec<u8>,
}

impl Plane {
    /// For output pixels of the frame divided by `ratio`. Nothing if pixels are no whole number
    /// of samples.
    pub fn new(
        frame: &Frame,
        component: &Component,
        ratio: usize,
        window: &Window,
    ) -> Option<Self> {
        let smallest = 8 / ratio;
        let mut size = smallest;
        while size < 8
            && (frame.h * smallest) % (component.h * size * 2) == 0
            && (frame.v * smallest) % (component.v * size * 2) == 0
        {
            size *= 2; // As libjpeg: larger blocks of the component rather than upsampling.
        }
        let (h, v) = (component.h * size, component.v * size);
        let (h_out, v_out) = (frame.h * smallest, frame.v * smallest);
        if h_out % h != 0 || v_out % v != 0 {
            return None;
        }
        let (across, down) = (h_out / h, v_out / v);
        let width = (frame.width * component.h * size).div_ceil(frame.h * 8);
        let height = (frame.height * component.v * size).div_ceil(frame.v * 8);
        let columns = blocks(window.left, window.width, across, size, width);
        let rows = blocks(window.top, window.height, down, size, height);
        let stride = columns.len() * size;
        Some(Self {
            stride,
            samples: Vec::new(),
            columns,
            rows,
            size,
            width,
            height,
            across,
            down,
        })
    }

    /// Makes room for the samples, which are anything until they are read; or gray.
    pub fn allocate(&mut self, gray: bool) {
        let length = self.stride * self.rows.len() * self.size;
        self.samples = spare::take(length);
        if gray {
            self.samples[..length].fill(128);
        }
    }

    /// Says that no sample is needed.
    pub fn omit(&mut self) {
        (self.rows, self.columns) = (0..0, 0..0);
    }

    /// Where the samples of a block begin, if they are needed.
    #[inline(always)]
    pub fn place(&self, row: usize, column: usize) -> Option<usize> {
        let needed = self.rows.contains(&row) && self.columns.contains(&column);
        needed.then(|| {
            (row - self.rows.start) * self.size * self.stride
                + (column - self.columns.start) * self.size
        })
    }

    /// A row of samples of the image; those beyond its edges repeat the outermost.
    pub fn row(&self, row: isize) -> &[u8] {
        let row = row.clamp(0, self.height as isize - 1) as usize;
        // A neighbour that no pixel needs may lie outside of what is held.
        let last = self.rows.len() * self.size - 1;
        let row = row.saturating_sub(self.rows.start * self.size).min(last);
        &self.samples[row * self.stride..][..self.stride]
    }

    /// The first sample that `row` gives.
    pub fn first(&self) -> usize {
        self.columns.start * self.size
    }
}

/// The blocks that hold samples of some pixels, and the neighbours of these samples.
fn blocks(start: usize, count: usize, factor: usize, size: usize, limit: usize) -> Range<usize> {
    let context = usize::from(factor > 1);
    let first = (start / factor).saturating_sub(context);
    let last = ((start + count - 1) / factor + context).min(limit - 1);
    first / size..last / size + 1
}
