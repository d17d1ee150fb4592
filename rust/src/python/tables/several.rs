//! `read_rows` and `UpdateRule`: argument checks, and the GIL released.

use crate::python::tables::rows::{bad_row, integers, DistinctRows};
use crate::python::{addresses, borrow_error, check_apart, contiguous};
use crate::tables::rows::checked;
use crate::tables::several::{self, Reading, Update, WholeUpdate};
use crate::tables::update_rules;
use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{PyArray, PyArrayMethods, PyReadonlyArray, PyReadwriteArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Rows of a table that are read, checked once.
#[pyclass(frozen, module = "drumline._core")]
pub struct TableRows {
    positions: Vec<usize>,
    rows: usize,
}

#[pymethods]
impl TableRows {
    #[new]
    fn new(ids: &Bound<'_, PyAny>, rows: usize) -> PyResult<Self> {
        let ids = integers(ids, "ids")?;
        let positions =
            checked(ids.into_iter(), rows).map_err(|bad| bad_row(bad, 0, rows as i64))?;
        Ok(Self { positions, rows })
    }

    fn __len__(&self) -> usize {
        self.positions.len()
    }
}

type ReadArguments<'py> = (Bound<'py, PyAny>, Bound<'py, TableRows>, Bound<'py, PyAny>);

/// Copy rows of tables to other arrays.
#[pyfunction]
pub fn read_rows(py: Python<'_>, readings: Vec<ReadArguments<'_>>) -> PyResult<()> {
    let mut borrowed = Vec::with_capacity(readings.len());
    let mut jobs = Vec::with_capacity(readings.len());
    for (table, rows, out) in &readings {
        let table = contiguous::<u8, Ix2>(table, "table", "2-dimensional uint8")?;
        let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
        let rows = rows.get();
        let width = table.shape()[1];
        check_rows(table.shape()[0], rows.rows)?;
        check_shape("out", out.shape(), &[rows.positions.len(), width])?;
        let (table, out) = (readonly(table, "table")?, readwrite(out, "out")?);
        check_apart("table", addresses(&table), addresses(&out))?;
        jobs.push(Reading {
            table: table.data(),
            width,
            rows: &rows.positions,
            out: out.data(),
        });
        borrowed.push((table, out));
    }
    // SAFETY: the shapes were compared, and the borrows outlive the call.
    py.detach(|| unsafe { several::read_rows(&jobs) });
    Ok(())
}

type RowsArguments<'py> = (
    Vec<Bound<'py, PyAny>>,
    Bound<'py, DistinctRows>,
    Bound<'py, PyAny>,
    i32,
);
type WholeArguments<'py> = (Vec<Bound<'py, PyAny>>, Bound<'py, PyAny>, i32);

/// An optimizer's update of float32 arrays, in place.
#[pyclass(frozen, module = "drumline._core")]
pub struct UpdateRule(update_rules::UpdateRule);

#[pymethods]
impl UpdateRule {
    #[new]
    fn new(name: &str, constants: Vec<f64>) -> PyResult<Self> {
        let rule = update_rules::UpdateRule::new(name, &constants);
        rule.map(Self).ok_or_else(|| {
            PyValueError::new_err(format!(
                "there is no rule {name:?} with {} constants",
                constants.len()
            ))
        })
    }

    /// How many slots each array has.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Update rows of tables.
    fn update_rows(
        &self,
        py: Python<'_>,
        updates: Vec<RowsArguments<'_>>,
        learning_rate: f32,
    ) -> PyResult<()> {
        let mut borrowed = Vec::with_capacity(updates.len());
        let mut jobs = Vec::with_capacity(updates.len());
        for (arrays, rows, gradient, iteration) in &updates {
            let rows = &rows.get().0;
            let gradient = contiguous::<f32, Ix2>(gradient, "gradient", "2-dimensional float32")?;
            let width = gradient.shape()[1];
            check_shape("gradient", gradient.shape(), &[rows.count(), width])?;
            let held = self.borrow::<Ix2>(arrays, gradient, &[rows.rows(), width])?;
            jobs.push(Update {
                arrays: held.pointers(),
                width,
                rows,
                gradient: gradient.data(),
                iteration: *iteration,
            });
            borrowed.push(held);
        }
        // SAFETY: the shapes were compared, and the borrows are exclusive and outlive the call.
        py.detach(|| unsafe { several::update_rows(&self.0, &jobs, learning_rate) });
        Ok(())
    }

    /// Update arrays whole.
    fn update_whole(
        &self,
        py: Python<'_>,
        updates: Vec<WholeArguments<'_>>,
        learning_rate: f32,
    ) -> PyResult<()> {
        let mut borrowed = Vec::with_capacity(updates.len());
        let mut jobs = Vec::with_capacity(updates.len());
        for (arrays, gradient, iteration) in &updates {
            let gradient = contiguous::<f32, Ix1>(gradient, "gradient", "1-dimensional float32")?;
            let held = self.borrow::<Ix1>(arrays, gradient, gradient.shape())?;
            jobs.push(WholeUpdate {
                arrays: held.pointers(),
                count: gradient.len(),
                gradient: gradient.data(),
                iteration: *iteration,
            });
            borrowed.push(held);
        }
        // SAFETY: as above.
        py.detach(|| unsafe { several::update_whole(&self.0, &jobs, learning_rate) });
        Ok(())
    }
}

/// The arrays of one update, borrowed.
struct Held<'py, D: Dimension> {
    arrays: Vec<PyReadwriteArray<'py, f32, D>>,
    _gradient: PyReadonlyArray<'py, f32, D>,
}

impl<D: Dimension> Held<'_, D> {
    fn pointers(&self) -> Vec<*mut f32> {
        self.arrays.iter().map(|array| array.data()).collect()
    }
}

impl UpdateRule {
    fn borrow<'py, D: Dimension>(
        &self,
        arrays: &[Bound<'py, PyAny>],
        gradient: &Bound<'py, PyArray<f32, D>>,
        shape: &[usize],
    ) -> PyResult<Held<'py, D>> {
        if arrays.len() != 1 + self.0.slots() {
            return Err(PyValueError::new_err(format!(
                "an update was given {} arrays; it needs a value and {} slots",
                arrays.len(),
                self.0.slots()
            )));
        }
        let gradient = readonly(gradient, "gradient")?;
        let kind = "float32 with as many dimensions as the gradient";
        let arrays = arrays.iter().map(|array| {
            let array = contiguous::<f32, D>(array, "array", kind)?;
            check_shape("array", array.shape(), shape)?;
            let array = readwrite(array, "array")?;
            check_apart("gradient", addresses(&gradient), addresses(&array))?;
            Ok(array)
        });
        Ok(Held {
            arrays: arrays.collect::<PyResult<_>>()?,
            _gradient: gradient,
        })
    }
}

fn readonly<'py, T: numpy::Element, D: Dimension>(
    array: &Bound<'py, PyArray<T, D>>,
    name: &str,
) -> PyResult<PyReadonlyArray<'py, T, D>> {
    array
        .try_readonly()
        .map_err(|error| borrow_error(name, error))
}

fn readwrite<'py, T: numpy::Element, D: Dimension>(
    array: &Bound<'py, PyArray<T, D>>,
    name: &str,
) -> PyResult<PyReadwriteArray<'py, T, D>> {
    array
        .try_readwrite()
        .map_err(|error| borrow_error(name, error))
}

fn check_rows(found: usize, checked: usize) -> PyResult<()> {
    if found == checked {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "table has {found} rows; the ids were checked against {checked}"
    )))
}

fn check_shape(name: &str, found: &[usize], needed: &[usize]) -> PyResult<()> {
    if found == needed {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} has the shape {found:?} instead of {needed:?}"
    )))
}
