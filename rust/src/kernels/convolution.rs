//! Convolutions of channels-last images in float32, computed where the images lie.
//!
//! XLA lays the patches of an image out in memory for a matrix product. Here the same product is
//! taken directly: a tile of sums stays in registers while the kernel reads images, weights and
//! gradients from the caches. Every element is summed in an order that the shapes alone determine,
//! so that results do not depend on the number of threads.

pub mod forward;
pub mod geometry;
pub mod instructions;
mod lanes;
pub mod pooled;
mod scratch;
#[cfg(test)]
mod tests;
mod tile;
pub mod weight_gradient;
