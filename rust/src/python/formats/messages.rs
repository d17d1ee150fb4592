//! Single messages: their fields, and lists of values.

use crate::formats::examples::column::Values;
use crate::formats::examples::decode;
use crate::formats::examples::defect::Malformed;
use crate::formats::examples::encode;
use crate::formats::examples::schema::Kind;
use crate::formats::examples::wire::{Content, Cursor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
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
