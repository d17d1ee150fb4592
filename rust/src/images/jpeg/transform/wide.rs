//! Lanes as AVX2's vectors. Its methods are inlined into functions compiled for AVX2, and called
//! from nowhere else.

use super::super::transform::Block;
use super::{transform_by, Lanes};
use std::arch::x86_64::*;
use std::mem::transmute;

#[derive(Clone, Copy)]
pub struct Wide(__m256i);

/// As `super::transform`.
///
/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub unsafe fn transform(
    block: &Block,
    factors: &Block,
    size: usize,
    samples: &mut [u8],
    stride: usize,
) {
    transform_by::<Wide>(block, factors, size, samples, stride);
}

// SAFETY, for all blocks: the processor has AVX2, as whoever uses `Wide` must know; pointers are of
// references to as many bytes as are read.
impl Lanes for Wide {
    type Pairs = __m256i;

    #[inline(always)]
    fn pairs(coefficients: &[i16; 16], factors: &[i16; 16]) -> __m256i {
        unsafe {
            _mm256_mullo_epi16(
                _mm256_loadu_si256(coefficients.as_ptr().cast()),
                _mm256_loadu_si256(factors.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    fn weighted(pairs: __m256i, [first, second]: [i16; 2]) -> Self {
        let both = (i32::from(first) & 0xffff) | (i32::from(second) << 16);
        Self(unsafe { _mm256_madd_epi16(pairs, _mm256_set1_epi32(both)) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn raised(self, by: i32) -> Self {
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_set1_epi32(by)) })
    }

    #[inline(always)]
    fn shifted<const BITS: i32>(self) -> Self {
        Self(unsafe { _mm256_srai_epi32::<BITS>(self.0) })
    }

    #[inline(always)]
    fn turned(rows: [Self; 8]) -> [__m256i; 4] {
        unsafe {
            let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 8, 9, 4, 5, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
            ));
            let two = |i: usize| {
                let halves = _mm256_packs_epi32(rows[i].0, rows[i + 4].0);
                let rows = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
                _mm256_shuffle_epi8(rows, order)
            };
            let (a, b, c, d) = (two(0), two(1), two(2), two(3));
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ab_odd, cd_odd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ab_odd, cd_odd),
                _mm256_unpackhi_epi64(ab_odd, cd_odd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn write_eight([a, b, c, d, e, f, g, h]: [Self; 8], start: *mut u8, stride: usize) {
        let (left, right) = (quarters([a, b, c, d]), quarters([e, f, g, h]));
        let low = _mm256_unpacklo_epi32(left, right);
        let high = _mm256_unpackhi_epi32(left, right);
        let row = |i: usize| start.add(i * stride);
        write_two(_mm256_castsi256_si128(low), row(0), row(1));
        write_two(_mm256_castsi256_si128(high), row(2), row(3));
        write_two(_mm256_extracti128_si256::<1>(low), row(4), row(5));
        write_two(_mm256_extracti128_si256::<1>(high), row(6), row(7));
    }

    #[inline(always)]
    fn rows_of_four(columns: [Self; 4]) -> [[u8; 4]; 8] {
        unsafe { transmute(quarters(columns)) }
    }
}

/// Writes two rows of eight samples.
#[inline(always)]
unsafe fn write_two(rows: __m128i, first: *mut u8, second: *mut u8) {
    _mm_storel_epi64(first.cast(), rows);
    _mm_storeh_pd(second.cast(), _mm_castsi128_pd(rows));
}

/// Rows of four samples, of four columns.
#[inline(always)]
fn quarters([a, b, c, d]: [Wide; 4]) -> __m256i {
    unsafe {
        let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
        ));
        let (low, high) = (_mm256_packs_epi32(a.0, b.0), _mm256_packs_epi32(c.0, d.0));
        _mm256_shuffle_epi8(_mm256_packus_epi16(low, high), order)
    }
}
