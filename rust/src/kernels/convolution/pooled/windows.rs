//! The windows of a pooling without overlap.

use super::super::geometry::Geometry;
use std::ops::Range;

/// The winner of a window in which no output is positive.
pub const NONE: u8 = u8::MAX;

/// Outputs of a convolution that are worked on at a time, for a tile of features.
const CHUNK_PIXELS: usize = 192;

/// Windows of `height` by `width` outputs. Outputs that are left over at the end are in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    pub height: usize,
    pub width: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Windows {
    /// Windows of `height` by `width` over `rows` by `columns` outputs.
    pub fn new(rows: usize, columns: usize, height: usize, width: usize) -> Self {
        Self {
            height,
            width,
            rows: rows / height,
            columns: columns / width,
        }
    }

    /// How many windows an image has.
    pub fn count(&self) -> usize {
        self.rows * self.columns
    }

    /// How many outputs a window has.
    pub fn area(&self) -> usize {
        self.height * self.width
    }

    /// The convolution without the outputs that are in no window.
    pub fn covered(&self, geometry: &Geometry) -> Geometry {
        Geometry {
            rows: self.rows * self.height,
            columns: self.columns * self.width,
            ..*geometry
        }
    }

    fn chunk_rows(&self) -> usize {
        (CHUNK_PIXELS / (self.columns * self.area())).clamp(1, self.rows)
    }

    /// Into how many chunks the rows of windows are cut.
    pub fn chunks(&self) -> usize {
        self.rows.div_ceil(self.chunk_rows())
    }

    /// The rows of windows in a chunk.
    pub fn chunk(&self, number: usize) -> Range<usize> {
        let start = number * self.chunk_rows();
        start..self.rows.min(start + self.chunk_rows())
    }
}
