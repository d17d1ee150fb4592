//! The hot paths of drumline: whole batches of the input pipeline a call, and what XLA calls on CPUs:
//! convolutions, and sums over processes.

pub mod blocks;
pub mod formats;
pub mod images;
pub mod kernels;
pub mod sched_delay;
pub mod strings;
pub mod tables;

#[cfg(feature = "python")]
mod python;
