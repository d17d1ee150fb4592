//! Convolution, bias, relu and pooling without overlap in one, and its gradients.
//!
//! What a convolution computes stays in a cache until it is pooled: memory holds the pooled values,
//! and for each the number of the output that won its window. The gradient of the outputs is zero but
//! for one number by window and feature, so that the gradients of kernel and images need one product
//! by window in the place of one by output.

pub mod bias_gradient;
pub mod forward;
pub mod gradient;
pub mod input_gradient;
mod padded_image;
mod steps;
#[cfg(test)]
mod tests;
pub mod unpooling;
pub mod weight_gradient;
pub mod windows;
mod winners;
mod wins;
