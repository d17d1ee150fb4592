//! What Python needs to hand functions to XLA.

use crate::convolution::instructions::Instructions;
use crate::xla::HANDLERS;
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
