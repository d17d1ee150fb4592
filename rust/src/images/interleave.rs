//! Pixels of three channels from three planes.

/// How many pixels are interleaved at a time.
pub const PIXELS: usize = 32;

pub type Chunk = [u8; PIXELS];

/// Splits rows of three planes and of pixels into chunks. The last begins earlier where it would not
/// be whole; rows shorter than a chunk are padded.
#[inline(always)]
pub fn by_chunks(
    [a, b, c]: [&[u8]; 3],
    out: &mut [u8],
    convert: impl Fn([&Chunk; 3], &mut [u8; 3 * PIXELS]),
) {
    let count = out.len() / 3;
    if count < PIXELS {
        let mut pixels = [0; 3 * PIXELS];
        convert([&padded(a), &padded(b), &padded(c)], &mut pixels);
        return out.copy_from_slice(&pixels[..out.len()]);
    }
    for start in (0..count).step_by(PIXELS) {
        let start = start.min(count - PIXELS);
        let chunk = [chunk(a, start), chunk(b, start), chunk(c, start)];
        let out = out[3 * start..].first_chunk_mut();
        convert(chunk, out.expect("a whole chunk"));
    }
}

#[inline(always)]
fn chunk(plane: &[u8], start: usize) -> &Chunk {
    plane[start..].first_chunk().expect("a whole chunk")
}

fn padded(plane: &[u8]) -> Chunk {
    let mut chunk = [0; PIXELS];
    chunk[..plane.len()].copy_from_slice(plane);
    chunk
}

/// For 16 bytes of output: which byte of a channel goes there, or none.
#[cfg(target_arch = "x86_64")]
const PLACES: [[[u8; 16]; 3]; 3] = {
    let mut places = [[[0x80; 16]; 3]; 3];
    let mut at = 0;
    while at < 48 {
        places[at / 16][at % 3][at % 16] = (at / 3) as u8;
        at += 1;
    }
    places
};

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub unsafe fn wide([a, b, c]: [&Chunk; 3], out: &mut [u8; 3 * PIXELS]) {
    use std::arch::x86_64::{_mm_or_si128, _mm_shuffle_epi8, _mm_storeu_si128};
    for half in 0..2 {
        let (a, b, c) = (sixteen(a, half), sixteen(b, half), sixteen(c, half));
        for (part, places) in PLACES.iter().enumerate() {
            let first = _mm_shuffle_epi8(a, sixteen(&places[0], 0));
            let second = _mm_shuffle_epi8(b, sixteen(&places[1], 0));
            let third = _mm_shuffle_epi8(c, sixteen(&places[2], 0));
            let all = _mm_or_si128(_mm_or_si128(first, second), third);
            let to = out.as_mut_ptr().add(48 * half + 16 * part);
            _mm_storeu_si128(to.cast(), all);
        }
    }
}

/// # Safety
/// The processor has AVX2, and there are so many times 16 bytes, and 16 more.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn sixteen(bytes: &[u8], number: usize) -> std::arch::x86_64::__m128i {
    std::arch::x86_64::_mm_loadu_si128(bytes.as_ptr().add(16 * number).cast())
}

#[inline(always)]
pub fn portable(planes: [&Chunk; 3], out: &mut [u8; 3 * PIXELS]) {
    for (i, pixel) in out.chunks_exact_mut(3).enumerate() {
        let three = [planes[0][i], planes[1][i], planes[2][i]];
        *pixel.first_chunk_mut().expect("three") = three;
    }
}
