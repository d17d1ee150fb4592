//! Which pixels of a line make each pixel of the resized line, and with what weights.

use super::former::{self, Former};
use super::Method;
use std::ops::Range;

/// For each pixel of a line: the first of those that it is made of, and the weights of as many
/// from there on as `taps` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Spans {
    pub starts: Vec<usize>,
    pub taps: usize,
    /// (pixels, taps); zeros where a pixel needs fewer.
    pub weights: Vec<f32>,
}

impl Spans {
    /// From `input` pixels to `output`; there is at least one of either.
    pub fn new(input: usize, output: usize, method: Method, antialias: bool) -> Self {
        let scale = input as f32 / output as f32;
        Self::gathered(input, 0..output, |at, all| match (method, antialias) {
            (Method::Area, _) => area(at, input, scale, all),
            (Method::Bilinear, false) => bilinear(at, input, scale, all),
            (Method::Bicubic, false) => bicubic(at, input, scale, all),
            _ => windowed(at, input, output, method, antialias, all),
        })
    }

    /// Those of the pixels `part` of a line of `output` pixels, as TensorFlow 1 finds them.
    pub fn former(input: usize, output: usize, part: Range<usize>, method: Former) -> Self {
        let scale = input as f32 / output as f32;
        Self::gathered(input, part, |at, all| match method {
            Former::Nearest => former::nearest(at, input, scale, all),
            Former::Bilinear => former::bilinear(at, input, scale, all),
            Former::Bicubic => former::bicubic(at, input, scale, all),
            Former::Area => area(at, input, scale, all),
        })
    }

    /// `line` adds a pixel's weights and returns the first of the pixels that they are of.
    fn gathered(
        input: usize,
        pixels: Range<usize>,
        line: impl Fn(usize, &mut Vec<f32>) -> usize,
    ) -> Self {
        let output = pixels.len();
        let (mut lines, mut all) = (Vec::with_capacity(output), Vec::with_capacity(2 * output));
        for at in pixels {
            let from = all.len();
            let start = line(at, &mut all);
            lines.push((start, from..all.len()));
        }
        let most = lines.iter().map(|(_, line)| line.len()).max();
        let taps = most.unwrap_or(1).clamp(1, input);
        let mut spans = Self {
            starts: Vec::with_capacity(output),
            taps,
            weights: vec![0.0; output * taps],
        };
        for ((start, line), weights) in lines.into_iter().zip(spans.weights.chunks_exact_mut(taps))
        {
            let first = start.min(input - taps); // All taps lie in the line.
            weights[start - first..][..line.len()].copy_from_slice(&all[line]);
            spans.starts.push(first);
        }
        spans
    }

    /// The same pixels, of a line of `input` pixels that is read from its other end.
    pub fn of_mirrored(mut self, input: usize) -> Self {
        for start in &mut self.starts {
            *start = input - self.taps - *start;
        }
        for weights in self.weights.chunks_exact_mut(self.taps) {
            weights.reverse();
        }
        self
    }

    /// The same line from its other end.
    pub fn mirrored(mut self) -> Self {
        self.starts.reverse();
        self.weights = self
            .weights
            .chunks_exact(self.taps)
            .rev()
            .flatten()
            .copied()
            .collect();
        self
    }
}

/// As those below: adds the weights of a pixel to others, and returns the first that it is made of.
fn bilinear(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    let place = (at as f32 + 0.5) * scale - 0.5;
    let below = place.floor();
    let share = place - below;
    if below < 0.0 || input == 1 {
        weights.push(1.0);
        return 0;
    }
    let below = below as usize;
    if below + 1 >= input {
        weights.push(1.0);
        return input - 1;
    }
    weights.extend([1.0 - share, share]);
    below
}

/// TensorFlow looks weights up at 1,024 places between two pixels.
const PLACES: f32 = 1024.0;

fn bicubic(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    let place = (at as f32 + 0.5) * scale - 0.5;
    let below = place.floor();
    let share = ((place - below) * PLACES).round_ties_even() / PLACES;
    let four = [1.0 + share, share, 1.0 - share, 2.0 - share].map(|x| Method::Bicubic.weight(x));
    let first = below as isize - 1;
    let inside = |k: isize| (0..input as isize).contains(&(first + k));
    let skipped = (-first).clamp(0, 4) as usize;
    let kept = (0..4).filter(|&k| inside(k)).map(|k| four[k as usize]);
    add_normalized(kept, weights);
    (first + skipped as isize) as usize
}

fn area(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    let (from, to) = (at as f32 * scale, (at + 1) as f32 * scale);
    let (first, end) = (from.floor() as usize, (to.ceil() as usize).min(input));
    let first = first.min(input - 1);
    // Written so that no two near numbers are subtracted.
    let overlap = |i: usize| match (i as f32, (i + 1) as f32) {
        (left, right) if left < from && right > to => 1.0,
        (left, right) if left < from => (right - from) / scale,
        (left, right) if right > to => (to - left) / scale,
        _ => 1.0 / scale,
    };
    weights.extend((first..end.max(first + 1)).map(overlap));
    first
}

/// As TensorFlow's `ScaleAndTranslate`.
fn windowed(
    at: usize,
    input: usize,
    output: usize,
    method: Method,
    antialias: bool,
    weights: &mut Vec<f32>,
) -> usize {
    let inverse = 1.0 / (output as f32 / input as f32);
    let widened = if antialias { inverse.max(1.0) } else { 1.0 };
    let place = (at as f32 + 0.5) * inverse;
    let reach = method.radius() * widened;
    let first = ((place - reach - 0.5).ceil().max(0.0) as usize).min(input - 1);
    let last = ((place + reach - 0.5).floor().max(0.0) as usize).min(input - 1);
    let weight = |i: usize| method.weight((i as f32 + 0.5 - place) * (1.0 / widened));
    add_normalized((first..=last).map(weight), weights);
    first
}

fn add_normalized(line: impl Iterator<Item = f32>, weights: &mut Vec<f32>) {
    let from = weights.len();
    weights.extend(line);
    let line = &mut weights[from..];
    let total: f32 = line.iter().sum();
    if total.abs() >= 1000.0 * f32::MIN_POSITIVE {
        for weight in line {
            *weight /= total;
        }
    }
}
