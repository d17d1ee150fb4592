//! What a pixel counts for at a distance, as in TensorFlow's `sampling_kernels.h`.

use super::Method;
use std::f32::consts::PI;

impl Method {
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

    /// The weight at a distance.
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
