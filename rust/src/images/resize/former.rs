//! Pixels as TensorFlow 1 found them: points at whole numbers, and not squares with centers.

/// How `tf.compat.v1.image.resize` interpolates without `align_corners`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    Nearest,
    Bilinear,
    Bicubic,
    Area,
}

impl Former {
    /// In the order of tf_cnn_benchmarks, which takes them by turns.
    pub fn numbered(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Nearest,
            1 => Self::Bilinear,
            2 => Self::Bicubic,
            3 => Self::Area,
            _ => return None,
        })
    }
}

/// As those below: adds the weights of a pixel to others, and returns the first that it is made of.
pub fn nearest(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    weights.push(1.0);
    ((at as f32 * scale).floor() as usize).min(input - 1)
}

pub fn bilinear(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    let place = at as f32 * scale;
    let below = place.floor();
    let share = place - below;
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

/// The kernel's parameter in TensorFlow 1, which is -0.5 in TensorFlow 2.
const A: f32 = -0.75;

/// Pixels beyond the ends are those at the ends.
pub fn bicubic(at: usize, input: usize, scale: f32, weights: &mut Vec<f32>) -> usize {
    let place = at as f32 * scale;
    let below = place.floor();
    let share = ((place - below) * PLACES).round_ties_even() / PLACES;
    let last = input as isize - 1;
    let first = below as isize - 1;
    let (low, high) = (first.clamp(0, last), (first + 3).clamp(0, last));
    let from = weights.len();
    weights.resize(from + (high - low) as usize + 1, 0.0);
    let four = [far(share), near(share), near(1.0 - share), far(1.0 - share)];
    for (k, weight) in (0..).zip(four) {
        let at = (first + k).clamp(0, last) - low;
        weights[from + at as usize] += weight;
    }
    low as usize
}

/// The weight of a pixel at a distance of up to one.
fn near(x: f32) -> f32 {
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// Of one that is further by one.
fn far(x: f32) -> f32 {
    let x = x + 1.0;
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}

#[cfg(test)]
mod tests {
    use super::super::Spans;
    use super::*;

    const METHODS: [Former; 4] = [
        Former::Nearest,
        Former::Bilinear,
        Former::Bicubic,
        Former::Area,
    ];

    #[test]
    fn a_part_is_that_of_the_whole_line() {
        for method in METHODS {
            for (input, output) in [(1, 5), (2, 3), (7, 19), (100, 30), (31, 31)] {
                let whole = line(&Spans::former(input, output, 0..output, method), input);
                let part = line(&Spans::former(input, output, 1..output - 1, method), input);
                assert_eq!(whole[1..output - 1], part);
            }
        }
    }

    #[test]
    fn of_a_mirrored_line_are_the_pixels_of_the_line_read_backwards() {
        for method in METHODS {
            for (input, output) in [(1, 5), (7, 19), (100, 30)] {
                let plain = Spans::former(input, output, 0..output, method);
                let mut expected = line(&plain, input);
                for weights in &mut expected {
                    weights.reverse();
                }
                assert_eq!(line(&plain.of_mirrored(input), input), expected);
            }
        }
    }

    #[test]
    fn weights_add_up_to_one() {
        for method in METHODS {
            for (input, output) in [(1, 1), (3, 64), (64, 3), (500, 224)] {
                for weights in line(&Spans::former(input, output, 0..output, method), input) {
                    assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-4);
                }
            }
        }
    }

    /// For each pixel the weights of all pixels of the line.
    fn line(spans: &Spans, input: usize) -> Vec<Vec<f32>> {
        let weights = spans.weights.chunks_exact(spans.taps);
        let of = |(&start, weights): (&usize, &[f32])| {
            let mut all = vec![0.0; input];
            all[start..start + spans.taps].copy_from_slice(weights);
            all
        };
        spans.starts.iter().zip(weights).map(of).collect()
    }
}
