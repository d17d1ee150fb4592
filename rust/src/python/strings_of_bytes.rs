//! Arrays of `bytes` read by pointer, and joined.

use crate::joined::{joined, padded};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The items of an array of `bytes`, as references of our own: other threads may change the array.
pub fn held<'py>(strings: &Bound<'py, PyArray1<Py<PyAny>>>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let py = strings.py();
    let objects = strings
        .try_readonly()
        .map_err(|_| PyValueError::new_err("the strings are being written"))?;
    let item = |(i, object): (usize, &Py<PyAny>)| {
        let object = object.bind(py);
        object.cast::<PyBytes>().cloned().map_err(|_| {
            let found = object.get_type();
            PyTypeError::new_err(format!("string {i} is a {found}, not bytes"))
        })
    };
    objects.as_array().iter().enumerate().map(item).collect()
}

/// Their contents.
pub fn slices<'a>(held: &'a [Bound<'_, PyBytes>]) -> Vec<&'a [u8]> {
    held.iter().map(|string| string.as_bytes()).collect()
}

/// All strings one after the other, and where each begins.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn joined_bytes<'py>(
    strings: &Bound<'py, PyArray1<Py<PyAny>>>,
) -> PyResult<(Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>)> {
    let py = strings.py();
    let held = held(strings)?;
    let slices = slices(&held);
    let (values, edges) = py.detach(|| joined(&slices));
    Ok((values.into_pyarray(py), edges.into_pyarray(py)))
}

/// Strings cut, or filled up with zeros, to `width` bytes each.
#[pyfunction]
pub fn padded_bytes<'py>(
    strings: &Bound<'py, PyArray1<Py<PyAny>>>,
    width: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = strings.py();
    let held = held(strings)?;
    let slices = slices(&held);
    let values = py.detach(|| padded(&slices, width)).ok_or_else(|| {
        let count = slices.len();
        PyMemoryError::new_err(format!(
            "{count} strings of {width} bytes do not fit in memory"
        ))
    })?;
    Ok(values.into_pyarray(py))
}
