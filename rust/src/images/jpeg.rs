//! JPEG: baseline, extended and progressive files, to the bits of libjpeg-turbo's accurate
//! transform, with scaled decoding and windows.

mod bits;
mod color;
mod frame;
mod huffman;
mod idct;
mod markers;
mod plane;
mod progressive;
mod reduced;
mod scan;
mod sequential;
mod upsample;
mod zigzag;

mod decoder;

pub use decoder::{decode, shape, Request};
