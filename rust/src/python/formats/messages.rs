//! Single messages: their fields, and lists of values.

use crate::formats::examples::column::Values;
use crate::formats::examples::decode;
use crate::formats::examples::defect::Malformed;
use crate::formats::examples::encode;
use crate::formats::examples::schema::Kind;
use crate::formats::examples::wire::{Content, Cursor};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use pyo3::IntoPyObjectExt;

/// The numbers and contents of a message's fields that are bytes or messages.
#[pyfunction]
pub fn message_fields<'py>(
    py: Python<'py>,
    message: &[u8],
) -> PyResult<Vec<(u64, Bound<'py, PyBytes>)>> {
    let mut rest = Cursor::new(message);
    let mut fields = Vec::new();
    while let Some((number, content)) = rest.field().map_err(malformed)? {
        if let Content::Delimited(content) = content {
            fields.push((number, PyBytes::new(py, content.rest())));
        }
    }
    Ok(fields)
}

/// A field of a message.
#[pyfunction]
pub fn message_field<'py>(py: Python<'py>, number: u32, content: &[u8]) -> Bound<'py, PyBytes> {
    let mut field = Vec::with_capacity(content.len() + 16);
    encode::field(number, content, &mut field);
    PyBytes::new(py, &field)
}

/// The values of a list.
#[pyfunction]
pub fn list_values<'py>(
    py: Python<'py>,
    kind: &str,
    message: &[u8],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut values = Values::new(kind_of(kind)?);
    decode::list(Cursor::new(message), &mut values).map_err(|found| {
        let at = found.offset.unwrap_or(0);
        PyValueError::new_err(format!("at byte {at}: {}", found.defect))
    })?;
    match values {
        Values::Bytes(values) => Ok(values
            .into_iter()
            .map(|value| PyBytes::new(py, value).into_any())
            .collect()),
        Values::Float(values) => values.into_iter().map(|v| object(py, v)).collect(),
        Values::Int64(values) => values.into_iter().map(|v| object(py, v)).collect(),
    }
}

/// A list of values as a message.
#[pyfunction]
pub fn list_message<'py>(kind: &str, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let message = match kind_of(kind)? {
        Kind::Bytes => {
            let held: Vec<Bound<PyBytes>> = values.extract()?;
            let slices = held.iter().map(|value| value.as_bytes()).collect();
            encode::list(&Values::Bytes(slices))
        }
        Kind::Float => encode::list(&Values::Float(values.extract()?)),
        Kind::Int64 => encode::list(&Values::Int64(values.extract()?)),
    };
    Ok(PyBytes::new(values.py(), &message))
}

/// `Example` messages of rows of values: `None`, bytes, a number, a list of bytes, or an array.
#[pyfunction]
pub fn example_messages<'py>(
    py: Python<'py>,
    features: Vec<(PyBackedBytes, String)>,
    rows: Vec<Vec<Bound<'py, PyAny>>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let kinds = features.iter().map(|(_, kind)| kind_of(kind));
    let kinds: Vec<Kind> = kinds.collect::<PyResult<_>>()?;
    let (mut entries, mut message) = (Vec::new(), Vec::new());
    let mut messages = Vec::with_capacity(rows.len());
    for row in &rows {
        if row.len() != kinds.len() {
            let message = format!("{} values for {} features", row.len(), kinds.len());
            return Err(PyValueError::new_err(message));
        }
        entries.clear();
        for ((value, &kind), (key, _)) in row.iter().zip(&kinds).zip(&features) {
            if value.is_none() {
                continue;
            }
            if let Ok(one) = value.cast::<PyBytes>() {
                if !matches!(kind, Kind::Bytes) {
                    return Err(PyTypeError::new_err("bytes in a feature of numbers"));
                }
                encode::entry(key, &Values::Bytes(vec![one.as_bytes()]), &mut entries);
            } else if matches!(kind, Kind::Bytes) {
                let held: Vec<Bound<PyBytes>> = value.extract()?;
                let slices = held.iter().map(|value| value.as_bytes()).collect();
                encode::entry(key, &Values::Bytes(slices), &mut entries);
            } else {
                encode::entry(key, &numbers(value, kind)?, &mut entries);
            }
        }
        message.clear();
        encode::field(1, &entries, &mut message);
        messages.push(PyBytes::new(py, &message));
    }
    Ok(messages)
}

/// A number, or an array (n,) of int64, float32 or float64.
fn numbers(value: &Bound<'_, PyAny>, kind: Kind) -> PyResult<Values<'static>> {
    if let Ok(array) = value.cast::<PyArray1<i64>>() {
        return match kind {
            Kind::Int64 => Ok(Values::Int64(array.try_readonly()?.as_array().to_vec())),
            _ => Err(PyTypeError::new_err("integers in a feature of floats")),
        };
    }
    if let Ok(array) = value.cast::<PyArray1<f32>>() {
        return floats(array.try_readonly()?.as_array().to_vec(), kind);
    }
    if let Ok(array) = value.cast::<PyArray1<f64>>() {
        let array = array.try_readonly()?;
        return floats(array.as_array().iter().map(|&v| v as f32).collect(), kind);
    }
    match kind {
        Kind::Int64 => Ok(Values::Int64(vec![value.extract()?])),
        _ => Ok(Values::Float(vec![value.extract()?])),
    }
}

fn floats(values: Vec<f32>, kind: Kind) -> PyResult<Values<'static>> {
    match kind {
        Kind::Float => Ok(Values::Float(values)),
        _ => Err(PyTypeError::new_err("floats in a feature of integers")),
    }
}

/// The kind of this name.
pub fn kind_of(name: &str) -> PyResult<Kind> {
    match name {
        "string" => Ok(Kind::Bytes),
        "float32" => Ok(Kind::Float),
        "int64" => Ok(Kind::Int64),
        _ => Err(PyValueError::new_err(format!("no kind of values: {name}"))),
    }
}

fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Bound<'py, PyAny>>
where
    PyErr: From<T::Error>,
{
    value.into_bound_py_any(py)
}

fn malformed(malformed: Malformed) -> PyErr {
    PyValueError::new_err(format!("at byte {}: {malformed}", malformed.at()))
}
