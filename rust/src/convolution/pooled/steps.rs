//! From windows to what the kernel covers, and the kernel in parts that fit the registers.

use super::super::geometry::{groups, Geometry};
use super::super::lanes::Lanes;
use super::padded_image::row_stride;
use super::windows::{Windows, NONE};
use std::ops::Range;

/// Elements of the kernel of which a register or two stay in registers together.
const MOST_TAPS: usize = 9;

/// How many numbers of an image's rows are worked on at a time: most of the nearest cache.
const CHUNK_NUMBERS: usize = 6 * 1024;

/// Distances in what a kernel covers of an image.
pub struct Steps {
    geometry: Geometry,
    windows: Windows,
    stride: usize,
    /// From the first output of a window to its winner; any, if there is none.
    to_winner: [u32; NONE as usize + 1],
    /// From one window to the next.
    pub right: usize,
}

impl Steps {
    pub fn new(g: &Geometry, w: &Windows) -> Self {
        let stride = row_stride(g);
        let mut to_winner = [0; NONE as usize + 1];
        for (number, step) in to_winner.iter_mut().enumerate().take(w.area()) {
            let (down, right) = (number / w.width, number % w.width);
            *step = (down * g.stride_down * stride + right * g.stride_right * g.channels) as u32;
        }
        Self {
            geometry: *g,
            windows: *w,
            stride,
            to_winner,
            right: w.width * g.stride_right * g.channels,
        }
    }

    #[inline(always)]
    pub fn to_winner(&self, winner: u8) -> usize {
        self.to_winner[usize::from(winner)] as usize
    }

    /// From the first number covered to what the first window of a row covers.
    #[inline(always)]
    pub fn to_row(&self, row: usize) -> usize {
        row * self.windows.height * self.geometry.stride_down * self.stride
    }

    /// From what an output covers to what some elements of the kernel do.
    #[inline(always)]
    pub fn to_taps<const TAPS: usize>(&self, first: usize) -> [usize; TAPS] {
        let g = &self.geometry;
        let mut steps = [0; TAPS];
        for (t, step) in steps.iter_mut().enumerate() {
            let (i, j) = ((first + t) / g.kernel_width, (first + t) % g.kernel_width);
            *step = i * self.stride + j * g.channels;
        }
        steps
    }

    /// How many rows of windows are worked on at a time.
    pub fn chunk_rows(&self, channels: usize) -> usize {
        let pixels = self.stride / self.geometry.channels;
        let row = self.windows.height * self.geometry.stride_down * pixels * channels;
        (CHUNK_NUMBERS / row).clamp(1, self.windows.rows)
    }
}

/// What is done for a part of the kernel: some of its elements, one or two registers of channels.
pub trait Parts {
    /// # Safety
    /// As `each_part`.
    unsafe fn part<V: Lanes, const TAPS: usize, const REGISTERS: usize>(
        &mut self,
        first_tap: usize,
        channel: usize,
        rows: Range<usize>,
    );
}

/// Goes through the kernel by parts, for some rows of windows at a time.
///
/// # Safety
/// The channels fill registers, and what `work` does is safe.
#[inline(always)]
pub unsafe fn each_part<V: Lanes, W: Parts>(steps: &Steps, work: &mut W) {
    let g = &steps.geometry;
    let widest = if V::ROWS > 6 { 2 } else { 1 };
    let mut channel = 0;
    while channel < g.channels {
        let registers = ((g.channels - channel) / V::COUNT).min(widest);
        let most = steps.chunk_rows(registers * V::COUNT);
        for rows in groups(steps.windows.rows, most) {
            for taps in groups(g.kernel_height * g.kernel_width, MOST_TAPS) {
                if registers == 1 {
                    by_taps::<V, W, 1>(work, taps, channel, rows.clone());
                } else {
                    by_taps::<V, W, 2>(work, taps, channel, rows.clone());
                }
            }
        }
        channel += registers * V::COUNT;
    }
}

#[inline(always)]
unsafe fn by_taps<V: Lanes, W: Parts, const REGISTERS: usize>(
    work: &mut W,
    taps: Range<usize>,
    channel: usize,
    rows: Range<usize>,
) {
    let first = taps.start;
    match taps.len() {
        1 => work.part::<V, 1, REGISTERS>(first, channel, rows),
        2 => work.part::<V, 2, REGISTERS>(first, channel, rows),
        3 => work.part::<V, 3, REGISTERS>(first, channel, rows),
        4 => work.part::<V, 4, REGISTERS>(first, channel, rows),
        5 => work.part::<V, 5, REGISTERS>(first, channel, rows),
        6 => work.part::<V, 6, REGISTERS>(first, channel, rows),
        7 => work.part::<V, 7, REGISTERS>(first, channel, rows),
        8 => work.part::<V, 8, REGISTERS>(first, channel, rows),
        9 => work.part::<V, 9, REGISTERS>(first, channel, rows),
        taps => unreachable!("{taps} elements of the kernel in a part of at most {MOST_TAPS}"),
    }
}
