//! Becoming one of the processes that sum through shared memory.

use crate::kernels::all_reduce::counters;
use crate::kernels::all_reduce::layout::{self, Layout};
use crate::kernels::all_reduce::segment::Peer;
use crate::kernels::all_reduce::segment::Segment;
use crate::kernels::xla::all_reduce::SEGMENT;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(summing_limits, module)?)?;
    module.add_function(wrap_pyfunction!(summing_memory_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(count_sums, module)?)?;
    module.add_function(wrap_pyfunction!(sum_counters, module)?)?;
    module.add_function(wrap_pyfunction!(share_summing_memory, module)?)
}

/// Count what sums take from now on, or count no more.
#[pyfunction]
fn count_sums(on: bool) {
    counters::count(on);
}

/// Sums, bytes, and seconds in which at least one sum was under way, and one waited for others.
#[pyfunction]
fn sum_counters() -> (u64, u64, f64, f64) {
    let found = counters::counters();
    (
        found.sums,
        found.bytes,
        found.summing.as_secs_f64(),
        found.waiting.as_secs_f64(),
    )
}

/// The most ranks; the numbers of channels for large and for small sums; the most bytes of a small
/// one.
#[pyfunction]
fn summing_limits() -> (usize, usize, usize, usize) {
    (
        layout::MOST_RANKS,
        layout::LARGE_CHANNELS,
        layout::SMALL_CHANNELS,
        layout::SMALL_PIECE,
    )
}

/// How much memory so many ranks share.
#[pyfunction]
fn summing_memory_bytes(ranks: usize) -> usize {
    Layout { ranks }.bytes()
}

/// Sum in the memory of a file descriptor from now on.
#[pyfunction]
fn share_summing_memory(
    descriptor: i32,
    peers: Vec<(String, u32, u64)>,
    limit_seconds: f64,
) -> PyResult<()> {
    if !(1..=layout::MOST_RANKS).contains(&peers.len()) {
        let message = format!("{} ranks, not 1 to {}", peers.len(), layout::MOST_RANKS);
        return Err(PyValueError::new_err(message));
    }
    let limit = Duration::try_from_secs_f64(limit_seconds)
        .map_err(|error| PyValueError::new_err(format!("limit_seconds: {error}")))?;
    let peer = |(task, pid, started)| Peer { task, pid, started };
    let segment = Segment::map(descriptor, peers.into_iter().map(peer).collect(), limit)?;
    SEGMENT
        .set(Arc::new(segment))
        .map_err(|_| PyRuntimeError::new_err("this process sums in shared memory already"))
}
