//! `ExampleParser`: objects to slices and back, and the GIL released in between.

use super::texts::Strings;
use crate::examples::column::{Column, Values};
use crate::examples::defect::Failure;
use crate::examples::parse::{parse, Part};
use crate::examples::schema::{Default, Feature, Form, Kind, Schema};
use crate::python::messages::kind_of;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A feature as Python describes it: key, kind, form, count, default.
type Wanted<'py> = (Vec<u8>, String, String, usize, Option<Bound<'py, PyAny>>);

/// Values, where rows end, where frames end.
type Parsed<'py> = (
    Bound<'py, PyAny>,
    Option<Bound<'py, PyArray1<i64>>>,
    Option<Bound<'py, PyArray1<i64>>>,
);

/// Row, feature, frame, byte, and what was wrong.
type Told = (usize, Option<usize>, Option<usize>, Option<usize>, String);

/// Parses columns of serialized `Example` or `SequenceExample` messages.
#[pyclass(frozen, module = "drumline._core")]
pub struct ExampleParser {
    parts: Vec<Part>,
}

#[pymethods]
impl ExampleParser {
    #[new]
    fn new(parts: Vec<(u64, Vec<Wanted<'_>>)>) -> PyResult<Self> {
        let part = |(field, features): (u64, Vec<Wanted>)| {
            let features = features.into_iter().map(feature).collect::<PyResult<_>>();
            Ok(Part {
                field,
                schema: Schema::new(features?),
            })
        };
        let parts = parts.into_iter().map(part).collect::<PyResult<_>>()?;
        Ok(Self { parts })
    }

    /// The columns of the records before the first that failed, and why it did.
    fn parse<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<Parsed<'py>>, Option<Told>)> {
        let records = Strings::read(records)?;
        let (columns, failure) = py.detach(|| parse(&self.parts, records.views()));
        let columns = columns.into_iter().map(|column| arrays(py, column));
        Ok((columns.collect(), failure.map(told)))
    }
}

fn feature(wanted: Wanted<'_>) -> PyResult<Feature> {
    let (key, kind, form, count, default) = wanted;
    let kind = kind_of(&kind)?;
    let default = default.map(|value| match kind {
        Kind::Bytes => value.extract().map(Default::Bytes),
        Kind::Float => value.extract().map(Default::Float),
        Kind::Int64 => value.extract().map(Default::Int64),
    });
    let form = match form.as_str() {
        "fixed" => Form::Fixed {
            count,
            default: default.transpose()?,
        },
        "varying" => Form::Varying { of: count },
        "frames" | "optional frames" => Form::Frames {
            count: Some(count),
            required: form == "frames",
        },
        "varying frames" => Form::Frames {
            count: None,
            required: false,
        },
        _ => return Err(PyValueError::new_err(format!("no form of values: {form}"))),
    };
    Ok(Feature { key, kind, form })
}

fn arrays<'py>(py: Python<'py>, column: Column<'_>) -> Parsed<'py> {
    let values = match column.values {
        Values::Bytes(values) => {
            let object = |value: &[u8]| PyBytes::new(py, value).into_any().unbind();
            let objects: Vec<Py<PyAny>> = values.into_iter().map(object).collect();
            PyArray1::from_vec(py, objects).into_any()
        }
        Values::Float(values) => values.into_pyarray(py).into_any(),
        Values::Int64(values) => values.into_pyarray(py).into_any(),
    };
    let splits = |splits: Vec<i64>| (!splits.is_empty()).then(|| splits.into_pyarray(py));
    (values, splits(column.rows), splits(column.frames))
}

fn told(failure: Failure) -> Told {
    let message = failure.defect.to_string();
    let (row, feature) = (failure.row, failure.feature);
    (row, feature, failure.frame, failure.offset, message)
}
