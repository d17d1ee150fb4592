//! Whole files as `bytes`.

use crate::formats::whole_files;
use crate::python::texts::Strings;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The contents of local files before the first that cannot be read, and the error of that one.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn read_files<'py>(
    paths: &Bound<'py, PyAny>,
) -> PyResult<(
    Bound<'py, PyArray1<Py<PyAny>>>,
    Option<(Option<i32>, String)>,
)> {
    let py = paths.py();
    let paths = Strings::read(paths)?;
    let (contents, error) = py.detach(|| whole_files::read(paths.views()));
    let bytes = |content: Vec<u8>| PyBytes::new(py, &content).into_any().unbind();
    let contents = PyArray1::from_vec(py, contents.into_iter().map(bytes).collect());
    Ok((
        contents,
        error.map(|error| (error.raw_os_error(), error.to_string())),
    ))
}
