//! The module `drumline._core`: argument checks around the algorithms, and the GIL released.

use crate::blocks::gather::Gather;
use crate::blocks::rng;
use crate::blocks::shuffle::{Shuffle, ShuffleError};
use crate::kernels::large_buffers;
use crate::sched_delay;
use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{
    BorrowError, Element, IntoPyArray, PyArray, PyArray1, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

mod all_reduce;
mod formats;
mod images;
mod items;
mod packed;
mod runs;
mod strings;
mod tables;
mod texts;
mod xla;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(xla::want_results_at, module)?)?;
    module.add_function(wrap_pyfunction!(keep_large_buffers, module)?)?;
    module.add_function(wrap_pyfunction!(free_large_buffers, module)?)?;
    module.add_function(wrap_pyfunction!(xla::xla_handlers, module)?)?;
    module.add_function(wrap_pyfunction!(xla::vector_instructions, module)?)?;
    module.add_function(wrap_pyfunction!(gather_rows, module)?)?;
    module.add_function(wrap_pyfunction!(mix64, module)?)?;
    module.add_function(wrap_pyfunction!(run_delay_seconds, module)?)?;
    images::register(module)?;
    module.add_function(wrap_pyfunction!(
        formats::messages::example_messages,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(formats::messages::list_message, module)?)?;
    module.add_function(wrap_pyfunction!(formats::messages::list_values, module)?)?;
    module.add_function(wrap_pyfunction!(formats::messages::message_field, module)?)?;
    module.add_function(wrap_pyfunction!(formats::messages::message_fields, module)?)?;
    module.add_function(wrap_pyfunction!(tables::rows::unique_ids, module)?)?;
    module.add_function(wrap_pyfunction!(runs::copy_runs, module)?)?;
    module.add_function(wrap_pyfunction!(runs::first_fit, module)?)?;
    module.add_function(wrap_pyfunction!(runs::permuted, module)?)?;
    module.add_function(wrap_pyfunction!(tables::slots::scatter_rows, module)?)?;
    module.add_function(wrap_pyfunction!(
        tables::scatter_gather::spread_rows,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(tables::scatter_gather::sum_rows, module)?)?;
    module.add_function(wrap_pyfunction!(tables::several::read_rows, module)?)?;
    module.add_class::<formats::examples::ExampleParser>()?;
    module.add_class::<items::Items>()?;
    module.add_class::<packed::PackedBytes>()?;
    module.add_function(wrap_pyfunction!(formats::tar::tar_extensions, module)?)?;
    module.add_function(wrap_pyfunction!(formats::wav::decode_wavs, module)?)?;
    all_reduce::register(module)?;
    formats::csv::register(module)?;
    module.add_class::<strings::chains::StringChain>()?;
    strings::register(module)?;
    strings::tokens::register(module)?;
    strings::unicode::register(module)?;
    module.add_function(wrap_pyfunction!(texts::joined_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(texts::padded_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(formats::tensors::parse_tensors, module)?)?;
    module.add_function(wrap_pyfunction!(
        formats::tensors::serialize_numbers,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        formats::tensors::serialize_strings,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(formats::tensors::tensor_dims, module)?)?;
    module.add_function(wrap_pyfunction!(formats::whole_files::read_files, module)?)?;
    module.add_function(wrap_pyfunction!(formats::checksum::crc32c, module)?)?;
    module.add_function(wrap_pyfunction!(formats::records::masked_checksum, module)?)?;
    module.add_class::<formats::records::RecordReader>()?;
    module.add_class::<formats::source::ByteReader>()?;
    module.add_class::<formats::records::RecordEncoder>()?;
    module.add_class::<tables::rows::DistinctRows>()?;
    module.add_class::<tables::slots::ScalarRows>()?;
    module.add_class::<tables::slots::RowSlots>()?;
    module.add_class::<tables::several::TableRows>()?;
    module.add_class::<tables::several::UpdateRule>()?;
    module.add_class::<formats::tar::TarReader>()?;
    module.add_class::<ShuffleIndices>()
}

/// Route a loaded library's large allocations through a store of kept buffers.
#[pyfunction]
fn keep_large_buffers(library: &str) -> usize {
    large_buffers::install(library)
}

/// Keep no buffers any more, and free those that are kept.
#[pyfunction]
fn free_large_buffers(py: Python<'_>) {
    py.detach(large_buffers::uninstall);
}

/// Hash two unsigned 64-bit integers into one, to derive random keys from others.
#[pyfunction]
fn mix64(a: u64, b: u64) -> u64 {
    rng::mix64(a, b)
}

/// Seconds that the calling thread could have run but waited for a processor.
#[pyfunction]
fn run_delay_seconds() -> f64 {
    // Short, and called often where many threads want the GIL: not released.
    sched_delay::sched_delay() as f64 * 1e-9
}

/// Copy `src[idx]` to `out`: rows of bytes, by position.
#[pyfunction]
fn gather_rows(
    src: &Bound<'_, PyAny>,
    idx: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let src = contiguous::<u8, Ix2>(src, "src", "2-dimensional uint8")?;
    let idx = contiguous::<i64, Ix1>(idx, "idx", "1-dimensional int64")?;
    let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
    let (rows, width, count) = (src.shape()[0], src.shape()[1], idx.len());
    check_out_shape(out, [count, width])?;
    // The borrows keep the arrays alive, refuse a read-only `out`, and stop two calls from writing
    // one buffer. They know buffers by the array that owns them, hence the look at addresses.
    let src = src
        .try_readonly()
        .map_err(|error| borrow_error("src", error))?;
    let idx = idx
        .try_readonly()
        .map_err(|error| borrow_error("idx", error))?;
    let out = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    check_apart("src", addresses(&src), addresses(&out))?;
    check_apart("idx", addresses(&idx), addresses(&out))?;
    let job = Gather {
        src: src.data(),
        rows,
        width,
        idx: idx.data(),
        count,
        out: out.data(),
    };
    // SAFETY: the checks above are the contract of `run`, and the borrows outlive the call.
    src.py().detach(|| unsafe { job.run() }).map_err(|bad| {
        PyIndexError::new_err(format!(
            "idx[{}] is {}, but src has {rows} rows: an index lies in [0, {rows})",
            bad.position, bad.value
        ))
    })
}

fn contiguous<'a, 'py, T: Element, D: Dimension>(
    value: &'a Bound<'py, PyAny>,
    name: &str,
    kind: &str,
) -> PyResult<&'a Bound<'py, PyArray<T, D>>> {
    let Ok(array) = value.cast::<PyArray<T, D>>() else {
        let found = describe(value)?;
        let message = format!("{name} must be a {kind} numpy array; it is {found}");
        return Err(PyTypeError::new_err(message));
    };
    if !array.is_c_contiguous() || !array.data().is_aligned() {
        return Err(PyValueError::new_err(format!(
            "{name} must be C-contiguous and aligned; pass numpy.ascontiguousarray({name})"
        )));
    }
    Ok(array)
}

fn describe(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(array) = value.cast::<PyUntypedArray>() else {
        return Ok(format!("of type {}", value.get_type().name()?));
    };
    Ok(format!("{}-dimensional {}", array.ndim(), array.dtype()))
}

fn check_out_shape(out: &Bound<'_, PyArray<u8, Ix2>>, needed: [usize; 2]) -> PyResult<()> {
    if out.shape() == needed {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "out has shape {:?}; {} indices into rows of {} bytes need {needed:?}",
        out.shape(),
        needed[0],
        needed[1],
    )))
}

fn borrow_error(name: &str, error: BorrowError) -> PyErr {
    PyValueError::new_err(match error {
        BorrowError::NotWriteable => format!("{name} is read-only; pass a writable array"),
        _ => format!("{name} overlaps an array that is being written; pass another one"),
    })
}

fn addresses<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> (usize, usize) {
    let start = array.data() as usize;
    (start, start + array.len() * size_of::<T>())
}

fn check_apart(name: &str, read: (usize, usize), written: (usize, usize)) -> PyResult<()> {
    if read.0.max(written.0) < read.1.min(written.1) {
        let message = format!("{name} and out share memory; pass an out of its own");
        return Err(PyValueError::new_err(message));
    }
    Ok(())
}

/// The order in which a shuffle buffer emits the rows of an input, in instalments.
#[pyclass(frozen, module = "drumline._core")]
struct ShuffleIndices(Mutex<Shuffle>);

#[pymethods]
impl ShuffleIndices {
    #[new]
    #[pyo3(signature = (key, buffer_size, length=None))]
    fn new(key: u64, buffer_size: i64, length: Option<i64>) -> PyResult<Self> {
        let buffer_size = at_least("buffer_size", buffer_size, 1)?;
        let length = length.map(|n| at_least("length", n, 0)).transpose()?;
        Ok(Self(Mutex::new(Shuffle::new(key, buffer_size, length))))
    }

    /// Emit the next `k` row indices, or fewer at the end of the input.
    fn next<'py>(&self, py: Python<'py>, k: i64) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let k = at_least("k", k, 0)?;
        self.with(py, |shuffle| {
            let mut rows = Vec::new();
            let count = shuffle.available(k);
            rows.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX))
                .map_err(|_| ShuffleError::OutOfMemory { slots: count })?;
            shuffle.emit(count, |row| rows.push(row))?;
            Ok(rows)
        })
        .map(|rows| rows.into_pyarray(py))
    }

    /// Advance as `next(k)` does, without the indices; returns how many were skipped.
    fn skip(&self, py: Python<'_>, k: i64) -> PyResult<u64> {
        let k = at_least("k", k, 0)?;
        self.with(py, |shuffle| shuffle.emit(k, |_| ()))
    }

    /// How many input rows must be known to exist before `next(k)` may be called.
    fn needed(&self, py: Python<'_>, k: i64) -> PyResult<u64> {
        let k = at_least("k", k, 0)?;
        self.with(py, |shuffle| Ok(shuffle.needed(k)))
    }

    /// Say where the input ends, once that is known.
    fn set_length(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        let n = at_least("length", n, 0)?;
        self.with(py, |shuffle| shuffle.set_length(n))
    }

    /// How many indices were emitted or skipped so far.
    #[getter]
    fn emitted(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |shuffle| Ok(shuffle.emitted()))
    }
}

impl ShuffleIndices {
    /// Locks without the GIL, so that a thread that waits here cannot hold up the one that works.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut Shuffle) -> Result<T, ShuffleError> + Send,
    ) -> PyResult<T> {
        py.detach(|| action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(shuffle_error)
    }
}

fn at_least(name: &str, value: i64, least: i64) -> PyResult<u64> {
    if value < least {
        let message = format!("{name} is {value}; it must be at least {least}");
        return Err(PyValueError::new_err(message));
    }
    Ok(value as u64)
}

fn shuffle_error(error: ShuffleError) -> PyErr {
    match error {
        ShuffleError::OutOfMemory { slots } => PyMemoryError::new_err(format!(
            "no memory for {slots} shuffled indices; use a smaller buffer_size"
        )),
        ShuffleError::Length { given, required } => {
            PyValueError::new_err(format!("length is {given}; it must be {required}"))
        }
    }
}
