//! Colors of Y, Cb, Cr on AVX2's vectors, to the bits of `super::colors`.

use super::super::super::interleave::{self, by_chunks, Chunk, PIXELS};
use std::arch::x86_64::*;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub unsafe fn from_ycbcr(planes: [&[u8]; 3], out: &mut [u8]) {
    by_chunks(planes, out, |planes, out| {
        let [r, g, b] = colors(planes);
        interleave::wide([&r, &g, &b], out);
    });
}

/// # Safety
/// As `from_ycbcr`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn colors(planes: [&Chunk; 3]) -> [Chunk; 3] {
    let low = sixteen(planes, 0);
    let high = sixteen(planes, PIXELS / 2);
    let mut chunks = [[0; PIXELS]; 3];
    for (color, chunk) in chunks.iter_mut().enumerate() {
        let packed = _mm256_packus_epi16(low[color], high[color]);
        let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
        _mm256_storeu_si256(chunk.as_mut_ptr().cast(), ordered);
    }
    chunks
}

/// The colors of sixteen pixels. Factors stand behind a point before 16 bits; what they are less or
/// more than a whole number fits in one.
///
/// # Safety
/// As `from_ycbcr`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn sixteen([y, cb, cr]: [&Chunk; 3], from: usize) -> [__m256i; 3] {
    let middle = _mm256_set1_epi16(128);
    let y = widened(y, from);
    let cb = _mm256_sub_epi16(widened(cb, from), middle);
    let cr = _mm256_sub_epi16(widened(cr, from), middle);
    let r = _mm256_add_epi16(cr, part(cr, 26345));
    let b = _mm256_add_epi16(_mm256_add_epi16(cb, cb), part(cb, -14942));
    let (low, high) = (_mm256_unpacklo_epi16(cb, cr), _mm256_unpackhi_epi16(cb, cr));
    let g = _mm256_sub_epi16(_mm256_packs_epi32(green(low), green(high)), cr);
    [
        _mm256_add_epi16(y, r),
        _mm256_add_epi16(y, g),
        _mm256_add_epi16(y, b),
    ]
}

/// # Safety
/// As `from_ycbcr`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn widened(chunk: &Chunk, from: usize) -> __m256i {
    let half: &[u8; PIXELS / 2] = chunk[from..].first_chunk().expect("half a chunk");
    _mm256_cvtepu8_epi16(_mm_loadu_si128(half.as_ptr().cast()))
}

/// What is added to Y for green, of pairs of Cb and Cr, but a whole Cr.
///
/// # Safety
/// As `from_ycbcr`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn green(pairs: __m256i) -> __m256i {
    let weights = _mm256_set1_epi32((-22554 & 0xffff) | (18734 << 16));
    let sums = _mm256_madd_epi16(pairs, weights);
    _mm256_srai_epi32::<16>(_mm256_add_epi32(sums, _mm256_set1_epi32(1 << 15)))
}

/// Values times a factor of 65536ths, rounded.
///
/// # Safety
/// As `from_ycbcr`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn part(values: __m256i, factor: i16) -> __m256i {
    let twice = _mm256_mulhi_epi16(_mm256_add_epi16(values, values), _mm256_set1_epi16(factor));
    _mm256_srai_epi16::<1>(_mm256_add_epi16(twice, _mm256_set1_epi16(1)))
}
