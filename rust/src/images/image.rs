//! Decoded pixels, and what they may take.

use super::defect::Defect;

/// Rows of pixels of interleaved channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image<T = u8> {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub data: Vec<T>,
}

impl<T> Image<T> {
    /// The number of values in a row.
    pub fn stride(&self) -> usize {
        self.width * self.channels
    }
}

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub top: usize,
    pub left: usize,
    pub height: usize,
    pub width: usize,
}

impl Window {
    pub fn whole(height: usize, width: usize) -> Self {
        let (top, left) = (0, 0);
        Self {
            top,
            left,
            height,
            width,
        }
    }

    /// # Errors
    /// The window has no pixels, or reaches beyond an image of this size.
    pub fn within(&self, height: usize, width: usize) -> Result<(), Defect> {
        let fits = |start: usize, size: usize, limit: usize| {
            size > 0 && start.checked_add(size).is_some_and(|end| end <= limit)
        };
        if fits(self.top, self.height, height) && fits(self.left, self.width, width) {
            return Ok(());
        }
        Err(Defect::request(format!(
            "the window of {} x {} pixels at ({}, {}) does not lie in the image, which has \
             {height} x {width}",
            self.height, self.width, self.top, self.left
        )))
    }
}

/// How large decoded images may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Height times width, of all frames together.
    pub pixels: u64,
    /// Decoded bytes.
    pub bytes: u64,
    /// Decoded bytes for each byte of contents; small images are excepted.
    pub expansion: u64,
}

/// Decoded bytes that may be had from contents of any length.
const SMALL: u64 = 1 << 20;

impl Limits {
    /// # Errors
    /// An image of this size is too large for contents of `length` bytes.
    pub fn check(
        &self,
        frames: u64,
        shape: [usize; 3],
        width_of_value: u64,
        length: usize,
    ) -> Result<(), Defect> {
        let [height, width, channels] = shape.map(|n| n as u64);
        let pixels = frames.saturating_mul(height).saturating_mul(width);
        let bytes = pixels.saturating_mul(channels * width_of_value);
        let size = format!("the image has {height} x {width} pixels of {channels} channels");
        let size = if frames > 1 {
            format!("{size}, {frames} times")
        } else {
            size
        };
        let over = |name: &str, value: u64, limit: u64| {
            Err(Defect::too_large(format!(
                "{size}; limits.{name} allows {limit}, it needs {value}"
            )))
        };
        if pixels > self.pixels {
            return over("max_pixels", pixels, self.pixels);
        }
        if bytes > self.bytes {
            return over("max_bytes", bytes, self.bytes);
        }
        let ratio = bytes / (length as u64).max(1);
        if bytes > SMALL && ratio > self.expansion {
            return over("max_expansion", ratio, self.expansion);
        }
        Ok(())
    }
}
