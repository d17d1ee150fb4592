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
    right: usize,
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

    /// From what the first output of a window covers to what its winner does.
    #[inline(always)]
    pub fn to_winner(&self, winner: u8) -> u32 {
        self.to_winner[usize::from(winner)]
    }

    /// From the first number covered to what the first output of a window covers.
    #[inline(always)]
    pub fn to_window(&self, row: usize, column: usize) -> u32 {
        let down = row * self.windows.height * self.geometry.stride_down * self.stride;
        (down + column * self.right) as u32
    }

    /// From what an output covers to what some elements of the kernel do.
    ///
    /// Never inlined: a compiler that knows what these are made of adds it up again by element.
    #[inline(never)]
    pub fn to_taps<const TAPS: usize>(&self, first: usize) -> [usize; TAPS] {
        let g = &self.geometry;
        let mut steps = [0; TAPS];
        for (t, step) in steps.iter_mut().enumerate() {
            let (i, j) = ((first + t) / g.kernel_width, (first + t) % g.kernel_width);
            *step = i * self.stride + j * g.channels;
        }
        steps
    }

    /// The rows of windows that are worked on at a time.
    pub fn chunks<V: Lanes>(&self) -> impl Iterator<Item = Range<usize>> {
        let g = &self.geometry;
        let channels = g.channels.min(registers::<V>() * V::COUNT);
        let pixels = self.stride / g.channels;
        let row = self.windows.height * g.stride_down * pixels * channels;
        groups(self.windows.rows, (CHUNK_NUMBERS / row).max(1))
    }
}

/// How many registers of channels fit, besides `MOST_TAPS` elements of the kernel.
pub fn registers<V: Lanes>() -> usize {
    if V::ROWS > 6 {
        2
    } else {
        1
    }
}

/// What is done for a part of the kernel: some of its elements, one or two registers of channels.
pub trait TileWork {
    /// # Safety
    /// As `each_tile`.
    unsafe fn tile<V: Lanes, const TAPS: usize, const REGISTERS: usize>(
        &mut self,
        first_tap: usize,
        channel: usize,
    );
}

/// Goes through the kernel by parts, of at most `most` registers of channels.
///
/// # Safety
/// The channels fill registers, and what `work` does is safe.
#[inline(always)]
pub unsafe fn each_tile<V: Lanes, W: TileWork>(g: &Geometry, most: usize, work: &mut W) {
    let mut channel = 0;
    while channel < g.channels {
        let registers = ((g.channels - channel) / V::COUNT).min(most);
        for taps in groups(g.kernel_height * g.kernel_width, MOST_TAPS) {
            if registers == 1 {
                by_taps::<V, W, 1>(work, taps, channel);
            } else {
                by_taps::<V, W, 2>(work, taps, channel);
            }
        }
        channel += registers * V::COUNT;
    }
}

#[inline(always)]
unsafe fn by_taps<V: Lanes, W: TileWork, const REGISTERS: usize>(
    work: &mut W,
    taps: Range<usize>,
    channel: usize,
) {
    let first = taps.start;
    match taps.len() {
        1 => work.tile::<V, 1, REGISTERS>(first, channel),
        2 => work.tile::<V, 2, REGISTERS>(first, channel),
        3 => work.tile::<V, 3, REGISTERS>(first, channel),
        4 => work.tile::<V, 4, REGISTERS>(first, channel),
        5 => work.tile::<V, 5, REGISTERS>(first, channel),
        6 => work.tile::<V, 6, REGISTERS>(first, channel),
        7 => work.tile::<V, 7, REGISTERS>(first, channel),
        8 => work.tile::<V, 8, REGISTERS>(first, channel),
        9 => work.tile::<V, 9, REGISTERS>(first, channel),
        taps => unreachable!("{taps} elements of the kernel in a part of at most {MOST_TAPS}"),
    }
}
