//! The hot path of drumline's input pipeline: whole batches a call, no Python object per element.

pub mod gather;
pub mod large_buffers;
pub mod rng;
pub mod shuffle;

#[cfg(feature = "python")]
mod python;
