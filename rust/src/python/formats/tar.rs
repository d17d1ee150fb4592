//! `TarReader`: samples of tar archives, and the GIL released.

use crate::formats::tar::archive::Archive;
use crate::formats::tar::defect::Cause;
use crate::formats::tar::samples::{first_extensions, Failure, FailureCause, SampleSpec, Samples};
use crate::python::formats::source::{compression_of, opened, raised};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{BufReader, Read};
use std::sync::{Mutex, PoisonError};

type Column = Py<PyArray1<Py<PyAny>>>;

/// What was wrong, the byte and the sample where it was, the exception that the source raised, and
/// whether the archive cannot be read on.
type Told = (String, u64, u64, Option<Py<PyAny>>, bool);

/// Reads the samples of one archive.
#[pyclass(frozen, module = "drumline._core")]
pub struct TarReader(Mutex<Samples>);

#[pymethods]
impl TarReader {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        compression: &str,
        chunk: usize,
        offset: u64,
        number: u64,
        extensions: Vec<Vec<u8>>,
        defaults: Vec<Option<Vec<u8>>>,
        others: bool,
        most: u64,
    ) -> PyResult<Self> {
        if defaults.len() != extensions.len() {
            let message = "defaults must have an entry for each of the extensions";
            return Err(PyValueError::new_err(message));
        }
        let archive = archive(py, source, compression, chunk, offset)?;
        let wanted = SampleSpec {
            extensions,
            defaults,
            others,
            most,
        };
        Ok(Self(Mutex::new(Samples::new(archive, wanted, number))))
    }

    /// Up to `limit` further samples, no more after `nbytes` of them, and what came after.
    fn next(
        &self,
        py: Python<'_>,
        limit: usize,
        nbytes: usize,
    ) -> PyResult<(Vec<Column>, Option<Told>)> {
        py.detach(|| {
            // No thread waits for the lock with the GIL, so that it can be taken under the lock.
            let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut found, mut failure, mut held) = (Vec::new(), None, 0);
            while found.len() < limit && held < nbytes {
                match samples.next_sample() {
                    Some(Ok(sample)) => {
                        held += sample.values.iter().map(Vec::len).sum::<usize>();
                        found.push(sample);
                    }
                    Some(Err(failed)) => {
                        failure = Some(failed);
                        break;
                    }
                    None => break,
                }
            }
            let width = samples.width();
            Python::attach(|py| {
                let bytes = |value: &Vec<u8>| PyBytes::new(py, value).into_any().unbind();
                let keys = found.iter().map(|sample| bytes(&sample.key)).collect();
                let mut columns = vec![PyArray1::from_vec(py, keys).unbind()];
                for place in 0..width {
                    let values = found.iter().map(|sample| bytes(&sample.values[place]));
                    columns.push(PyArray1::from_vec(py, values.collect()).unbind());
                }
                Ok((columns, failure.map(|failure| told(py, failure))))
            })
        })
    }

    /// How many bytes of the (decompressed) archive, and samples, came before the next one.
    fn position(&self, py: Python<'_>) -> (u64, u64) {
        py.detach(|| {
            let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            samples.position()
        })
    }
}

/// The extensions of the first sample's members.
#[pyfunction]
pub fn tar_extensions<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    compression: &str,
    chunk: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let mut archive = archive(py, source, compression, chunk, 0)?;
    match py.detach(|| first_extensions(&mut archive)) {
        Ok(found) => Ok(found.iter().map(|name| PyBytes::new(py, name)).collect()),
        Err(Cause::Defect(defect)) => Err(PyValueError::new_err(defect.to_string())),
        Err(Cause::Io(error)) => {
            let message = error.to_string();
            Err(raised(error).unwrap_or_else(|| PyValueError::new_err(message)))
        }
    }
}

fn archive(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    compression: &str,
    chunk: usize,
    offset: u64,
) -> PyResult<Archive> {
    let input = opened(py, source, compression_of(compression)?, chunk, offset)?;
    let input: Box<dyn Read + Send> = Box::new(BufReader::with_capacity(chunk, input));
    Ok(Archive::new(input, offset))
}

fn told(py: Python<'_>, failure: Failure) -> Told {
    let (message, raised, ended) = match failure.cause {
        FailureCause::Sample(wrong) => (wrong.to_string(), None, false),
        FailureCause::Archive(Cause::Defect(defect)) => (defect.to_string(), None, true),
        FailureCause::Archive(Cause::Io(error)) => (error.to_string(), raised(error), true),
    };
    let raised = raised.map(|error| error.into_value(py).into_any());
    (message, failure.offset, failure.number, raised, ended)
}
