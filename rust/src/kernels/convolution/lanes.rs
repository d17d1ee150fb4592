//! Registers of several float32, for the instruction sets that a processor may have.

/// One register. Its functions may only run where the processor has the instructions.
pub trait Lanes: Copy {
    /// Numbers in a register.
    const COUNT: usize;
    /// The most rows of a tile, two registers wide, whose sums and operands fit the registers.
    const ROWS: usize;

    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn plus(self, other: Self) -> Self;
    /// `self + *factor * other`, the factor for all lanes.
    unsafe fn add_product(self, factor: *const f32, other: Self) -> Self;
    unsafe fn all(value: f32) -> Self;
    /// In each lane `(self, number)` if `self` is greater than the first of `best`, else `best`.
    unsafe fn or_best(self, number: Self, best: (Self, Self)) -> (Self, Self);
    /// Stores whole numbers below 256 as bytes.
    unsafe fn store_bytes(self, to: *mut u8);
}

/// For processors without the instructions below; the compiler makes of it what it can.
#[derive(Clone, Copy)]
pub struct Portable([f32; 4]);

impl Lanes for Portable {
    const COUNT: usize = 4;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(from.cast::<[f32; 4]>().read_unaligned())
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        to.cast::<[f32; 4]>().write_unaligned(self.0);
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: *const f32, other: Self) -> Self {
        let factor = *factor;
        Self(std::array::from_fn(|i| self.0[i] + factor * other.0[i]))
    }

    #[inline(always)]
    unsafe fn all(value: f32) -> Self {
        Self([value; 4])
    }

    #[inline(always)]
    unsafe fn or_best(self, number: Self, mut best: (Self, Self)) -> (Self, Self) {
        for i in 0..Self::COUNT {
            if self.0[i] > best.0 .0[i] {
                best.0 .0[i] = self.0[i];
                best.1 .0[i] = number.0[i];
            }
        }
        best
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        to.cast::<[u8; 4]>()
            .write_unaligned(self.0.map(|v| v as u8));
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// AVX2 with fused multiply-add.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256);

    impl Lanes for Avx2 {
        const COUNT: usize = 8;
        const ROWS: usize = 6;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(_mm256_loadu_ps(from))
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            _mm256_storeu_ps(to, self.0);
        }

        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            Self(_mm256_add_ps(self.0, other.0))
        }

        #[inline(always)]
        unsafe fn add_product(self, factor: *const f32, other: Self) -> Self {
            Self(_mm256_fmadd_ps(_mm256_set1_ps(*factor), other.0, self.0))
        }

        #[inline(always)]
        unsafe fn all(value: f32) -> Self {
            Self(_mm256_set1_ps(value))
        }

        #[inline(always)]
        unsafe fn or_best(self, number: Self, best: (Self, Self)) -> (Self, Self) {
            let greater = _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, best.0 .0);
            let value = _mm256_blendv_ps(best.0 .0, self.0, greater);
            let number = _mm256_blendv_ps(best.1 .0, number.0, greater);
            (Self(value), Self(number))
        }

        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8) {
            let wide = _mm256_cvtps_epi32(self.0);
            let (low, high) = (
                _mm256_castsi256_si128(wide),
                _mm256_extracti128_si256::<1>(wide),
            );
            let narrow = _mm_packus_epi32(low, high);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(narrow, narrow));
        }
    }

    /// AVX-512.
    #[cfg(avx512)]
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512);

    // Only compiled where the compiler has these, whatever the oldest one supported.
    #[cfg(avx512)]
    #[allow(clippy::incompatible_msrv)]
    impl Lanes for Avx512 {
        const COUNT: usize = 16;
        const ROWS: usize = 14;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(_mm512_loadu_ps(from))
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            _mm512_storeu_ps(to, self.0);
        }

        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            Self(_mm512_add_ps(self.0, other.0))
        }

        #[inline(always)]
        unsafe fn add_product(self, factor: *const f32, other: Self) -> Self {
            Self(_mm512_fmadd_ps(_mm512_set1_ps(*factor), other.0, self.0))
        }

        #[inline(always)]
        unsafe fn all(value: f32) -> Self {
            Self(_mm512_set1_ps(value))
        }

        #[inline(always)]
        unsafe fn or_best(self, number: Self, best: (Self, Self)) -> (Self, Self) {
            let greater = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, best.0 .0);
            let value = _mm512_mask_mov_ps(best.0 .0, greater, self.0);
            let number = _mm512_mask_mov_ps(best.1 .0, greater, number.0);
            (Self(value), Self(number))
        }

        #[inline(always)]
        unsafe fn store_bytes(self, to: *mut u8) {
            let narrow = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0));
            _mm_storeu_si128(to.cast(), narrow);
        }
    }
}
