//! Which pixels of a line make each pixel of the resized line, and with what weights.

use super::Method;

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
        let lines = (0..output).map(|at| match (method, antialias) {
            (Method::Area, _) => area(at, input, scale),
            (Method::Bilinear, false) => bilinear(at, input, scale),
            (Method::Bicubic, false) => bicubic(at, input, scale),
            _ => windowed(at, input, output, method, antialias),
        });
        let lines: Vec<_> = lines.collect();
        let taps = lines
            .iter()
            .map(|line| line.1.len())
            .max()
            .unwrap_or(1)
            .clamp(1, input);
        let mut spans = Self {
            starts: Vec::with_capacity(output),
            taps,
            weights: vec![0.0; output * taps],
        };
        for ((start, line), weights) in lines.iter().zip(spans.weights.chunks_exact_mut(taps)) {
            let first = (*start).min(input - taps); // All taps lie in the line.
            weights[start - first..][..line.len()].copy_from_slice(line);
            spans.starts.push(first);
        }
        spans
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

type Line = (usize, Vec<f32>);

fn bilinear(at: usize, input: usize, scale: f32) -> Line {
    let place = (at as f32 + 0.5) * scale - 0.5;
    let below = place.floor();
    let share = place - below;
    if below < 0.0 || input == 1 {
        return (0, vec![1.0]);
    }
    let below = below as usize;
    if below + 1 >= input {
        return (input - 1, vec![1.0]);
    }
    (below, vec![1.0 - share, share])
}

/// TensorFlow looks weights up at 1,024 places between two pixels.
const PLACES: f32 = 1024.0;

fn bicubic(at: usize, input: usize, scale: f32) -> Line {
    let place = (at as f32 + 0.5) * scale - 0.5;
    let below = place.floor();
    let share = ((place - below) * PLACES).round_ties_even() / PLACES;
    let weights = [1.0 + share, share, 1.0 - share, 2.0 - share].map(|x| Method::Bicubic.weight(x));
    let first = below as isize - 1;
    let inside = |k: isize| (0..input as isize).contains(&(first + k));
    let skipped = (-first).clamp(0, 4) as usize;
    let kept = (0..4).filter(|&k| inside(k)).map(|k| weights[k as usize]);
    (
        (first + skipped as isize) as usize,
        normalized(kept.collect()),
    )
}

fn area(at: usize, input: usize, scale: f32) -> Line {
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
    (first, (first..end.max(first + 1)).map(overlap).collect())
}

/// As TensorFlow's `ScaleAndTranslate`.
fn windowed(at: usize, input: usize, output: usize, method: Method, antialias: bool) -> Line {
    let inverse = 1.0 / (output as f32 / input as f32);
    let widened = if antialias { inverse.max(1.0) } else { 1.0 };
    let place = (at as f32 + 0.5) * inverse;
    let reach = method.radius() * widened;
    let first = ((place - reach - 0.5).ceil().max(0.0) as usize).min(input - 1);
    let last = ((place + reach - 0.5).floor().max(0.0) as usize).min(input - 1);
    let weight = |i: usize| method.weight((i as f32 + 0.5 - place) * (1.0 / widened));
    (first, normalized((first..=last).map(weight).collect()))
}

fn normalized(mut weights: Vec<f32>) -> Vec<f32> {
    let total: f32 = weights.iter().sum();
    if total.abs() >= 1000.0 * f32::MIN_POSITIVE {
        for weight in &mut weights {
            *weight /= total;
        }
    }
    weights
}
