//! `copy_runs`, `first_fit` and `permuted`: argument checks, and the GIL released.

use crate::blocks::permutation::Permutation;
use crate::blocks::runs;
use crate::python::{addresses, borrow_error, check_apart, contiguous};
use numpy::ndarray::{Ix1, Ix2};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

type Integers<'py> = Bound<'py, PyArray1<i64>>;

/// Copy runs of rows of bytes to places in another array.
#[pyfunction]
pub fn copy_runs(
    src: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    from_rows: &Bound<'_, PyAny>,
    to_rows: &Bound<'_, PyAny>,
    lengths: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let src = contiguous::<u8, Ix2>(src, "src", "2-dimensional uint8")?;
    let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
    let width = src.shape()[1];
    if out.shape()[1] != width {
        return Err(PyValueError::new_err(format!(
            "out has rows of {} bytes, src of {width}",
            out.shape()[1]
        )));
    }
    let (from, to) = (copied(from_rows, "from_rows")?, copied(to_rows, "to_rows")?);
    let lengths = copied(lengths, "lengths")?;
    if from.len() != lengths.len() || to.len() != lengths.len() {
        return Err(PyValueError::new_err(format!(
            "{} from_rows, {} to_rows and {} lengths; there must be as many of each",
            from.len(),
            to.len(),
            lengths.len()
        )));
    }
    let runs: Vec<_> = (0..lengths.len())
        .map(|k| (from[k], to[k], lengths[k]))
        .collect();
    check_apart("src", addresses(src), addresses(out))?;
    let src = src
        .try_readonly()
        .map_err(|error| borrow_error("src", error))?;
    let mut out = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    let (from, to) = (src.as_slice()?, out.as_slice_mut()?);
    src.py()
        .detach(|| runs::copy_runs(from, to, width, &runs))
        .map_err(|bad| {
            let name = if bad.reads { "src" } else { "out" };
            PyIndexError::new_err(format!(
                "run {} has {} rows from {} on, which {name} does not hold",
                bad.run, bad.length, bad.start
            ))
        })
}

/// Place lengths into bins of equal capacity, each into the first with room.
#[pyfunction]
pub fn first_fit<'py>(
    lengths: &Bound<'py, PyAny>,
    capacity: i64,
) -> PyResult<(Integers<'py>, Integers<'py>, usize)> {
    let py = lengths.py();
    let lengths = copied(lengths, "lengths")?;
    if let Some(k) = lengths.iter().position(|&n| n < 0 || n > capacity) {
        let message = format!(
            "lengths[{k}] is {}; it must lie in [0, {capacity}]",
            lengths[k]
        );
        return Err(PyValueError::new_err(message));
    }
    let (bins, starts, count) = py.detach(|| runs::first_fit(&lengths, capacity));
    Ok((bins.into_pyarray(py), starts.into_pyarray(py), count))
}

/// Where a keyed permutation of `0..n` takes positions.
#[pyfunction]
pub fn permuted<'py>(
    key: u64,
    length: i64,
    positions: &Bound<'py, PyAny>,
) -> PyResult<Integers<'py>> {
    let py = positions.py();
    let mut positions = copied(positions, "positions")?;
    if let Some(k) = positions.iter().position(|&p| p < 0 || p >= length) {
        let message = format!(
            "positions[{k}] is {}; it must lie in [0, {length})",
            positions[k]
        );
        return Err(PyIndexError::new_err(message));
    }
    py.detach(|| {
        let permutation = Permutation::new(key, length.max(0) as u64);
        for position in &mut positions {
            *position = permutation.at(*position as u64) as i64;
        }
    });
    Ok(positions.into_pyarray(py))
}

fn copied(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<i64>> {
    let array = contiguous::<i64, Ix1>(value, name, "1-dimensional int64")?;
    let values = array
        .try_readonly()
        .map_err(|error| borrow_error(name, error))?;
    Ok(values.as_slice()?.to_vec())
}
