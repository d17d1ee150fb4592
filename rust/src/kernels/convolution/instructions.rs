//! Which instructions the kernels use, decided when the program runs.

use super::lanes::{self, Lanes};

/// Instruction sets for which the kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(avx512)]
    Avx512,
}

impl Instructions {
    /// The best of those that this processor has.
    pub fn detect() -> Self {
        #[cfg(avx512)]
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Self::Avx512;
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Self::Avx2;
        }
        Self::Portable
    }

    /// The name of the instruction set, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(avx512)]
            Self::Avx512 => "avx512",
        }
    }

    /// Output channels of one tile: two registers.
    pub fn tile(self) -> usize {
        match self {
            Self::Portable => 2 * lanes::Portable::COUNT,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 2 * lanes::x86::Avx2::COUNT,
            #[cfg(avx512)]
            Self::Avx512 => 2 * lanes::x86::Avx512::COUNT,
        }
    }

    /// Computes one item of `work` with these instructions.
    ///
    /// # Safety
    /// The processor has them, and `item` fulfils the contract of `work`.
    pub(super) unsafe fn compute<W: Work>(self, work: &W, item: usize) {
        match self {
            Self::Portable => work.item::<lanes::Portable>(item),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => compute_avx2(work, item),
            #[cfg(avx512)]
            Self::Avx512 => compute_avx512(work, item),
        }
    }
}

/// A computation in independent items, which threads may take in any order.
pub(super) trait Work: Sync {
    /// Computes one item. Implementations are `#[inline(always)]`, to be compiled again for each
    /// instruction set.
    ///
    /// # Safety
    /// The item is one of the computation, no other thread computes it, and the processor has the
    /// instructions of `V`.
    unsafe fn item<V: Lanes>(&self, item: usize);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn compute_avx2<W: Work>(work: &W, item: usize) {
    work.item::<lanes::x86::Avx2>(item);
}

#[cfg(avx512)]
#[allow(clippy::incompatible_msrv)]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn compute_avx512<W: Work>(work: &W, item: usize) {
    work.item::<lanes::x86::Avx512>(item);
}
