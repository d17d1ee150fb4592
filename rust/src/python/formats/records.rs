//! `RecordReader` and `RecordEncoder`: sources that Python opens, and the GIL released.

use crate::formats::records::defect::{Cause, Failure};
use crate::formats::records::encoder::Encoder;
use crate::formats::records::format::masked_crc;
use crate::formats::records::format::Format;
use crate::formats::records::reader::Reader;
use crate::python::formats::source::{compression_of, opened, raised};
use crate::python::packed::PackedBytes;
use numpy::PyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::sync::{Mutex, PoisonError};

/// What was wrong, the byte and the record where it was, and the exception that the source raised.
type Told = (String, u64, u64, Option<Py<PyAny>>);

type Column = Py<PyArray1<Py<PyAny>>>;

/// Reads the records of one file.
#[pyclass(frozen, module = "drumline._core")]
pub struct RecordReader(Mutex<Reader>);

#[pymethods]
impl RecordReader {
    #[new]
    #[pyo3(signature = (source, format, compression, chunk, offset=0, number=0, sizes=(0, 0, 0)))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        format: &str,
        compression: &str,
        chunk: usize,
        offset: u64,
        number: u64,
        sizes: (usize, usize, usize),
    ) -> PyResult<Self> {
        let (format, compression) = (format_of(format, sizes)?, compression_of(compression)?);
        let input = opened(py, source, compression, chunk, offset)?;
        let reader = Reader::new(input, format, chunk, offset, number);
        Ok(Self(Mutex::new(reader)))
    }

    /// Up to `limit` further records, and what went wrong after them.
    fn next(&self, py: Python<'_>, limit: usize) -> PyResult<(Column, Option<Told>)> {
        py.detach(|| {
            // No thread waits for the lock with the GIL, so that it can be taken under the lock.
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let records = reader.next(limit, 0);
            Python::attach(|py| {
                let bytes = |place| PyBytes::new(py, &reader.record(place)).into_any().unbind();
                let column = PyArray1::from_vec(py, records.places.iter().map(bytes).collect());
                let told = records.failure.map(|failure| told(py, failure));
                Ok((column.unbind(), told))
            })
        })
    }

    /// Up to `limit` further records, no more than `nbytes` bytes of them being waited for, in the
    /// memory they were read into, and what went wrong after them.
    fn packed(
        &self,
        py: Python<'_>,
        limit: usize,
        nbytes: usize,
    ) -> PyResult<(PackedBytes, Option<Told>)> {
        py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let records = reader.next(limit, nbytes);
            let packed = PackedBytes::new(reader.shared(), records.places);
            let told = records
                .failure
                .map(|failure| Python::attach(|py| told(py, failure)));
            Ok((packed, told))
        })
    }

    /// How many bytes of the (decompressed) file, and records, came before the next record.
    fn position(&self, py: Python<'_>) -> (u64, u64) {
        py.detach(|| {
            let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            reader.position()
        })
    }
}

/// TensorFlow's masked CRC32C, which is Snappy's as well.
#[pyfunction]
pub fn masked_checksum(content: &[u8]) -> u32 {
    masked_crc(content)
}

/// Makes the bytes of a TFRecord file.
#[pyclass(frozen, module = "drumline._core")]
pub struct RecordEncoder(Mutex<Encoder>);

#[pymethods]
impl RecordEncoder {
    #[new]
    fn new(compression: &str, level: u32) -> PyResult<Self> {
        if level > 9 {
            let message = format!("the compression level is {level}; it must be 0 to 9");
            return Err(PyValueError::new_err(message));
        }
        let encoder = Encoder::new(compression_of(compression)?, level);
        Ok(Self(Mutex::new(encoder)))
    }

    /// Adds a record; returns how many bytes wait to be written.
    fn add(&self, py: Python<'_>, record: &[u8]) -> PyResult<usize> {
        self.with(py, |encoder| encoder.add(record))
    }

    /// What is to be written by now; all that was added, if `flush`.
    fn take<'py>(&self, py: Python<'py>, flush: bool) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |encoder| {
            if flush {
                encoder.flush()?;
            }
            Ok(encoder.take())
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Ends the file and returns its last bytes.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |encoder| {
            encoder.finish()?;
            Ok(encoder.take())
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl RecordEncoder {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut Encoder) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let locked = || action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(py.detach(locked)?)
    }
}

fn format_of(name: &str, (record, header, footer): (usize, usize, usize)) -> PyResult<Format> {
    match name {
        "tfrecord" => Ok(Format::TfRecord),
        "lines" => Ok(Format::Lines),
        "fixed" if record > 0 => Ok(Format::Fixed {
            record,
            header,
            footer,
        }),
        _ => Err(PyTypeError::new_err(format!(
            "no format of files: {name:?}"
        ))),
    }
}

fn told(py: Python<'_>, failure: Failure) -> Told {
    let at = (failure.offset, failure.number);
    let (message, raised) = match failure.cause {
        Cause::Defect(defect) => (defect.to_string(), None),
        Cause::Io(error) => (error.to_string(), raised(error)),
    };
    let raised = raised.map(|error| error.into_value(py).into_any());
    (message, at.0, at.1, raised)
}
