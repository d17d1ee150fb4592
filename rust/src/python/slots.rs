//! `RowSlots` and `scatter_rows`: argument checks, and the GIL released.

use super::rows::integers;
use super::{addresses, borrow_error, check_apart, contiguous};
use crate::scatter::scatter;
use crate::slots::Slots;
use numpy::ndarray::Ix2;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which places of a table rows are in that come in order and leave in any.
#[pyclass(frozen, module = "drumline._core")]
pub struct RowSlots(Mutex<Slots>);

#[pymethods]
impl RowSlots {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// How many places were ever used.
    #[getter]
    fn size(&self) -> usize {
        self.locked().size()
    }

    /// The places of `count` rows from `number` on.
    fn put<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        count: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let places = self.locked().put(number, count).ok_or_else(|| {
            let message = format!("no place for {count} rows from number {number} on");
            PyValueError::new_err(message)
        })?;
        Ok(places.into_pyarray(py))
    }

    /// The places of rows, which leave them.
    fn take<'py>(&self, numbers: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let wanted = integers(numbers, "numbers")?;
        let places = self.locked().take(wanted.iter().copied());
        match places {
            Ok(places) => Ok(places.into_pyarray(numbers.py())),
            Err(position) => Err(PyKeyError::new_err(wanted[position])),
        }
    }
}

impl RowSlots {
    fn locked(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copy rows of bytes to the rows of `out` at `places`.
#[pyfunction]
pub fn scatter_rows(
    src: &Bound<'_, PyAny>,
    places: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let src = contiguous::<u8, Ix2>(src, "src", "2-dimensional uint8")?;
    let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
    let places = integers(places, "places")?;
    let width = out.shape()[1];
    if src.shape() != [places.len(), width] {
        return Err(PyValueError::new_err(format!(
            "src has shape {:?}; {} places of {width} bytes need as many rows of that",
            src.shape(),
            places.len(),
        )));
    }
    let read = src
        .try_readonly()
        .map_err(|error| borrow_error("src", error))?;
    let mut written = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    check_apart("src", addresses(&read), addresses(&written))?;
    let (from, to) = (read.as_slice()?, written.as_slice_mut()?);
    let done = src.py().detach(|| scatter(from, &places, to, width));
    done.map_err(|bad| {
        PyIndexError::new_err(format!(
            "places[{}] is {}, but out has {} rows",
            bad.position,
            bad.value,
            out.shape()[0]
        ))
    })
}
