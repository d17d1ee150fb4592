//! Functions for convolutions whose outputs are pooled at once.
//!
//! Besides `window`, the attribute `places` holds the rows and columns of the convolution's outputs
//! and `pool` the height and width of the windows over them.

use super::c_api::{CallFrame, Error};
use super::call::{answer, Call, Tensor};
use super::handlers::{expect, geometry};
use crate::kernels::convolution::forward::Operands;
use crate::kernels::convolution::geometry::Geometry;
use crate::kernels::convolution::instructions::Instructions;
use crate::kernels::convolution::pooled::bias_gradient::BiasGradient;
use crate::kernels::convolution::pooled::forward::PooledForward;
use crate::kernels::convolution::pooled::gradient::PooledGradient;
use crate::kernels::convolution::pooled::input_gradient::PooledInputGradient;
use crate::kernels::convolution::pooled::unpooling::Unpooling;
use crate::kernels::convolution::pooled::weight_gradient::PooledWeightGradient;
use crate::kernels::convolution::pooled::windows::{Windows, NONE};
use crate::kernels::convolution::weight_gradient::{Gradient, WeightGradient};

pub unsafe extern "C" fn convolution(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_pooled_convolution", |call| {
        let [images, weights, bias] = call.arguments()?;
        let [pooled, winners, packed] = call.results()?;
        let (geometry, windows) = shapes(call, images.sizes()?, weights.sizes()?)?;
        let pooled_sizes = [
            geometry.images,
            windows.rows,
            windows.columns,
            geometry.features,
        ];
        expect("pooled", &pooled, pooled_sizes)?;
        expect("winners", &winners, pooled_sizes)?;
        expect("bias", &bias, [geometry.features])?;
        expect("packed", &packed, [Operands::packed_len(&geometry)])?;
        let job = PooledForward {
            operands: Operands {
                geometry: windows.covered(&geometry),
                images: images.floats()?,
                weights: weights.floats()?,
                transposed: false,
                packed: packed.floats()?,
            },
            windows,
            bias: bias.floats()?,
            pooled: pooled.floats()?,
            winners: winners.bytes()?,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

pub unsafe extern "C" fn bias_gradient(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_pooled_bias_gradient", |call| {
        let [values, winners] = call.arguments()?;
        let [out, sums] = call.results()?;
        let [count, rows, columns, features] = values.sizes()?;
        expect("winners", &winners, [count, rows, columns, features])?;
        expect("out", &out, [features])?;
        let [blocks, _] = sums.sizes()?;
        let blocks = blocks.clamp(1, count.max(1));
        expect("sums", &sums, [blocks, features])?;
        let job = BiasGradient {
            images: count,
            windows: rows * columns,
            features,
            values: values.floats()?,
            winners: winners.bytes()?,
            sums: sums.floats()?,
            blocks,
            out: out.floats()?,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

pub unsafe extern "C" fn weight_gradient(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_pooled_weight_gradient", |call| {
        let [images, values, winners] = call.arguments()?;
        let [out, sums] = call.results()?;
        let (geometry, windows) = shapes(call, images.sizes()?, out.sizes()?)?;
        let gradient = pooled_gradient(&geometry, windows, &values, &winners)?;
        let [blocks, _] = sums.sizes()?;
        let blocks = blocks.clamp(1, geometry.images);
        expect("sums", &sums, [blocks, WeightGradient::sums_len(&geometry)])?;
        let (images, sums, out) = (images.floats()?, sums.floats()?, out.floats()?);
        let instructions = Instructions::detect();
        if PooledWeightGradient::covers(&geometry, instructions) {
            let job = PooledWeightGradient {
                geometry,
                images,
                gradient,
                sums,
                blocks,
                out,
            };
            job.run(instructions, &call.threads());
        } else {
            let job = WeightGradient {
                geometry,
                images,
                gradient: Gradient::Pooled(gradient),
                sums,
                blocks,
                out,
            };
            job.run(instructions, &call.threads());
        }
        Ok(())
    })
}

pub unsafe extern "C" fn input_gradient(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_pooled_input_gradient", |call| {
        let [values, winners, weights] = call.arguments()?;
        let [out, packed] = call.results()?;
        let (geometry, windows) = shapes(call, out.sizes()?, weights.sizes()?)?;
        let gradient = pooled_gradient(&geometry, windows, &values, &winners)?;
        expect("packed", &packed, [geometry.kernel_len()])?;
        let instructions = Instructions::detect();
        if !PooledInputGradient::covers(&geometry, instructions) {
            return Err(format!(
                "{} channels do not fill the registers",
                geometry.channels
            ));
        }
        let job = PooledInputGradient {
            geometry,
            gradient,
            weights: weights.floats()?,
            packed: packed.floats()?,
            out: out.floats()?,
        };
        job.run(instructions, &call.threads());
        Ok(())
    })
}

pub unsafe extern "C" fn unpooling(frame: *mut CallFrame) -> *mut Error {
    answer(frame, "drumline_unpooling", |call| {
        let [values, winners] = call.arguments()?;
        let [out] = call.results()?;
        let [count, rows, columns, features] = out.sizes()?;
        let [height, width] = call.integers("pool")?;
        let windows = windows([rows, columns], [height, width])?;
        let sizes = [count, windows.rows, windows.columns, features];
        expect("gradient", &values, sizes)?;
        expect("winners", &winners, sizes)?;
        let job = Unpooling {
            images: count,
            rows,
            columns,
            features,
            gradient: PooledGradient {
                windows,
                values: values.floats()?,
                winners: winners.bytes()?,
            },
            out: out.floats()?,
        };
        job.run(Instructions::detect(), &call.threads());
        Ok(())
    })
}

/// The convolution, and the windows over its outputs.
fn shapes(
    call: &Call,
    images: [usize; 4],
    kernel: [usize; 4],
) -> Result<(Geometry, Windows), String> {
    let places: [i64; 2] = call.integers("places")?;
    let [rows, columns] = places.map(|n| n.max(0) as usize);
    let geometry = geometry(call, images, kernel, [images[0], rows, columns, kernel[3]])?;
    let windows = windows([rows, columns], call.integers("pool")?)?;
    Ok((geometry, windows))
}

fn windows([rows, columns]: [usize; 2], [height, width]: [i64; 2]) -> Result<Windows, String> {
    let sized = height > 0 && width > 0 && height.saturating_mul(width) < i64::from(NONE);
    let windows = Windows::new(rows, columns, height.max(1) as usize, width.max(1) as usize);
    if sized && windows.count() > 0 {
        return Ok(windows);
    }
    Err(format!(
        "windows of {height} by {width} over {rows} by {columns} outputs"
    ))
}

fn pooled_gradient(
    g: &Geometry,
    windows: Windows,
    values: &Tensor,
    winners: &Tensor,
) -> Result<PooledGradient, String> {
    let sizes = [g.images, windows.rows, windows.columns, g.features];
    expect("gradient", values, sizes)?;
    expect("winners", winners, sizes)?;
    Ok(PooledGradient {
        windows,
        values: values.floats()?,
        winners: winners.bytes()?,
    })
}
