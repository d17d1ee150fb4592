//! Images of another size, with TensorFlow's conventions of where pixels lie.

mod former;
mod sample;
mod source;
mod spans;

pub use former::Former;
pub use sample::{resize, Value};
pub use source::{Held, Made, Source};
pub use spans::Spans;

use std::f32::consts::PI;

/// How pixels between pixels are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Bilinear,
    Bicubic,
    Area,
    Lanczos3,
    Lanczos5,
    Gaussian,
    MitchellCubic,
}

impl Method {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bilinear" => Self::Bilinear,
            "bicubic" => Self::Bicubic,
            "area" => Self::Area,
            "lanczos3" => Self::Lanczos3,
            "lanczos5" => Self::Lanczos5,
            "gaussian" => Self::Gaussian,
            "mitchellcubic" => Self::MitchellCubic,
            _ => return None,
        })
    }

    /// From where on pixels count for nothing.
    pub fn radius(self) -> f32 {
        match self {
            Self::Bilinear | Self::Area => 1.0,
            Self::Bicubic | Self::MitchellCubic => 2.0,
            Self::Lanczos3 => 3.0,
            Self::Lanczos5 => 5.0,
            Self::Gaussian => 1.5,
        }
    }

    /// The weight at a distance, as in TensorFlow's `sampling_kernels.h`.
    pub fn weight(self, distance: f32) -> f32 {
        let x = distance.abs();
        if x >= self.radius() {
            return 0.0;
        }
        match self {
            Self::Bilinear | Self::Area => 1.0 - x,
            Self::Bicubic if x >= 1.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Self::Bicubic => (1.5 * x - 2.5) * x * x + 1.0,
            Self::MitchellCubic if x >= 1.0 => {
                ((-7.0 / 18.0 * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
            }
            Self::MitchellCubic => (7.0 / 6.0 * x - 2.0) * x * x + 8.0 / 9.0,
            Self::Gaussian => (-x * x / (2.0 * 0.5 * 0.5)).exp(),
            Self::Lanczos3 | Self::Lanczos5 if x <= 1e-3 => 1.0,
            Self::Lanczos3 | Self::Lanczos5 => {
                let r = self.radius();
                r * (PI * x).sin() * (PI * x / r).sin() / (PI * PI * x * x)
            }
        }
    }
}

/// Copies the nearest pixels into an image of another size; a pixel has `pixel` bytes.
pub fn nearest(
    bytes: &[u8],
    (height, width): (usize, usize),
    pixel: usize,
    (new_height, new_width): (usize, usize),
    out: &mut [u8],
) {
    let columns: Vec<usize> = (0..new_width)
        .map(|x| nearest_pixel(x, width, new_width))
        .collect();
    for (y, out) in out.chunks_exact_mut(new_width * pixel).enumerate() {
        let row = &bytes[nearest_pixel(y, height, new_height) * width * pixel..][..width * pixel];
        for (out, &x) in out.chunks_exact_mut(pixel).zip(&columns) {
            out.copy_from_slice(&row[x * pixel..][..pixel]);
        }
    }
}

/// As TensorFlow rounds: in single precision.
fn nearest_pixel(at: usize, input: usize, output: usize) -> usize {
    let scale = input as f32 / output as f32;
    (((at as f32 + 0.5) * scale).floor() as usize).min(input - 1)
}
