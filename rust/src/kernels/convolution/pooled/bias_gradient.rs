//! The gradient of the bias: the sum over all windows that have a winner.

use super::super::instructions::{Instructions, Work};
use super::super::lanes::Lanes;
use super::windows::NONE;
use crate::kernels::xla::threads::Threads;

/// Sums by feature, in blocks of images which are added in their order.
pub struct BiasGradient {
    pub images: usize,
    /// Windows of an image.
    pub windows: usize,
    pub features: usize,
    pub values: *const f32,
    pub winners: *const u8,
    /// `blocks` times `features` numbers.
    pub sums: *mut f32,
    pub blocks: usize,
    pub out: *mut f32,
}

// SAFETY: items write disjoint parts of `sums`.
unsafe impl Sync for BiasGradient {}

impl BiasGradient {
    /// Computes `out`.
    ///
    /// # Safety
    /// The pointers lead to as many numbers as there are, `sums` and `out` to memory of
    /// their own, and the processor has the instructions.
    pub unsafe fn run(&self, instructions: Instructions, threads: &Threads) {
        let features = self.features;
        let numbers = self.images * self.windows * features;
        threads
            .for_work(numbers)
            .for_each(self.blocks, |block| instructions.compute(self, block));
        let out = std::slice::from_raw_parts_mut(self.out, features);
        out.fill(0.0);
        for block in 0..self.blocks {
            let sums = std::slice::from_raw_parts(self.sums.add(block * features), features);
            for (total, value) in out.iter_mut().zip(sums) {
                *total += value;
            }
        }
    }
}

impl Work for BiasGradient {
    #[inline(always)]
    unsafe fn item<V: Lanes>(&self, block: usize) {
        let features = self.features;
        let images = block * self.images / self.blocks..(block + 1) * self.images / self.blocks;
        let sums = std::slice::from_raw_parts_mut(self.sums.add(block * features), features);
        sums.fill(0.0);
        for window in images.start * self.windows..images.end * self.windows {
            let at = window * features;
            let values = std::slice::from_raw_parts(self.values.add(at), features);
            let winners = std::slice::from_raw_parts(self.winners.add(at), features);
            for f in 0..features {
                sums[f] += if winners[f] == NONE { 0.0 } else { values[f] };
            }
        }
    }
}
