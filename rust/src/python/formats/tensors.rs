//! Tensors as messages, column by column.

use crate::formats::tensors::kind::{Kind, STRING};
use crate::formats::tensors::parse::{parse, Tensor};
use crate::formats::tensors::write;
use crate::python::texts::Strings;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Values, dimensions row by row, how many rows, and why there are no more.
type Parsed<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyArray1<i64>>,
    usize,
    Option<String>,
);

/// The tensors before the first that is none of this type and shape; -1 stands for any size.
#[pyfunction]
pub fn parse_tensors<'py>(
    messages: &Bound<'py, PyAny>,
    number: u64,
    shape: Vec<i64>,
) -> PyResult<Parsed<'py>> {
    let py = messages.py();
    let kind = kind_of(number)?;
    let messages = Strings::read(messages)?;
    let (tensors, failure, values) = py.detach(|| {
        let (tensors, failure) = parsed(messages.views(), kind, &shape);
        let mut values = Vec::with_capacity(tensors.iter().map(Tensor::size).sum());
        tensors.iter().for_each(|tensor| tensor.write(&mut values));
        (tensors, failure, values)
    });
    let values = if number == STRING {
        let bytes = |item: &[u8]| PyBytes::new(py, item).into_any().unbind();
        let items = tensors.iter().flat_map(Tensor::strings).map(bytes);
        PyArray1::from_vec(py, items.collect()).into_any()
    } else {
        values.into_pyarray(py).into_any()
    };
    let rows = tensors.len();
    let dims: Vec<i64> = tensors.into_iter().flat_map(|tensor| tensor.dims).collect();
    Ok((values, dims.into_pyarray(py), rows, failure))
}

fn parsed<'a>(
    messages: &[&'a [u8]],
    kind: Kind,
    shape: &[i64],
) -> (Vec<Tensor<'a>>, Option<String>) {
    let mut tensors = Vec::with_capacity(messages.len());
    for message in messages {
        let tensor = match parse(message, kind) {
            Ok(tensor) => tensor,
            Err(defect) => return (tensors, Some(defect.to_string())),
        };
        let fits = |(&wanted, &found): (&i64, &i64)| wanted < 0 || wanted == found;
        if tensor.dims.len() != shape.len() || !shape.iter().zip(&tensor.dims).all(fits) {
            return (tensors, Some(format!("its shape is {:?}", tensor.dims)));
        }
        tensors.push(tensor);
    }
    (tensors, None)
}

/// The dimensions of a tensor.
#[pyfunction]
pub fn tensor_dims(message: &[u8], number: u64) -> PyResult<Vec<i64>> {
    let tensor = parse(message, kind_of(number)?);
    tensor
        .map(|tensor| tensor.dims)
        .map_err(|defect| PyValueError::new_err(defect.to_string()))
}

/// Messages of tensors of numbers: `dims` of each, and the bytes of all, concatenated.
#[pyfunction]
pub fn serialize_numbers<'py>(
    values: &Bound<'py, PyArray1<u8>>,
    number: u64,
    dims: Vec<Vec<i64>>,
) -> PyResult<Bound<'py, PyArray1<Py<PyAny>>>> {
    let py = values.py();
    let kind = kind_of(number)?;
    let values = values.try_readonly()?;
    let mut rest = values.as_slice()?;
    let mut messages = Vec::with_capacity(dims.len());
    for dims in &dims {
        let size = items(dims)?.checked_mul(kind.width);
        let size = size.filter(|&size| size <= rest.len()).ok_or_else(misfit)?;
        let (content, others) = rest.split_at(size);
        rest = others;
        let before = write::before_numbers(kind, dims, size);
        let message = PyBytes::new_with(py, before.len() + size, |out| {
            out[..before.len()].copy_from_slice(&before);
            out[before.len()..].copy_from_slice(content);
            Ok(())
        })?;
        messages.push(message.into_any().unbind());
    }
    Ok(PyArray1::from_vec(py, messages))
}

/// Messages of tensors of strings: `dims` of each, and the strings of all.
#[pyfunction]
pub fn serialize_strings<'py>(
    strings: &Bound<'py, PyAny>,
    dims: Vec<Vec<i64>>,
) -> PyResult<Bound<'py, PyArray1<Py<PyAny>>>> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let mut rest = strings.views();
    let mut messages = Vec::with_capacity(dims.len());
    for dims in &dims {
        let count = items(dims)?;
        if count > rest.len() {
            return Err(misfit());
        }
        let (own, others) = rest.split_at(count);
        rest = others;
        let message = write::strings(dims, own.iter().copied());
        messages.push(PyBytes::new(py, &message).into_any().unbind());
    }
    Ok(PyArray1::from_vec(py, messages))
}

fn items(dims: &[i64]) -> PyResult<usize> {
    dims.iter()
        .try_fold(1usize, |count, &dim| {
            count.checked_mul(usize::try_from(dim).ok()?)
        })
        .ok_or_else(misfit)
}

fn misfit() -> PyErr {
    PyValueError::new_err("the values do not fit the shapes")
}

fn kind_of(number: u64) -> PyResult<Kind> {
    Kind::of(number).ok_or_else(|| PyValueError::new_err(format!("no type has number {number}")))
}
