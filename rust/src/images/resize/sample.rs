//! Weighted sums of pixels, first down the columns, then along the rows.

use super::super::vectorized::vectorized;
use super::{Source, Spans};

/// What a channel of a pixel is counted in.
pub trait Value: Copy + Send + Sync {
    fn number(self) -> f32;
}

macro_rules! values {
    ($($kind:ty),*) => {
        $(impl Value for $kind {
            #[inline(always)]
            fn number(self) -> f32 {
                self as f32
            }
        })*
    };
}
values!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Writes the resized image of rows of `width` x `channels` values.
///
/// `spans` are those down and along; `line` is memory for one row, of any length. A row of the result is
/// finished by a function while it is in the cache.
pub fn resize<T: Value>(
    source: &mut impl Source<T>,
    channels: usize,
    width: usize,
    (down, along): (&Spans, &Spans),
    line: &mut Vec<f32>,
    finish: impl Fn(&mut [f32]),
    out: &mut [f32],
) {
    let stride = width * channels;
    line.resize(stride + PADDING, 0.0);
    let weights = down.weights.chunks_exact(down.taps);
    let rows = out.chunks_exact_mut(along.starts.len() * channels);
    for ((out, &start), weights) in rows.zip(&down.starts).zip(weights) {
        blend(source.rows(start, down.taps), weights, &mut line[..stride]);
        match channels {
            3 => colors(line, along, out),
            _ => any(line, channels, along, out),
        }
        finish(out);
    }
}

/// A pixel of three channels is read as four values.
const PADDING: usize = 1;

vectorized! {
    fn blend[T: Value][T](rows: &[T], weights: &[f32], out: &mut [f32]) {
        let width = out.len();
        let row = |k: usize| &rows[k * width..][..width];
        if let [a, b] = *weights {
            for ((out, top), bottom) in out.iter_mut().zip(row(0)).zip(row(1)) {
                *out = a * top.number() + b * bottom.number();
            }
            return;
        }
        for (out, value) in out.iter_mut().zip(row(0)) {
            *out = weights[0] * value.number();
        }
        for (k, &weight) in weights.iter().enumerate().skip(1) {
            for (out, value) in out.iter_mut().zip(row(k)) {
                *out += weight * value.number();
            }
        }
    }
}

fn colors(line: &[f32], spans: &Spans, out: &mut [f32]) {
    match spans.taps {
        2 => colors_of_two(line, spans, out),
        _ => colors_of_many(line, spans, out),
    }
}

vectorized! {
    fn colors_of_two(line: &[f32], spans: &Spans, out: &mut [f32]) {
        let count = spans.starts.len();
        let furthest = spans.starts.iter().fold(0, |most, &start| most.max(start));
        assert!(furthest < line.len() && 3 * furthest + 7 <= line.len());
        assert!(2 * count <= spans.weights.len() && count > 0 && 3 * count <= out.len());
        let made = |x: usize, start: usize| {
            // SAFETY: a start is no further than the furthest, and `x` is less than `count`.
            let (pixels, weights) = unsafe {
                let pixels = line.as_ptr().add(3 * start).cast::<[f32; 7]>();
                let weights = spans.weights.as_ptr().add(2 * x).cast::<[f32; 2]>();
                (&*pixels, &*weights)
            };
            of_two(pixels, weights)
        };
        let (last, others) = spans.starts.split_last().expect("a pixel");
        for (x, &start) in others.iter().enumerate() {
            let four = out.as_mut_ptr().wrapping_add(3 * x).cast::<[f32; 4]>();
            // SAFETY: another pixel follows. The fourth is written again.
            unsafe { *four = made(x, start) };
        }
        let [r, g, b, _] = made(others.len(), *last);
        let three = out[3 * others.len()..].first_chunk_mut();
        *three.expect("a pixel") = [r, g, b];
    }
}

#[inline(always)]
fn of_two(pixels: &[f32; 7], weights: &[f32; 2]) -> [f32; 4] {
    let (left, right) = (pixels.first_chunk(), pixels.last_chunk());
    blended(left.expect("four"), right.expect("four"), weights)
}

vectorized! {
    fn colors_of_many(line: &[f32], spans: &Spans, out: &mut [f32]) {
        let last = spans.starts.len() - 1;
        for x in 0..last {
            let four = out[3 * x..].first_chunk_mut().expect("two pixels");
            *four = of_many(line, spans, x); // The fourth is written again.
        }
        out[3 * last..].copy_from_slice(&of_many(line, spans, last)[..3]);
    }
}

#[inline(always)]
fn of_many(line: &[f32], spans: &Spans, x: usize) -> [f32; 4] {
    let weights = &spans.weights[spans.taps * x..][..spans.taps];
    let pixels = &line[3 * spans.starts[x]..][..3 * spans.taps + 1];
    let mut sum = [0.0; 4];
    for (k, weight) in weights.iter().enumerate() {
        let pixel: &[f32; 4] = pixels[3 * k..].first_chunk().expect("a padded pixel");
        for (sum, value) in sum.iter_mut().zip(pixel) {
            *sum += weight * value;
        }
    }
    sum
}

vectorized! {
    fn any(line: &[f32], channels: usize, spans: &Spans, out: &mut [f32]) {
        let weights = spans.weights.chunks_exact(spans.taps);
        let pixels = out.chunks_exact_mut(channels);
        for ((out, &start), weights) in pixels.zip(&spans.starts).zip(weights) {
            let pixels = line[start * channels..].chunks_exact(channels);
            out.fill(0.0);
            for (pixel, weight) in pixels.zip(weights) {
                for (sum, value) in out.iter_mut().zip(pixel) {
                    *sum += weight * value;
                }
            }
        }
    }
}

/// The weighted sums of four numbers and four others.
///
/// With intrinsics, as compilers vectorize a plain loop of four in some places only.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn blended(a: &[f32; 4], b: &[f32; 4], weights: &[f32; 2]) -> [f32; 4] {
    use std::arch::x86_64::{_mm_add_ps, _mm_loadu_ps, _mm_mul_ps, _mm_set1_ps, _mm_storeu_ps};
    let mut sums = [0.0; 4];
    // SAFETY: all processors of the kind have the instructions; four numbers are read and written.
    unsafe {
        let a = _mm_mul_ps(_mm_loadu_ps(a.as_ptr()), _mm_set1_ps(weights[0]));
        let b = _mm_mul_ps(_mm_loadu_ps(b.as_ptr()), _mm_set1_ps(weights[1]));
        _mm_storeu_ps(sums.as_mut_ptr(), _mm_add_ps(a, b));
    }
    sums
}

/// As for x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn blended(a: &[f32; 4], b: &[f32; 4], weights: &[f32; 2]) -> [f32; 4] {
    let mut sums = [0.0; 4];
    for i in 0..4 {
        sums[i] = a[i] * weights[0] + b[i] * weights[1];
    }
    sums
}
