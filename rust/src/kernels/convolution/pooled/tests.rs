//! The kernels against sums in double precision, for every instruction set of this processor.

use super::super::forward::Operands;
use super::super::geometry::Geometry;
use super::super::tests::{assert_close, available, each_product, geometry, numbers};
use super::super::weight_gradient::{Gradient, WeightGradient};
use super::bias_gradient::BiasGradient;
use super::forward::PooledForward;
use super::gradient::PooledGradient;
use super::input_gradient::PooledInputGradient;
use super::unpooling::Unpooling;
use super::weight_gradient::PooledWeightGradient;
use super::windows::{Windows, NONE};
use crate::kernels::convolution::instructions::Instructions;
use crate::kernels::xla::threads::Threads;

fn layers() -> Vec<(Geometry, Windows)> {
    let layer = |g: Geometry, height, width| (g, Windows::new(g.rows, g.columns, height, width));
    vec![
        layer(geometry([3, 13, 13, 32], [3, 3, 64], [1, 1], [0; 4]), 2, 2),
        layer(geometry([4, 28, 28, 1], [3, 3, 32], [1, 1], [0; 4]), 2, 2),
        layer(
            geometry([2, 9, 8, 16], [3, 2, 37], [1, 1], [1, 1, 0, 1]),
            3,
            2,
        ),
        layer(geometry([2, 15, 16, 48], [7, 5, 9], [2, 1], [3; 4]), 2, 3),
        layer(
            geometry([1, 10, 9, 40], [2, 3, 7], [3, 2], [0, 1, 2, 4]),
            1,
            2,
        ),
        layer(geometry([1, 7, 5, 3], [2, 2, 33], [1, 2], [1; 4]), 4, 2),
        layer(geometry([1, 40, 60, 32], [3, 3, 8], [1, 1], [1; 4]), 2, 2),
        layer(geometry([2, 9, 9, 16], [2, 2, 8], [1, 1], [0; 4]), 8, 8),
    ]
}

/// Every output before the bias, then pooled, winners.
fn expected_forward(
    (g, w): &(Geometry, Windows),
    images: &[f32],
    weights: &[f32],
    bias: &[f32],
) -> (Vec<f64>, Vec<u8>) {
    let mut outputs = vec![0.0; g.images * g.output_len()];
    each_product(g, |x, k, y| {
        outputs[y] += f64::from(images[x]) * f64::from(weights[k]);
    });
    let mut pooled = Vec::new();
    let mut winners = Vec::new();
    for place in 0..g.images * w.count() * g.features {
        let (window, f) = (place / g.features, place % g.features);
        let values: Vec<f64> = (0..w.area())
            .map(|number| outputs[output(g, w, window, number) * g.features + f])
            .map(|value| value + f64::from(bias[f]))
            .map(|value| if value <= 0.0 { 0.0 } else { value })
            .collect();
        let winner = (1..w.area()).fold(0, |best, number| {
            if values[best] >= values[number] {
                best
            } else {
                number
            }
        });
        let nan = values.iter().any(|value| value.is_nan());
        pooled.push(if nan { f64::NAN } else { values[winner] });
        winners.push(if values[winner] > 0.0 {
            winner as u8
        } else {
            NONE
        });
    }
    (pooled, winners)
}

/// The pixel of output `number` of a window.
fn output(g: &Geometry, w: &Windows, window: usize, number: usize) -> usize {
    let (image, at) = (window / w.count(), window % w.count());
    let h = at / w.columns * w.height + number / w.width;
    let q = at % w.columns * w.width + number % w.width;
    (image * g.rows + h) * g.columns + q
}

fn forward(
    (g, w): &(Geometry, Windows),
    instructions: Instructions,
    [images, weights, bias]: [&[f32]; 3],
) -> (Vec<f32>, Vec<u8>) {
    let len = g.images * w.count() * g.features;
    let mut packed = vec![f32::NAN; Operands::packed_len(g)];
    let (mut pooled, mut winners) = (vec![f32::NAN; len], vec![7; len]);
    let job = PooledForward {
        operands: Operands {
            geometry: w.covered(g),
            images: images.as_ptr(),
            weights: weights.as_ptr(),
            transposed: false,
            packed: packed.as_mut_ptr(),
        },
        windows: *w,
        bias: bias.as_ptr(),
        pooled: pooled.as_mut_ptr(),
        winners: winners.as_mut_ptr(),
    };
    unsafe { job.run(instructions, &Threads::none()) };
    (pooled, winners)
}

#[test]
fn pooled_values_and_winners_are_those_of_the_sums() {
    for layer in layers() {
        let g = layer.0;
        let images = numbers(g.images * g.image_len(), 1);
        let weights = numbers(g.kernel_len(), 2);
        let bias = numbers(g.features, 3);
        let (expected, expected_winners) = expected_forward(&layer, &images, &weights, &bias);
        for instructions in available() {
            let (pooled, winners) = forward(&layer, instructions, [&images, &weights, &bias]);
            assert_close(&pooled, &expected, &format!("{instructions:?} {layer:?}"));
            assert_eq!(winners, expected_winners, "{instructions:?} {layer:?}");
        }
    }
}

#[test]
fn what_is_not_finite_is_pooled_as_numbers_are_compared() {
    let g = geometry([2, 12, 12, 16], [3, 3, 9], [1, 1], [1; 4]);
    let layer = (g, Windows::new(g.rows, g.columns, 2, 2));
    let mut images = numbers(g.images * g.image_len(), 1);
    let weights = numbers(g.kernel_len(), 2);
    let bias = numbers(g.features, 3);
    images[3 * 16] = f32::NAN;
    images[8 * 12 * 16 + 5] = f32::INFINITY;
    let (expected, expected_winners) = expected_forward(&layer, &images, &weights, &bias);
    for instructions in available() {
        let (pooled, winners) = forward(&layer, instructions, [&images, &weights, &bias]);
        assert_eq!(winners, expected_winners, "{instructions:?}");
        for (a, b) in pooled.iter().zip(&expected) {
            let finite = a.is_finite() && (f64::from(*a) - b).abs() < 1e-3;
            assert!(finite || a.is_nan() == b.is_nan() && (*a > 0.0) == (*b > 0.0));
        }
    }
}

/// Gradients of pooled values, winners, and what they make of the gradient of the outputs.
fn gradients((g, w): &(Geometry, Windows)) -> (Vec<f32>, Vec<u8>, Vec<f32>) {
    let len = g.images * w.count() * g.features;
    let values = numbers(len, 4);
    let winners: Vec<u8> = numbers(len, 5)
        .iter()
        .map(|v| match (v.abs() * 1000.0) as usize % (w.area() + 1) {
            number if number == w.area() => NONE,
            number => number as u8,
        })
        .collect();
    let mut whole = vec![0.0; g.images * g.output_len()];
    for (place, &winner) in winners.iter().enumerate() {
        if winner != NONE {
            let (window, f) = (place / g.features, place % g.features);
            let y = output(g, w, window, usize::from(winner));
            whole[y * g.features + f] = values[place];
        }
    }
    (values, winners, whole)
}

struct Case {
    layer: (Geometry, Windows),
    images: Vec<f32>,
    weights: Vec<f32>,
    values: Vec<f32>,
    winners: Vec<u8>,
    whole: Vec<f32>,
}

impl Case {
    fn new(layer: (Geometry, Windows)) -> Self {
        let g = layer.0;
        let (values, winners, whole) = gradients(&layer);
        Self {
            layer,
            images: numbers(g.images * g.image_len(), 6),
            weights: numbers(g.kernel_len(), 7),
            values,
            winners,
            whole,
        }
    }

    fn gradient(&self) -> PooledGradient {
        PooledGradient {
            windows: self.layer.1,
            values: self.values.as_ptr(),
            winners: self.winners.as_ptr(),
        }
    }

    fn weight_gradient(&self, instructions: Instructions, blocks: usize) -> Vec<f32> {
        let g = self.layer.0;
        let mut out = vec![f32::NAN; g.kernel_len()];
        let mut sums = vec![f32::NAN; blocks * WeightGradient::sums_len(&g)];
        let (images, sums) = (self.images.as_ptr(), sums.as_mut_ptr());
        if PooledWeightGradient::covers(&g, instructions) {
            let job = PooledWeightGradient {
                geometry: g,
                images,
                gradient: self.gradient(),
                sums,
                blocks,
                out: out.as_mut_ptr(),
            };
            unsafe { job.run(instructions, &Threads::none()) };
        } else {
            let job = WeightGradient {
                geometry: g,
                images,
                gradient: Gradient::Pooled(self.gradient()),
                sums,
                blocks,
                out: out.as_mut_ptr(),
            };
            unsafe { job.run(instructions, &Threads::none()) };
        }
        out
    }

    fn input_gradient(&self, instructions: Instructions) -> Vec<f32> {
        let g = self.layer.0;
        let mut packed = vec![f32::NAN; g.kernel_len()];
        let mut out = vec![f32::NAN; g.images * g.image_len()];
        let job = PooledInputGradient {
            geometry: g,
            gradient: self.gradient(),
            weights: self.weights.as_ptr(),
            packed: packed.as_mut_ptr(),
            out: out.as_mut_ptr(),
        };
        unsafe { job.run(instructions, &Threads::none()) };
        out
    }
}

#[test]
fn gradients_of_kernel_and_images_are_the_sums() {
    for layer in layers() {
        let case = Case::new(layer);
        let g = layer.0;
        let mut of_kernel = vec![0.0; g.kernel_len()];
        let mut of_images = vec![0.0; case.images.len()];
        each_product(&g, |x, k, y| {
            of_kernel[k] += f64::from(case.images[x]) * f64::from(case.whole[y]);
            of_images[x] += f64::from(case.weights[k]) * f64::from(case.whole[y]);
        });
        for instructions in available() {
            let context = format!("{instructions:?} {layer:?}");
            for blocks in [1, g.images] {
                assert_close(
                    &case.weight_gradient(instructions, blocks),
                    &of_kernel,
                    &context,
                );
            }
            if PooledInputGradient::covers(&g, instructions) {
                assert_close(&case.input_gradient(instructions), &of_images, &context);
            }
        }
    }
}

#[test]
fn gradients_of_outputs_and_bias_are_those_of_the_winners() {
    for layer in layers() {
        let case = Case::new(layer);
        let (g, w) = layer;
        let mut of_bias = vec![0.0; g.features];
        for (y, value) in case.whole.iter().enumerate() {
            of_bias[y % g.features] += f64::from(*value);
        }
        for instructions in available() {
            let mut whole = vec![f32::NAN; case.whole.len()];
            let job = Unpooling {
                images: g.images,
                rows: g.rows,
                columns: g.columns,
                features: g.features,
                gradient: case.gradient(),
                out: whole.as_mut_ptr(),
            };
            unsafe { job.run(instructions, &Threads::none()) };
            assert_eq!(whole, case.whole, "{instructions:?} {layer:?}");
            let mut out = vec![f32::NAN; g.features];
            let mut sums = vec![f32::NAN; g.images * g.features];
            let job = BiasGradient {
                images: g.images,
                windows: w.count(),
                features: g.features,
                values: case.values.as_ptr(),
                winners: case.winners.as_ptr(),
                sums: sums.as_mut_ptr(),
                blocks: g.images,
                out: out.as_mut_ptr(),
            };
            unsafe { job.run(instructions, &Threads::none()) };
            assert_close(&out, &of_bias, &format!("{instructions:?} {layer:?}"));
        }
    }
}

#[test]
fn what_is_not_finite_makes_nan_wherever_it_is_covered() {
    let g = geometry([2, 7, 6, 16], [3, 3, 8], [1, 1], [0, 0, 1, 1]);
    let mut case = Case::new((g, Windows::new(g.rows, g.columns, 2, 2)));
    let (x, k) = (2 * 6 * 16 + 3, 4 * 16 * 8 + 5);
    case.images[x] = f32::INFINITY;
    case.weights[k] = f32::NAN;
    let mut of_kernel = vec![0.0; g.kernel_len()];
    let mut of_images = vec![0.0; case.images.len()];
    each_product(&g, |x, k, y| {
        of_kernel[k] += case.images[x] * case.whole[y];
        of_images[x] += case.weights[k] * case.whole[y];
    });
    let finite = |values: &[f32]| values.iter().map(|v| v.is_finite()).collect::<Vec<_>>();
    for instructions in available() {
        assert_eq!(
            finite(&case.weight_gradient(instructions, 2)),
            finite(&of_kernel)
        );
        assert_eq!(
            finite(&case.input_gradient(instructions)),
            finite(&of_images)
        );
    }
}
