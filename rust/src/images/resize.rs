//! Images of another size, with TensorFlow's conventions of where pixels lie.

mod four;
mod kernel;
mod nearest;
mod sample;
mod source;
mod spans;

pub use nearest::nearest;
pub use sample::{resize, Value};
pub use source::{Held, Made, Source};
pub use spans::Spans;

/// How pixels between pixels are made.
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
}
