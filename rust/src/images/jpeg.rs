//! JPEG: baseline, extended and progressive files, to the bits of libjpeg-turbo's accurate
//! transform, with scaled decoding and windows.

mod bits;
mod coefficients;
mod color;
mod file;
mod frame;
mod huffman;
mod markers;
mod progressive;
mod scan;
mod scans;
mod sequential;
mod transform;
mod upsample;

mod decoder;

pub use decoder::{decode, open, shape, Decoded, Request};
