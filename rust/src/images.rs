//! Images: bytes to pixels, and pixels of images of any size.

pub mod arithmetic;
pub mod arrange;
pub mod bmp;
pub mod defect;
pub mod elementwise;
pub mod encode;
pub mod gif;
pub mod image;
mod interleave;
pub mod jpeg;
pub mod png;
pub mod resize;
pub mod scratch;
pub(crate) mod vectorized;
