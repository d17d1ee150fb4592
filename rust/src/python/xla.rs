//! What Python needs to hand functions to XLA.

use crate::kernels::convolution::instructions::Instructions;
use crate::kernels::large_buffers;
use crate::kernels::xla::HANDLERS;
use numpy::ndarray::Ix1;
use numpy::{PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Addresses of the functions that XLA's CPU backend can call, by name.
#[pyfunction]
pub fn xla_handlers() -> Vec<(&'static str, usize)> {
    let address = |&(name, function): &(_, _)| (name, function as usize);
    HANDLERS.iter().map(address).collect()
}

/// Name the instructions that the convolutions use on this processor.
#[pyfunction]
pub fn vector_instructions() -> &'static str {
    Instructions::detect().name()
}

/// Have the next results of this thread's that are of these sizes lie in these arrays.
#[pyfunction]
pub fn want_results_at(places: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
    let mut wanted = Vec::with_capacity(places.len());
    for place in &places {
        let place =
            crate::python::contiguous::<u8, Ix1>(place, "places", "list of 1-dimensional uint8")?;
        // No other code may write it now; that none does later is for the caller to see to.
        place
            .try_readwrite()
            .map_err(|error| crate::python::borrow_error("a place", error))?;
        wanted.push((place.data() as usize, place.len()));
    }
    large_buffers::want_results_at(&wanted);
    Ok(())
}
