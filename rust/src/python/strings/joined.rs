//! Arrays of `bytes`, joined.

use crate::blocks::joined::{joined, padded};
use crate::python::texts::Strings;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

/// All strings concatenated, and where each begins.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn joined_bytes<'py>(
    strings: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>)> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let (values, edges) = py.detach(|| joined(strings.views()));
    Ok((values.into_pyarray(py), edges.into_pyarray(py)))
}

/// Strings cut, or filled up with zeros, to `width` bytes each.
#[pyfunction]
pub fn padded_bytes<'py>(
    strings: &Bound<'py, PyAny>,
    width: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let views = strings.views();
    let values = py.detach(|| padded(views, width)).ok_or_else(|| {
        let count = views.len();
        PyMemoryError::new_err(format!(
            "{count} strings of {width} bytes do not fit in memory"
        ))
    })?;
    Ok(values.into_pyarray(py))
}
