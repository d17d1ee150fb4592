//! `CsvReader`: files of comma-separated values as columns, and records that are strings.

use crate::formats::csv::columns::{empty, Column};
use crate::formats::csv::layout::{Chosen, Field, Layout};
use crate::formats::csv::problem::Defect;
use crate::formats::csv::reader::{Position, ReadError, Reader};
use crate::formats::csv::single;
use crate::formats::records::defect::Cause;
use crate::python::formats::source::{compression_of, opened, raised};
use crate::python::texts::{array_of, Strings};
use numpy::IntoPyArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CsvLayout>()?;
    module.add_class::<CsvReader>()
}

/// How records are written and what is read of them.
#[pyclass(frozen, module = "drumline._core")]
pub struct CsvLayout(Layout);

#[pymethods]
impl CsvLayout {
    #[new]
    fn new(
        fields: Vec<(String, Option<Bound<'_, PyAny>>)>,
        delimiter: u8,
        quotes: bool,
        missing: Vec<u8>,
        only: Option<Vec<usize>>,
        without: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let chosen = match (only, without) {
            (None, None) => Chosen::All,
            (Some(only), None) => Chosen::Only(ascending(only)?),
            (None, Some(without)) => Chosen::Without(ascending(without)?),
            _ => {
                let message = "columns are chosen or left out, not both";
                return Err(PyValueError::new_err(message));
            }
        };
        let fields = fields.iter().map(field_of).collect::<PyResult<_>>()?;
        Ok(Self(Layout {
            delimiter,
            quotes,
            missing,
            fields,
            chosen,
        }))
    }

    /// The columns of records, one a string; and which string is wrong, why, and in which column.
    fn decode<'py>(&self, strings: &Bound<'py, PyAny>) -> PyResult<(Columns<'py>, WrongRecord)> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let (columns, wrong) = py.detach(|| {
            let mut columns = empty(&self.0);
            let mut places = Vec::new();
            for (row, record) in strings.views().iter().enumerate() {
                let read = single::read(record, &self.0, &mut places, &mut columns, row);
                if let Err(Defect { problem, column }) = read {
                    return (columns, Some((row, problem.to_string(), column)));
                }
            }
            (columns, None)
        });
        Ok((arrays(py, columns), wrong))
    }
}

type Columns<'py> = Vec<Bound<'py, PyAny>>;
type WrongRecord = Option<(usize, String, Option<usize>)>;

fn ascending(columns: Vec<usize>) -> PyResult<Vec<usize>> {
    if columns.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(columns);
    }
    let message = format!("columns must be ascending, got {columns:?}");
    Err(PyValueError::new_err(message))
}

fn field_of((dtype, default): &(String, Option<Bound<'_, PyAny>>)) -> PyResult<Field> {
    fn given<'a, T: FromPyObject<'a, 'a>>(
        default: &'a Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<T>>
    where
        PyErr: From<T::Error>,
    {
        Ok(default
            .as_ref()
            .map(|value| value.extract::<T>())
            .transpose()?)
    }
    match dtype.as_str() {
        "int32" => given(default).map(Field::Int32),
        "int64" => given(default).map(Field::Int64),
        "float32" => given(default).map(Field::Float32),
        "float64" => given(default).map(Field::Float64),
        "string" => given(default).map(Field::Text),
        _ => Err(PyTypeError::new_err(format!(
            "no type of columns: {dtype:?}"
        ))),
    }
}

fn arrays(py: Python<'_>, columns: Vec<Column>) -> Columns<'_> {
    let array = |column| match column {
        Column::Int32(values) => values.into_pyarray(py).into_any(),
        Column::Int64(values) => values.into_pyarray(py).into_any(),
        Column::Float32(values) => values.into_pyarray(py).into_any(),
        Column::Float64(values) => values.into_pyarray(py).into_any(),
        Column::Text(values) => array_of(py, &values).into_bound(py).into_any(),
    };
    columns.into_iter().map(array).collect()
}

/// Bytes, records and lines of the file before a place.
type Before = (u64, u64, u64);

/// What was wrong; the column it is in, if it is in one; what is before the record; whether others
/// may follow; and the exception that the source raised.
type Told = (String, Option<usize>, Before, bool, Option<Py<PyAny>>);

fn before(position: Position) -> Before {
    (position.offset, position.number, position.line)
}

/// Reads the records of one file.
#[pyclass(frozen, module = "drumline._core")]
pub struct CsvReader(Mutex<Reader>);

#[pymethods]
impl CsvReader {
    #[new]
    fn new(
        source: &Bound<'_, PyAny>,
        layout: &CsvLayout,
        header: bool,
        compression: &str,
        chunk: usize,
        before: Before,
    ) -> PyResult<Self> {
        let (offset, number, line) = before;
        let compression = compression_of(compression)?;
        let input = opened(source.py(), source, compression, chunk, offset)?;
        let position = Position {
            offset,
            number,
            line,
        };
        let reader = Reader::new(input, layout.0.clone(), header, chunk, position);
        Ok(Self(Mutex::new(reader)))
    }

    /// Columns of up to `limit` further records, how many there are, and what is wrong with the
    /// record after them.
    fn next<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
    ) -> PyResult<(Columns<'py>, usize, Option<Told>)> {
        let rows = py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            reader.next(limit)
        });
        let failure = rows.failure.map(|(trouble, position)| match trouble {
            ReadError::Record(Defect { problem, column }) => {
                (problem.to_string(), column, before(position), true, None)
            }
            ReadError::File(cause) => {
                let (message, raised) = told(py, cause);
                (message, None, before(position), false, raised)
            }
        });
        Ok((arrays(py, rows.columns), rows.count, failure))
    }

    /// What is before the next record.
    fn position(&self, py: Python<'_>) -> Before {
        py.detach(|| {
            let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            before(reader.position())
        })
    }
}

fn told(py: Python<'_>, cause: Cause) -> (String, Option<Py<PyAny>>) {
    match cause {
        Cause::Defect(defect) => (defect.to_string(), None),
        Cause::Io(error) => {
            let message = error.to_string();
            let raised = raised(error).map(|error| error.into_value(py).into_any());
            (message, raised)
        }
    }
}
