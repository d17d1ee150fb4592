//! What XLA calls on CPUs: convolutions, sums over processes, and memory for large arrays.

pub mod all_reduce;
pub mod convolution;
pub mod large_buffers;
pub mod xla;
