//! Rows of blocks: copied, and put in the order of a shuffle.

pub mod gather;
pub mod permutation;
pub mod rng;
pub mod runs;
pub mod shuffle;
