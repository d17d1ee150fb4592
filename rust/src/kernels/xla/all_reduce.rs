//! Sums over the devices of several processes, as XLA's programs call them.

use super::c_api::{CallFrame, Error, INTERNAL, UNAVAILABLE};
use super::call::{answer_or_promise, Call, Tensor};
use crate::kernels::all_reduce::denormals::Flushed;
use crate::kernels::all_reduce::numbers::Kind;
use crate::kernels::all_reduce::operands::{Array, Operands};
use crate::kernels::all_reduce::reduction::Reduction;
use crate::kernels::all_reduce::segment::Segment;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const NAME: &str = "drumline_all_reduce";

/// How long the other ranks are waited for on XLA's own thread, and then on one made for it. What
/// else XLA could do there is delayed that long, and another order of it than in another process
/// does no more harm than that.
const PATIENCE: Duration = Duration::from_millis(2);

/// The memory that this process shares with the others of its job.
pub static SEGMENT: OnceLock<Arc<Segment>> = OnceLock::new();

/// Sums arrays over the ranks.
///
/// The first argument holds the rank, an int32; the attribute `channel` its one number.
///
/// # Safety
/// XLA calls it.
pub unsafe extern "C" fn all_reduce(frame: *mut CallFrame) -> *mut Error {
    answer_or_promise(frame, NAME, |call| {
        let mut reduction = reduction(call).map_err(unavailable)?;
        if reduction.resume(PATIENCE).map_err(unavailable)? {
            return Ok(None);
        }
        let promise = call.promise();
        let future = promise.future;
        let finish = move || {
            // What XLA does next it may do on this thread, as on its own.
            let _flushed = Flushed::new();
            let result = catch_unwind(AssertUnwindSafe(|| finish(reduction)))
                .unwrap_or_else(|_| Err((INTERNAL, format!("{NAME}: panicked"))));
            promise.settle(result);
        };
        std::thread::Builder::new()
            .name("drumline-sum".to_string())
            .stack_size(8 << 20)
            .spawn(finish)
            .map_err(|error| unavailable(format!("no thread to wait on: {error}")))?;
        Ok(Some(future))
    })
}

fn finish(mut reduction: Reduction) -> Result<(), (i32, String)> {
    loop {
        let done = reduction.resume(Duration::from_secs(1));
        if done.map_err(|message| unavailable(format!("{NAME}: {message}")))? {
            return Ok(());
        }
    }
}

fn unavailable(message: String) -> (i32, String) {
    (UNAVAILABLE, message)
}

fn reduction(call: &Call) -> Result<Reduction, String> {
    let segment = SEGMENT
        .get()
        .ok_or("this process shares no memory with others")?;
    let [channel] = call.integers("channel")?;
    let (arguments, results) = (call.all_arguments()?, call.all_results()?);
    let (rank, inputs) = arguments.split_first().ok_or("no arguments")?;
    if inputs.len() != results.len() || inputs.is_empty() {
        return Err(format!(
            "{} arrays for {} sums",
            inputs.len(),
            results.len()
        ));
    }
    let kind = Kind::of(inputs[0].dtype).ok_or("numbers that it cannot add")?;
    let arrays = inputs
        .iter()
        .zip(&results)
        .map(|(input, output)| array(&kind, input, output))
        .collect::<Result<_, _>>()?;
    // SAFETY: XLA lets the arrays live until the call is answered.
    let operands = unsafe { Operands::new(kind, arrays) };
    Reduction::new(
        Arc::clone(segment),
        channel as usize,
        rank.number()? as usize,
        operands,
    )
}

fn array(kind: &Kind, input: &Tensor, output: &Tensor) -> Result<Array, String> {
    let alike = input.dtype == output.dtype && input.dims == output.dims;
    if !alike || Kind::of(input.dtype).is_none_or(|own| own.code() != kind.code()) {
        return Err(format!(
            "arrays of {:?} and sums of {:?} do not belong together",
            input.dims, output.dims
        ));
    }
    Ok(Array {
        input: input.data.cast(),
        output: output.data.cast(),
        bytes: input.dims.iter().map(|&n| n as usize).product::<usize>() * kind.bytes,
    })
}
