//! The hot paths of drumline: whole batches of the input pipeline a call, and what XLA calls on CPUs:
//! convolutions, and sums over processes.

pub mod all_reduce;
pub mod convolution;
pub mod csv;
pub mod examples;
pub mod gather;
pub mod images;
pub mod joined;
pub mod large_buffers;
pub mod permutation;
pub mod records;
pub mod rng;
pub mod rows;
pub mod run_delay;
pub mod runs;
pub mod scatter;
pub mod shuffle;
pub mod slots;
pub mod span;
pub mod spread;
pub mod strings;
pub mod tables;
pub mod tar;
pub mod tensors;
pub mod update_rules;
pub mod wav;
pub mod whole_files;
pub mod xla;

#[cfg(feature = "python")]
mod python;
