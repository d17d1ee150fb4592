//! The functions themselves, by the names under which XLA knows them.

use super::all_reduce;
use super::c_api::{CallFrame, Error, Handler};
use super::call::{answer, Call, Tensor};
use super::pooled_handlers as pooled;
use crate::kernels::convolution::forward::{Forward, Operands};
use crate::kernels::convolution::geometry::Geometry;
use crate::kernels::convolution::instructions::Instructions;
use crate::kernels::convolution::weight_gradient::{Gradient, WeightGradient};

/// Names and functions.
pub const HANDLERS: [(&str, Handler); 8] = [
    (all_reduce::NAME, all_reduce::all_reduce),
    ("drumline_convolution", convolution),
    ("drumline_weight_gradient", weight_gradient),
    ("drumline_pooled_convolution", pooled::convolution),
    ("drumline_pooled_bias_gradient", pooled::bias_gradient),
    ("drumline_pooled_weight_gradient", pooled::weight_gradient),
    ("drumline_pooled_input_gradient", pooled::input_gradient),
    ("drumline_unpooling", pooled::unpooling),
];

unsafe extern "C" fn convolution(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_convolution", |call| {
        let [images, weights] = call.arguments()?;
        let [out, packed] = call.results()?;
        let [transposed] = call.integers("transposed")?;
        let mut kernel = weights.sizes::<4>()?;
        if transposed == 1 {
            kernel.swap(2, 3);
        }
        let geometry = geometry(call, images.sizes()?, kernel, out.sizes()?)?;
        expect("packed", &packed, [Operands::packed_len(&geometry)])?;
        let job = Forward {
            operands: Operands {
                geometry,
                images: images.floats()?,
                weights: weights.floats()?,
                transposed: transposed == 1,
                packed: packed.floats()?,
            },
            out: out.floats()?,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

unsafe extern "C" fn weight_gradient(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_weight_gradient", |call| {
        let [images, gradient] = call.arguments()?;
        let [out, sums] = call.results()?;
        let geometry = geometry(call, images.sizes()?, out.sizes()?, gradient.sizes()?)?;
        let [blocks, _] = sums.sizes()?;
        let blocks = blocks.clamp(1, geometry.images);
        expect("sums", &sums, [blocks, WeightGradient::sums_len(&geometry)])?;
        let job = WeightGradient {
            geometry,
            images: images.floats()?,
            gradient: Gradient::Whole(gradient.floats()?),
            sums: sums.floats()?,
            blocks,
            out: out.floats()?,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

/// What the sizes of images, kernel and output, and the attribute `window`, describe.
pub(super) fn geometry(
    call: &Call,
    images: [usize; 4],
    [kernel_height, kernel_width, channels, features]: [usize; 4],
    out: [usize; 4],
) -> Result<Geometry, String> {
    let [count, height, width, image_channels] = images;
    let [out_count, rows, columns, out_features] = out;
    let [down, right, top, left] = call.integers("window")?;
    if count != out_count || channels != image_channels || features != out_features {
        return Err(format!(
            "images {images:?}, kernel {:?} and output {out:?} do not belong together",
            [kernel_height, kernel_width, channels, features],
        ));
    }
    let positive = [images, out].concat().iter().all(|&n| n > 0);
    if !positive
        || down < 1
        || right < 1
        || top < 0
        || left < 0
        || kernel_height * kernel_width == 0
    {
        return Err(format!(
            "strides {down}, {right} and padding {top}, {left} for images {images:?} and output \
             {out:?}"
        ));
    }
    Ok(Geometry {
        images: count,
        height,
        width,
        channels,
        rows,
        columns,
        features,
        kernel_height,
        kernel_width,
        stride_down: down as usize,
        stride_right: right as usize,
        top: top as usize,
        left: left as usize,
    })
}

pub(super) fn expect<const N: usize>(
    name: &str,
    found: &Tensor,
    needed: [usize; N],
) -> Result<(), String> {
    if found.sizes::<N>()? == needed {
        return Ok(());
    }
    Err(format!("{name} is {:?}, not {needed:?}", found.dims))
}
