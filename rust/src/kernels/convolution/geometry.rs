//! The shape of a convolution, and which of its rows are multiplied.

use std::ops::Range;

/// Images are `[images, height, width, channels]`, outputs `[images, rows, columns, features]`,
/// kernels `[kernel_height, kernel_width, channels, features]`. Output `(h, q)` covers the image
/// from `(h * stride_down - top, q * stride_right - left)`; outside of it are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub images: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub rows: usize,
    pub columns: usize,
    pub features: usize,
    pub kernel_height: usize,
    pub kernel_width: usize,
    pub stride_down: usize,
    pub stride_right: usize,
    pub top: usize,
    pub left: usize,
}

/// Pixels of an output that are worked on at a time: 128 to 256 numbers each stay in a cache.
const CHUNK_PIXELS: usize = 192;

impl Geometry {
    /// Numbers in an image.
    pub fn image_len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Numbers in the output of an image.
    pub fn output_len(&self) -> usize {
        self.rows * self.columns * self.features
    }

    /// Numbers that a row of the kernel covers, which lie together in a row of an image.
    pub fn run(&self) -> usize {
        self.kernel_width * self.channels
    }

    /// Numbers in the kernel.
    pub fn kernel_len(&self) -> usize {
        self.kernel_height * self.run() * self.features
    }

    /// Products of two numbers to sum, padding included.
    pub fn products(&self) -> usize {
        self.images * self.rows * self.columns * self.kernel_len()
    }

    /// Pixels of an image's row that the kernel covers, padding included.
    pub fn covered_width(&self) -> usize {
        (self.columns - 1) * self.stride_right + self.kernel_width
    }

    /// Output rows that are worked on at a time.
    pub fn chunk_rows(&self) -> usize {
        (CHUNK_PIXELS / self.columns).clamp(1, self.rows)
    }

    /// How many chunks of rows an output has.
    pub fn chunks(&self) -> usize {
        self.rows.div_ceil(self.chunk_rows())
    }

    /// The output rows of a chunk.
    pub fn chunk(&self, number: usize) -> Range<usize> {
        let start = number * self.chunk_rows();
        start..self.rows.min(start + self.chunk_rows())
    }

    /// The rows of the image that a range of output rows covers.
    pub fn image_rows(&self, outputs: &Range<usize>) -> Range<usize> {
        let start = (outputs.start * self.stride_down).saturating_sub(self.top);
        let end = (outputs.end - 1) * self.stride_down + self.kernel_height;
        let end = end.saturating_sub(self.top).min(self.height);
        start.min(end)..end
    }

    /// Of a range of output rows, those at which row `i` of the kernel lies in the image.
    pub fn rows_meeting(&self, i: usize, outputs: &Range<usize>) -> Range<usize> {
        meeting(self.height, self.top, self.stride_down, i, outputs)
    }

    /// The output columns at which column `j` of the kernel lies in the image.
    pub fn columns_at(&self, j: usize) -> Range<usize> {
        meeting(
            self.width,
            self.left,
            self.stride_right,
            j,
            &(0..self.columns),
        )
    }

    /// Whether the kernel lies between the image's sides at all of a range of output columns.
    pub fn is_between_sides(&self, outputs: &Range<usize>) -> bool {
        let end = (outputs.end - 1) * self.stride_right + self.kernel_width;
        outputs.start * self.stride_right >= self.left && end <= self.width + self.left
    }

    /// From column `j` of the kernel, the columns that lie in the image at the same outputs of a
    /// range, and these outputs.
    pub fn columns_meeting(
        &self,
        j: usize,
        outputs: &Range<usize>,
    ) -> (Range<usize>, Range<usize>) {
        let at = |j| meeting(self.width, self.left, self.stride_right, j, outputs);
        let first = at(j);
        let end = (j + 1..self.kernel_width).find(|&next| at(next) != first);
        (j..end.unwrap_or(self.kernel_width), first)
    }

    /// The rows of the kernel that lie in the image at output row `h`.
    pub fn kernel_rows(&self, h: usize) -> Range<usize> {
        let above = h * self.stride_down;
        let end = (self.height + self.top).saturating_sub(above);
        let end = end.min(self.kernel_height);
        self.top.saturating_sub(above).min(end)..end
    }
}

/// Of a range of outputs, those at which element `i` of the kernel lies in an axis of `size` elements
/// with `before` elements of padding.
fn meeting(
    size: usize,
    before: usize,
    stride: usize,
    i: usize,
    outputs: &Range<usize>,
) -> Range<usize> {
    let start = before.saturating_sub(i).div_ceil(stride);
    let end = match (size + before).checked_sub(i + 1) {
        Some(last) => last / stride + 1,
        None => 0,
    };
    let end = end.min(outputs.end);
    start.max(outputs.start).min(end)..end
}

/// Splits `count` into as few groups of at most `most` as possible, alike in size.
pub fn groups(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let number = count.div_ceil(most);
    (0..number).map(move |g| (g * count / number)..((g + 1) * count / number))
}
