//! The checksum of an array's bytes, for Python.

use crate::formats::checksum;
use crate::python::{borrow_error, contiguous};
use numpy::ndarray::Ix1;
use numpy::{PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// The CRC32C of bytes, after those of which `before` is the CRC32C.
#[pyfunction]
#[pyo3(signature = (content, before = 0))]
pub fn crc32c(py: Python<'_>, content: &Bound<'_, PyAny>, before: u32) -> PyResult<u32> {
    let content = contiguous::<u8, Ix1>(content, "content", "1-dimensional uint8")?;
    let content = content
        .try_readonly()
        .map_err(|error| borrow_error("content", error))?;
    let (start, length) = (content.data() as usize, content.len());
    // SAFETY: the borrow keeps the array and its memory, which no numpy array gives up while others
    // refer to it; what other threads write there meanwhile is allowed for.
    Ok(py.detach(|| unsafe { checksum::crc32c(start as *const u8, length, before) }))
}
