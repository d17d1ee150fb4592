//! The functions themselves, by the names under which XLA knows them.

use super::c_api::{CallFrame, Error, Handler};
use super::call::{answer, Call, Tensor};
use crate::convolution::forward::Forward;
use crate::convolution::geometry::Geometry;
use crate::convolution::instructions::Instructions;
use crate::convolution::weight_gradient::WeightGradient;

/// Names and functions.
pub const HANDLERS: [(&str, Handler); 2] = [
    ("drumline_convolution", convolution),
    ("drumline_weight_gradient", weight_gradient),
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
        let geometry = geometry(call, &images, kernel, &out)?;
        expect("packed", &packed, [Forward::packed_len(&geometry)])?;
        let job = Forward {
            geometry,
            images: images.data,
            weights: weights.data,
            transposed: transposed == 1,
            packed: packed.data,
            out: out.data,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

unsafe extern "C" fn weight_gradient(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_weight_gradient", |call| {
        let [images, gradient] = call.arguments()?;
        let [out, sums] = call.results()?;
        let geometry = geometry(call, &images, out.sizes()?, &gradient)?;
        let [blocks, _] = sums.sizes()?;
        let blocks = blocks.clamp(1, geometry.images);
        expect("sums", &sums, [blocks, WeightGradient::sums_len(&geometry)])?;
        let job = WeightGradient {
            geometry,
            images: images.data,
            gradient: gradient.data,
            sums: sums.data,
            blocks,
            out: out.data,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

/// What the shapes of images, kernel and output, and the attribute `window`, describe.
fn geometry(
    call: &Call,
    images: &Tensor,
    [kernel_height, kernel_width, channels, features]: [usize; 4],
    out: &Tensor,
) -> Result<Geometry, String> {
    let [count, height, width, image_channels] = images.sizes()?;
    let [out_count, rows, columns, out_features] = out.sizes()?;
    let [down, right, top, left] = call.integers("window")?;
    if count != out_count || channels != image_channels || features != out_features {
        return Err(format!(
            "images {:?}, kernel {:?} and output {:?} do not belong together",
            images.dims,
            [kernel_height, kernel_width, channels, features],
            out.dims
        ));
    }
    let positive = [images.dims, out.dims].concat().iter().all(|&n| n > 0);
    if !positive
        || down < 1
        || right < 1
        || top < 0
        || left < 0
        || kernel_height * kernel_width == 0
    {
        return Err(format!(
            "strides {down}, {right} and padding {top}, {left} for images {:?} and output {:?}",
            images.dims, out.dims
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

fn expect<const N: usize>(name: &str, found: &Tensor, needed: [usize; N]) -> Result<(), String> {
    if found.sizes::<N>()? == needed {
        return Ok(());
    }
    Err(format!("{name} is {:?}, not {needed:?}", found.dims))
}
