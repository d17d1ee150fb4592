//! A component's samples that an output needs, at the resolution of the output, to the bits of
//! libjpeg-turbo's `jdsample.c`.

use super::super::image::Window;
use super::super::scratch;
use super::super::vectorized::vectorized;
use super::frame::{Component, Frame};
use std::ops::Range;

/// Memory for one row.
#[derive(Default)]
pub struct Scratch {
    sums: Vec<u16>,
    row: Vec<u8>,
}

/// The samples of row `y` of the output, for some of its columns.
pub fn row<'a>(
    plane: &'a Plane,
    y: usize,
    columns: &Range<usize>,
    smooth: bool,
    scratch: &'a mut Scratch,
) -> &'a [u8] {
    let (near, far) = neighbours(plane, y);
    let skip = (columns.start / plane.across) - plane.first();
    let wide = plane.width > 2;
    match (plane.across, plane.down) {
        (1, 1) => return &near[skip..][..columns.len()],
        (1, 2) if smooth => {
            scratch.row.resize(columns.len(), 0);
            let bias = 1 + (y % 2) as u16;
            thirds(&near[skip..], &far[skip..], bias, &mut scratch.row);
            return &scratch.row;
        }
        (2, 1) if smooth && wide => scratch.double::<1, 2, 2>(near, widen),
        (2, 2) if smooth && wide => {
            scratch.double::<8, 7, 4>(near, |near, sums| blend(near, far, sums));
        }
        (across, _) => {
            scratch.row.clear();
            let repeated = near.iter().flat_map(|&v| std::iter::repeat_n(v, across));
            scratch.row.extend(repeated);
        }
    }
    &scratch.row[columns.start - plane.first() * plane.across..][..columns.len()]
}

/// The samples of a row of output, and of the row beside it that counts for a quarter.
fn neighbours(plane: &Plane, y: usize) -> (&[u8], &[u8]) {
    let source = (y / plane.down) as isize;
    let beside = if y % 2 == 0 { source - 1 } else { source + 1 };
    let held = (plane.width - plane.first()).min(plane.stride);
    let far = if plane.down == 1 { source } else { beside };
    (&plane.row(source)[..held], &plane.row(far)[..held])
}

impl Scratch {
    #[inline(always)]
    fn double<const LEFT: u16, const RIGHT: u16, const SHIFT: u16>(
        &mut self,
        samples: &[u8],
        sum: impl FnOnce(&[u8], &mut [u16]),
    ) {
        let count = samples.len();
        self.sums.resize(count + 2, 0);
        sum(samples, &mut self.sums[1..=count]);
        self.sums[0] = self.sums[1];
        self.sums[count + 1] = self.sums[count];
        self.row.resize(2 * count, 0);
        double::<LEFT, RIGHT, SHIFT>(&self.sums, &mut self.row);
    }
}

vectorized! {
    fn thirds(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
        for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
            *out = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
        }
    }
}

vectorized! {
    fn widen(samples: &[u8], out: &mut [u16]) {
        for (out, &sample) in out.iter_mut().zip(samples) {
            *out = u16::from(sample);
        }
    }
}

vectorized! {
    fn blend(near: &[u8], far: &[u8], out: &mut [u16]) {
        for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
            *out = 3 * u16::from(near) + u16::from(far);
        }
    }
}

vectorized! {
    /// Two values between each sum and its neighbours; there is one sum more at either end.
    fn double[const LEFT: u16, const RIGHT: u16, const SHIFT: u16][LEFT, RIGHT, SHIFT](sums: &[u16], out: &mut [u8]) {
        let count = out.len() / 2;
        let (before, here, after) = (&sums[..count], &sums[1..][..count], &sums[2..][..count]);
        for (i, pair) in out.chunks_exact_mut(2).enumerate() {
            let three = 3 * here[i];
            pair[0] = ((three + before[i] + LEFT) >> SHIFT) as u8;
            pair[1] = ((three + after[i] + RIGHT) >> SHIFT) as u8;
        }
    }
}

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
        self.samples = scratch::take(length);
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
