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
/// `spans` are those down and along; `line` is memory for one row, of any length.
pub fn resize<T: Value>(
    source: &mut impl Source<T>,
    channels: usize,
    width: usize,
    (down, along): (&Spans, &Spans),
    line: &mut Vec<f32>,
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

vectorized! {
    fn colors(line: &[f32], spans: &Spans, out: &mut [f32]) {
        let weights = spans.weights.chunks_exact(spans.taps);
        let last = out.len() - 3;
        for (x, (&start, weights)) in spans.starts.iter().zip(weights).enumerate() {
            let pixels = &line[3 * start..][..3 * weights.len() + 1];
            let mut sum = [0.0; 4];
            for (k, weight) in weights.iter().enumerate() {
                let pixel: &[f32; 4] = pixels[3 * k..].first_chunk().expect("a padded pixel");
                for (sum, value) in sum.iter_mut().zip(pixel) {
                    *sum += weight * value;
                }
            }
            let at = 3 * x;
            if at < last {
                out[at..at + 4].copy_from_slice(&sum); // The fourth is written again.
            } else {
                out[at..].copy_from_slice(&sum[..3]);
            }
        }
    }
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
