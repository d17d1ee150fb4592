//! The kernels against sums in double precision, for every instruction set of this processor.

use super::forward::{Forward, Operands};
use super::geometry::Geometry;
use super::instructions::Instructions;
use super::weight_gradient::{Gradient, WeightGradient};
use crate::blocks::rng::mix64;
use crate::kernels::xla::threads::Threads;

pub(super) fn available() -> Vec<Instructions> {
    let mut sets = vec![Instructions::Portable];
    #[cfg(target_arch = "x86_64")]
    if Instructions::detect() != Instructions::Portable {
        sets.push(Instructions::Avx2);
    }
    if !sets.contains(&Instructions::detect()) {
        sets.push(Instructions::detect());
    }
    sets
}

pub(super) fn numbers(len: usize, seed: u64) -> Vec<f32> {
    (0..len as u64)
        .map(|i| (mix64(i, seed) >> 40) as f32 / (1 << 23) as f32 - 1.0)
        .collect()
}

pub(super) fn geometry(
    [images, height, width, channels]: [usize; 4],
    [kernel_height, kernel_width, features]: [usize; 3],
    [stride_down, stride_right]: [usize; 2],
    [top, bottom, left, right]: [usize; 4],
) -> Geometry {
    Geometry {
        images,
        height,
        width,
        channels,
        rows: (height + top + bottom - kernel_height) / stride_down + 1,
        columns: (width + left + right - kernel_width) / stride_right + 1,
        features,
        kernel_height,
        kernel_width,
        stride_down,
        stride_right,
        top,
        left,
    }
}

fn geometries() -> Vec<Geometry> {
    vec![
        geometry([3, 13, 13, 32], [3, 3, 64], [1, 1], [0; 4]),
        geometry([2, 11, 11, 64], [3, 3, 32], [1, 1], [2; 4]),
        geometry([4, 28, 28, 1], [3, 3, 32], [1, 1], [0; 4]),
        geometry([1, 9, 7, 5], [3, 2, 37], [1, 1], [1, 1, 0, 1]),
        geometry([2, 15, 16, 3], [7, 7, 33], [2, 2], [3; 4]),
        geometry([2, 10, 9, 4], [2, 3, 7], [3, 2], [0, 1, 2, 4]),
        geometry([5, 4, 30, 17], [1, 4, 1], [1, 3], [0; 4]),
        geometry([1, 2, 3, 2], [5, 5, 8], [1, 1], [4; 4]),
        geometry([1, 1, 1, 1], [1, 1, 1], [1, 1], [0; 4]),
        geometry([1, 4, 5, 700], [3, 3, 9], [1, 1], [1; 4]),
        geometry([1, 3, 200, 2], [3, 3, 16], [1, 1], [6, 6, 1, 1]),
    ]
}

/// Calls `visit` with the positions in images, kernel and output of every product.
pub(super) fn each_product(g: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
    for place in 0..g.images * g.rows * g.columns * g.kernel_height * g.kernel_width {
        let (place, j) = (place / g.kernel_width, place % g.kernel_width);
        let (pixel, i) = (place / g.kernel_height, place % g.kernel_height);
        let (row, q) = (pixel / g.columns, pixel % g.columns);
        let (n, h) = (row / g.rows, row % g.rows);
        let y = (h * g.stride_down + i).wrapping_sub(g.top);
        let x = (q * g.stride_right + j).wrapping_sub(g.left);
        if y >= g.height || x >= g.width {
            continue;
        }
        for c in 0..g.channels {
            for f in 0..g.features {
                visit(
                    ((n * g.height + y) * g.width + x) * g.channels + c,
                    ((i * g.kernel_width + j) * g.channels + c) * g.features + f,
                    pixel * g.features + f,
                );
            }
        }
    }
}

pub(super) fn assert_close(found: &[f32], expected: &[f64], context: &str) {
    let scale = expected.iter().fold(1e-30, |m: f64, v| m.max(v.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(*a) - b).abs() <= 1e-5 * scale,
            "{context}: [{i}] is {a}, not {b}"
        );
    }
}

#[test]
fn outputs_are_the_sums() {
    for g in geometries() {
        let images = numbers(g.images * g.image_len(), 1);
        let weights = numbers(g.kernel_len(), 2);
        let mut expected = vec![0.0; g.images * g.output_len()];
        each_product(&g, |x, w, y| {
            expected[y] += f64::from(images[x]) * f64::from(weights[w]);
        });
        for instructions in available() {
            for transposed in [false, true] {
                let given = if transposed {
                    swap_channels(&g, &weights)
                } else {
                    weights.clone()
                };
                let mut packed = vec![f32::NAN; Operands::packed_len(&g)];
                let mut out = vec![f32::NAN; expected.len()];
                let operands = Operands {
                    geometry: g,
                    images: images.as_ptr(),
                    weights: given.as_ptr(),
                    transposed,
                    packed: packed.as_mut_ptr(),
                };
                let out_data = out.as_mut_ptr();
                let job = Forward {
                    operands,
                    out: out_data,
                };
                unsafe { job.run(instructions, &Threads::none()) };
                assert_close(&out, &expected, &format!("{instructions:?} {g:?}"));
            }
        }
    }
}

fn swap_channels(g: &Geometry, weights: &[f32]) -> Vec<f32> {
    let mut swapped = vec![0.0; weights.len()];
    for (i, value) in weights.iter().enumerate() {
        let (rest, f) = (i / g.features, i % g.features);
        let (place, c) = (rest / g.channels, rest % g.channels);
        swapped[(place * g.features + f) * g.channels + c] = *value;
    }
    swapped
}

#[test]
fn weight_gradients_are_the_sums_in_any_number_of_blocks() {
    for g in geometries() {
        let images = numbers(g.images * g.image_len(), 3);
        let gradient = numbers(g.images * g.output_len(), 4);
        let mut expected = vec![0.0; g.kernel_len()];
        each_product(&g, |x, w, y| {
            expected[w] += f64::from(images[x]) * f64::from(gradient[y]);
        });
        for instructions in available() {
            for blocks in [1, 2, g.images] {
                let mut sums = vec![f32::NAN; blocks * WeightGradient::sums_len(&g)];
                let mut out = vec![f32::NAN; expected.len()];
                let job = WeightGradient {
                    geometry: g,
                    images: images.as_ptr(),
                    gradient: Gradient::Whole(gradient.as_ptr()),
                    sums: sums.as_mut_ptr(),
                    blocks,
                    out: out.as_mut_ptr(),
                };
                unsafe { job.run(instructions, &Threads::none()) };
                assert_close(&out, &expected, &format!("{instructions:?} {g:?}"));
            }
        }
    }
}
