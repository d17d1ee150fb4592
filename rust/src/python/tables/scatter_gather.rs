//! `spread_rows` and `sum_rows`: argument checks, and the GIL released.

use crate::python::tables::rows::{integers, Pointer};
use crate::python::{addresses, borrow_error, check_apart, contiguous};
use crate::tables::scatter_gather::{BadPlace, Blocks, Value};
use numpy::ndarray::Ix2;
use numpy::{Element, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// They are summed in less time than it may take to get the GIL back.
const FEW_BYTES: usize = 256 << 10;

/// Copy the row of each place, of blocks one after another, to `out`.
#[pyfunction]
pub fn spread_rows(
    blocks: Vec<Bound<'_, PyAny>>,
    places: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = out.py();
    let blocks = arrays::<u8>(&blocks, "blocks", "2-dimensional uint8")?;
    let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
    let places = checked_places(places, out.shape()[0])?;
    let width = out.shape()[1];
    check_widths(&blocks, width)?;
    let written = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    let mut read = Vec::with_capacity(blocks.len());
    for block in &blocks {
        check_apart("blocks", addresses(block), addresses(&written))?;
        let borrowed = block.try_readonly();
        read.push(borrowed.map_err(|error| borrow_error("blocks", error))?);
    }
    let (rows, to) = (located(&blocks, width), Pointer(written.data()));
    // SAFETY: the shapes were compared, and the borrows outlive the call.
    py.detach(|| unsafe { rows.gather(&places, width, to.get()) })
        .map_err(|bad| bad_place(bad, &blocks))
}

/// Set rows of `out`, blocks one after another, to the sums of the values of their places.
#[pyfunction]
pub fn sum_rows(
    values: &Bound<'_, PyAny>,
    places: &Bound<'_, PyAny>,
    out: Vec<Bound<'_, PyAny>>,
) -> PyResult<()> {
    if values.cast::<PyArray2<f64>>().is_ok() {
        return sums::<f64>(values, places, &out, "2-dimensional float64");
    }
    sums::<f32>(values, places, &out, "2-dimensional float32")
}

fn sums<T: Element + Value + Sync>(
    values: &Bound<'_, PyAny>,
    places: &Bound<'_, PyAny>,
    out: &[Bound<'_, PyAny>],
    kind: &str,
) -> PyResult<()> {
    let py = values.py();
    let values = contiguous::<T, Ix2>(values, "values", kind)?;
    let out = arrays::<T>(out, "out", kind)?;
    let places = checked_places(places, values.shape()[0])?;
    let width = values.shape()[1];
    check_widths(&out, width)?;
    let read = values
        .try_readonly()
        .map_err(|error| borrow_error("values", error))?;
    let mut written = Vec::with_capacity(out.len());
    for (number, block) in out.iter().enumerate() {
        check_apart("values", addresses(&read), addresses(block))?;
        for other in &out[..number] {
            check_apart("blocks of out", addresses(other), addresses(block))?;
        }
        let borrowed = block.try_readwrite();
        written.push(borrowed.map_err(|error| borrow_error("out", error))?);
    }
    let (rows, from) = (located(&out, width), Pointer(read.data().cast()));
    // SAFETY: the shapes were compared, and the borrows outlive the call.
    let sum = || unsafe { rows.sum::<T>(from.get().cast(), &places, width) };
    let few = values.len() * size_of::<T>() < FEW_BYTES;
    let summed = if few { sum() } else { py.detach(sum) };
    summed.map_err(|bad| bad_place(bad, &out))
}

fn arrays<'a, 'py, T: Element>(
    values: &'a [Bound<'py, PyAny>],
    name: &str,
    kind: &str,
) -> PyResult<Vec<&'a Bound<'py, PyArray2<T>>>> {
    let array = |value| contiguous::<T, Ix2>(value, name, kind);
    values.iter().map(array).collect()
}

fn located<T: Element>(blocks: &[&Bound<'_, PyArray2<T>>], width: usize) -> Blocks {
    let at = |block: &&Bound<'_, PyArray2<T>>| (block.data() as usize, block.shape()[0]);
    Blocks::new(blocks.iter().map(at), width * size_of::<T>())
}

fn checked_places(places: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<i64>> {
    let places = integers(places, "places")?;
    if places.len() == count {
        return Ok(places);
    }
    Err(PyValueError::new_err(format!(
        "there are {} places for {count} rows",
        places.len()
    )))
}

fn check_widths<T: Element>(blocks: &[&Bound<'_, PyArray2<T>>], width: usize) -> PyResult<()> {
    match blocks.iter().find(|block| block.shape()[1] != width) {
        None => Ok(()),
        Some(block) => Err(PyValueError::new_err(format!(
            "rows of {} and of {width} elements cannot be copied to each other",
            block.shape()[1]
        ))),
    }
}

fn bad_place<T: Element>(bad: BadPlace, blocks: &[&Bound<'_, PyArray2<T>>]) -> PyErr {
    let rows: usize = blocks.iter().map(|block| block.shape()[0]).sum();
    PyIndexError::new_err(format!(
        "places[{}] is {}, but there are {rows} rows: a place lies in [0, {rows})",
        bad.position, bad.value
    ))
}
