//! `DistinctRows` and `unique_ids`: argument checks, and the GIL released.

use crate::python::{addresses, borrow_error, check_apart, contiguous};
use crate::tables::rows::{self, BadRow};
use numpy::ndarray::{Ix1, Ix2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Different rows of a table, checked once.
#[pyclass(frozen, module = "drumline._core")]
pub struct DistinctRows(pub(crate) rows::DistinctRows);

/// They are checked in less time than it may take to get the GIL back.
const FEW_IDS: usize = 1 << 14;

type Bytes<'a, 'py> = &'a Bound<'py, PyArray2<u8>>;

#[pymethods]
impl DistinctRows {
    #[new]
    fn new(ids: &Bound<'_, PyAny>, rows: usize) -> PyResult<Self> {
        let py = ids.py();
        let ids = integers(ids, "ids")?;
        let few = ids.len() < FEW_IDS;
        let make = || rows::DistinctRows::new(ids.into_iter(), rows);
        let made = if few { make() } else { py.detach(make) };
        made.map(Self).map_err(|bad| bad_row(bad, 0, rows as i64))
    }

    fn __len__(&self) -> usize {
        self.0.count()
    }

    /// Copy the rows at positions `[start, start + len(out))` to `out`.
    #[pyo3(signature = (table, out, start=0))]
    fn gather(
        &self,
        table: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        start: usize,
    ) -> PyResult<()> {
        let (table, out) = (bytes(table, "table")?, bytes(out, "out")?);
        let (width, range) = self.check("out", table, out, start)?;
        let read = table
            .try_readonly()
            .map_err(|error| borrow_error("table", error))?;
        let written = out
            .try_readwrite()
            .map_err(|error| borrow_error("out", error))?;
        check_apart("table", addresses(&read), addresses(&written))?;
        let (from, to) = (Pointer(read.data()), Pointer(written.data()));
        // SAFETY: `check` compared the shapes, and the borrows outlive the call.
        read.py()
            .detach(|| unsafe { self.0.gather(from.get(), width, to.get(), range) });
        Ok(())
    }

    /// Copy the rows of `src` to the table's rows at positions `[start, start + len(src))`.
    #[pyo3(signature = (src, table, start=0))]
    fn scatter(
        &self,
        src: &Bound<'_, PyAny>,
        table: &Bound<'_, PyAny>,
        start: usize,
    ) -> PyResult<()> {
        let (src, table) = (bytes(src, "src")?, bytes(table, "table")?);
        let (width, range) = self.check("src", table, src, start)?;
        let read = src
            .try_readonly()
            .map_err(|error| borrow_error("src", error))?;
        let written = table
            .try_readwrite()
            .map_err(|error| borrow_error("table", error))?;
        check_apart("src", addresses(&read), addresses(&written))?;
        let (from, to) = (Pointer(read.data()), Pointer(written.data()));
        // SAFETY: as above.
        read.py()
            .detach(|| unsafe { self.0.scatter(from.get(), width, to.get(), range) });
        Ok(())
    }
}

impl DistinctRows {
    fn check(
        &self,
        name: &str,
        table: Bytes<'_, '_>,
        other: Bytes<'_, '_>,
        start: usize,
    ) -> PyResult<(usize, std::ops::Range<usize>)> {
        let (rows, width) = (table.shape()[0], table.shape()[1]);
        if rows != self.0.rows() {
            return Err(PyValueError::new_err(format!(
                "table has {rows} rows; the ids were checked against {}",
                self.0.rows()
            )));
        }
        let end = start.saturating_add(other.shape()[0]);
        if other.shape()[1] != width || end > self.0.count() {
            return Err(PyValueError::new_err(format!(
                "{name} has shape {:?}; from position {start} there are {} rows of {width} bytes",
                other.shape(),
                self.0.count().saturating_sub(start),
            )));
        }
        Ok((width, start..end))
    }
}

type UniqueArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Vec<usize>,
);

/// The different ids of a batch, grouped by the parts of a table.
#[pyfunction]
pub fn unique_ids<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    bounds: Vec<i64>,
) -> PyResult<UniqueArrays<'py>> {
    if bounds.len() < 2 || bounds.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(PyValueError::new_err(format!(
            "bounds is {bounds:?}; pass the first row of each part and the end of the last"
        )));
    }
    let ids = integers(ids, "ids")?;
    if ids.len() > i32::MAX as usize {
        let message = format!("{} ids are too many; pass fewer at a time", ids.len());
        return Err(PyValueError::new_err(message));
    }
    let few = ids.len() < FEW_IDS;
    let find = || rows::unique_ids(ids.into_iter(), &bounds);
    let found = if few { find() } else { py.detach(find) };
    let unique = found.map_err(|bad| bad_row(bad, bounds[0], bounds[bounds.len() - 1]))?;
    Ok((
        unique.ids.into_pyarray(py),
        unique.inverse.into_pyarray(py),
        unique.counts,
    ))
}

/// A copy of 32-bit or 64-bit integers.
pub(crate) fn integers(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<i64>> {
    if value.cast::<PyArray1<i32>>().is_ok() {
        let array = contiguous::<i32, Ix1>(value, name, "1-dimensional int32")?;
        let start = array.data();
        // SAFETY: the array holds this many aligned integers and outlives the call. Atomic, as
        // another thread may write them meanwhile.
        let read = |i| unsafe { AtomicI32::from_ptr(start.add(i)) }.load(Ordering::Relaxed);
        return Ok((0..array.len()).map(|i| read(i).into()).collect());
    }
    let array = contiguous::<i64, Ix1>(value, name, "1-dimensional int32 or int64")?;
    let start = array.data();
    // SAFETY: as above.
    let read = |i| unsafe { AtomicI64::from_ptr(start.add(i)) }.load(Ordering::Relaxed);
    Ok((0..array.len()).map(read).collect())
}

fn bytes<'a, 'py>(value: &'a Bound<'py, PyAny>, name: &str) -> PyResult<Bytes<'a, 'py>> {
    contiguous::<u8, Ix2>(value, name, "2-dimensional uint8")
}

pub(crate) fn bad_row(bad: BadRow, first: i64, end: i64) -> PyErr {
    match bad {
        BadRow::Outside { position, value } => PyIndexError::new_err(format!(
            "ids[{position}] is {value}; an id lies in [{first}, {end})"
        )),
        BadRow::Repeated { position, value } => PyValueError::new_err(format!(
            "ids[{position}] is {value}, which stands before it as well; pass each id once"
        )),
    }
}

/// A pointer that a closure may take along without the GIL.
#[derive(Clone, Copy)]
pub(crate) struct Pointer(pub(crate) *mut u8);

// SAFETY: whoever makes one keeps the memory alive while it is used.
unsafe impl Send for Pointer {}
unsafe impl Sync for Pointer {}

impl Pointer {
    pub(crate) fn get(self) -> *mut u8 {
        self.0
    }
}
