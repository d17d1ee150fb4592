//! The bytes of a file that Python opened.

use crate::formats::records::inflate::inflated;
use crate::formats::records::reader::skip;
use crate::formats::records::Compression;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::FromRawFd;
use std::sync::{Mutex, PoisonError};

/// The decompressed bytes of a descriptor or of an object with `read(size)`, from `offset` on.
pub fn opened(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    compression: Compression,
    chunk: usize,
    offset: u64,
) -> PyResult<Box<dyn Read + Send>> {
    let mut input: Box<dyn Read + Send> = match source.extract::<i32>() {
        Ok(descriptor) => {
            let mut file = duplicate(descriptor)?;
            if compression == Compression::None {
                file.seek(SeekFrom::Start(offset))?;
            }
            inflated(file, compression, chunk)
        }
        Err(_) => inflated(PythonSource(source.clone().unbind()), compression, chunk),
    };
    if compression != Compression::None {
        py.detach(|| skip(&mut input, offset))?;
    }
    Ok(input)
}

/// Reads the bytes of a file in order.
#[pyclass(frozen, module = "drumline._core")]
pub struct ByteReader(Mutex<Box<dyn Read + Send>>);

#[pymethods]
impl ByteReader {
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        compression: &str,
        chunk: usize,
    ) -> PyResult<Self> {
        let input = opened(py, source, compression_of(compression)?, chunk, 0)?;
        Ok(Self(Mutex::new(input)))
    }

    /// The next `size` bytes; fewer at the end.
    fn read<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::with_capacity(size.min(1 << 20));
        let read = py.detach(|| {
            // No thread waits for the lock with the GIL, so that it can be taken under the lock.
            let mut input = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (&mut *input).take(size as u64).read_to_end(&mut bytes)
        });
        match read {
            Ok(_) => Ok(PyBytes::new(py, &bytes)),
            Err(error) => {
                let message = error.to_string();
                Err(raised(error).unwrap_or_else(|| PyValueError::new_err(message)))
            }
        }
    }
}

/// The compression of this name.
pub fn compression_of(name: &str) -> PyResult<Compression> {
    Compression::named(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "compression_type must be \"\", \"GZIP\" or \"ZLIB\", got {name:?}"
        ))
    })
}

/// The exception of an error that is no matter of the file's content.
pub fn raised(error: io::Error) -> Option<PyErr> {
    if let Some(number) = error.raw_os_error() {
        return Some(PyOSError::new_err((number, error.to_string())));
    }
    match error.kind() {
        io::ErrorKind::InvalidData => None,
        _ => Some(error.into()),
    }
}

/// A Python object with `read(size)`, which returns bytes, none at the end.
struct PythonSource(Py<PyAny>);

impl Read for PythonSource {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let result = self.0.bind(py).call_method1("read", (to.len(),))?;
            let bytes = result.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
            let to = to.get_mut(..bytes.len()).ok_or_else(|| {
                PyValueError::new_err("read(size) returned more bytes than asked for")
            })?;
            to.copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }
}

fn duplicate(descriptor: i32) -> PyResult<File> {
    // SAFETY: the call takes any number, and what it returns is open and has no other owner.
    unsafe {
        match libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) {
            -1 => Err(io::Error::last_os_error().into()),
            own => Ok(File::from_raw_fd(own)),
        }
    }
}
