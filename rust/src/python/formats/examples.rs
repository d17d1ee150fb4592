//! `ExampleParser`: objects to slices and back, and the GIL released in between.

use crate::formats::examples::column::{Column, Values};
use crate::formats::examples::defect::Failure;
use crate::formats::examples::parse::{parse_into, FeatureMap};
use crate::formats::examples::schema::{Default, Feature, FeatureShape, Kind, Schema};
use crate::formats::examples::target::{Numbers, Target};
use crate::python::formats::messages::kind_of;
use crate::python::packed::{self, strings};
use crate::python::texts::Strings;
use crate::python::{borrow_error, contiguous};
use numpy::ndarray::Ix1;
use numpy::{
    Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadwriteArray1, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A feature as Python describes it: key, kind, shape, count, default.
type FeatureArguments<'py> = (Vec<u8>, String, String, usize, Option<Bound<'py, PyAny>>);

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
    maps: Vec<FeatureMap>,
}

#[pymethods]
impl ExampleParser {
    #[new]
    fn new(maps: Vec<(u64, Vec<FeatureArguments<'_>>)>) -> PyResult<Self> {
        let map = |(field, features): (u64, Vec<FeatureArguments>)| {
            let features = features.into_iter().map(feature).collect::<PyResult<_>>();
            Ok(FeatureMap {
                field,
                schema: Schema::new(features?),
            })
        };
        let maps = maps.into_iter().map(map).collect::<PyResult<_>>()?;
        Ok(Self { maps })
    }

    /// The columns of the records before the first that failed, and why it did.
    fn parse<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyAny>,
        out: Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<(Vec<Parsed<'py>>, Option<Told>)> {
        let records = Strings::read(records)?;
        self.parsed(py, records.views(), out)
    }

    /// The same of records that were not made objects.
    fn parse_packed<'py>(
        &self,
        py: Python<'py>,
        records: Vec<packed::Rows<'py>>,
        out: Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<(Vec<Parsed<'py>>, Option<Told>)> {
        self.parsed(py, &strings(&records), out)
    }
}

impl ExampleParser {
    fn parsed<'py>(
        &self,
        py: Python<'py>,
        records: &[&[u8]],
        out: Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<(Vec<Parsed<'py>>, Option<Told>)> {
        let features = self.maps.iter().flat_map(|map| map.schema.features());
        let features: Vec<&Feature> = features.collect();
        if features.len() != out.len() {
            let message = format!("{} arrays for {} features", out.len(), features.len());
            return Err(PyValueError::new_err(message));
        }
        let pairs = features.iter().zip(&out);
        let borrowed = pairs.map(|(feature, out)| Borrowed::of(feature, out, records.len()));
        let mut borrowed = borrowed.collect::<PyResult<Vec<_>>>()?;
        let targets: PyResult<_> = borrowed.iter_mut().map(Borrowed::target).collect();
        let targets = targets?;
        let (columns, failure) = py.detach(|| parse_into(&self.maps, records, targets));
        let columns = columns.into_iter().zip(out).map(|(column, out)| {
            let (values, rows, frames) = arrays(py, column);
            (out.unwrap_or(values), rows, frames)
        });
        Ok((columns.collect(), failure.map(told)))
    }
}

/// An array that no other code writes meanwhile, for a feature whose count is fixed.
enum Borrowed<'py> {
    Float(PyReadwriteArray1<'py, f32>, usize),
    Int64(PyReadwriteArray1<'py, i64>, usize),
    Nothing,
}

impl<'py> Borrowed<'py> {
    fn of(feature: &Feature, out: &Option<Bound<'py, PyAny>>, records: usize) -> PyResult<Self> {
        let (FeatureShape::Fixed { count, .. }, Some(out)) = (&feature.shape, out) else {
            return Ok(Self::Nothing);
        };
        let size = records.checked_mul(*count);
        match feature.kind {
            Kind::Float => Ok(Self::Float(writable(out, size)?, *count)),
            Kind::Int64 => Ok(Self::Int64(writable(out, size)?, *count)),
            Kind::Bytes => Ok(Self::Nothing),
        }
    }

    fn target(&mut self) -> PyResult<Option<Target<'_>>> {
        let (numbers, count) = match self {
            Self::Float(array, count) => (Numbers::Float(array.as_slice_mut()?), *count),
            Self::Int64(array, count) => (Numbers::Int64(array.as_slice_mut()?), *count),
            Self::Nothing => return Ok(None),
        };
        Ok(Some(Target { numbers, count }))
    }
}

/// An array of `size` numbers, to be written.
fn writable<'py, T: Element>(
    out: &Bound<'py, PyAny>,
    size: Option<usize>,
) -> PyResult<PyReadwriteArray1<'py, T>> {
    let array = contiguous::<T, Ix1>(out, "out", "1-dimensional")?;
    if Some(array.len()) != size {
        let found = array.len();
        let message = format!("out has {found} numbers, which are not those of the records");
        return Err(PyValueError::new_err(message));
    }
    let borrowed = array.try_readwrite();
    borrowed.map_err(|error| borrow_error("out", error))
}

fn feature(wanted: FeatureArguments<'_>) -> PyResult<Feature> {
    let (key, kind, shape, count, default) = wanted;
    let kind = kind_of(&kind)?;
    let default = default.map(|value| match kind {
        Kind::Bytes => value.extract().map(Default::Bytes),
        Kind::Float => value.extract().map(Default::Float),
        Kind::Int64 => value.extract().map(Default::Int64),
    });
    let shape = match shape.as_str() {
        "fixed" => FeatureShape::Fixed {
            count,
            default: default.transpose()?,
        },
        "varying" => FeatureShape::Varying { of: count },
        "frames" | "optional frames" => FeatureShape::Frames {
            count: Some(count),
            required: shape == "frames",
        },
        "varying frames" => FeatureShape::Frames {
            count: None,
            required: false,
        },
        _ => {
            return Err(PyValueError::new_err(format!(
                "no shape of values: {shape}"
            )))
        }
    };
    Ok(Feature { key, kind, shape })
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
