//! Images: bytes to pixels, and pixels of images of any size.

pub mod defect;
pub mod image;
mod interleave;
pub mod jpeg;
pub mod resize;
pub mod spare;
mod vectorized;
