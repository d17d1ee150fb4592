//! The gradient of a convolution's outputs in memory, for what cannot take it by windows.

use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::gradient::PooledGradient;
use crate::kernels::xla::threads::Threads;

/// Writes `out[n, h, q, f]`, zero but where an output won its window.
pub struct Unpooling {
    pub images: usize,
    pub rows: usize,
    pub columns: usize,
    pub features: usize,
    pub gradient: PooledGradient,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `out`.
unsafe impl Sync for Unpooling {}

impl Unpooling {
    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to what sizes and windows say, `out` to memory of its own, and
    /// the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let numbers = self.images * self.rows * self.columns * self.features;
        threads
            .for_work(numbers)
            .for_each(self.images, |image| instructions.compute(self, image));
    }
}

impl Work for Unpooling {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, image: usize) {
        let sizes = (self.rows, self.columns, self.features);
        let out = self.out.add(image * sizes.0 * sizes.1 * sizes.2);
        self.gradient.unpool(sizes, image, out);
    }
}
