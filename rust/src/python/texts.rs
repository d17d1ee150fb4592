//! Strings between Python and the crate: numpy arrays of `bytes`.

use crate::strings::texts::{concat, padded, Texts};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub type TextArray = Py<PyArray1<Py<PyAny>>>;

/// The strings of an array, which live as long as this does.
pub struct Strings {
    views: Vec<&'static [u8]>,
    /// What the views look at.
    _owners: Vec<Py<PyAny>>,
}

impl Strings {
    /// The strings of an array of `bytes`.
    pub fn read(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array = array.cast::<PyArray1<Py<PyAny>>>().map_err(|_| {
            PyTypeError::new_err("strings must be a 1-dimensional numpy array of dtype object")
        })?;
        let py = array.py();
        let array = array.try_readonly()?;
        let items = array.as_array();
        let owners: Vec<_> = items.iter().map(|item| item.clone_ref(py)).collect();
        let view = |(place, item): (usize, &Py<PyAny>)| -> PyResult<&'static [u8]> {
            let Ok(bytes) = item.bind(py).cast::<PyBytes>() else {
                let kind = item.bind(py).get_type().name()?;
                let message = format!("item {place} of an array of strings is no bytes: a {kind}");
                return Err(PyTypeError::new_err(message));
            };
            let bytes = bytes.as_bytes();
            // SAFETY: `bytes` never change, and the reference in `_owners` keeps them; `views`
            // lends them out for no longer than that is held.
            Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
        };
        let views = owners
            .iter()
            .enumerate()
            .map(view)
            .collect::<PyResult<_>>()?;
        Ok(Self {
            views,
            _owners: owners,
        })
    }

    /// The strings.
    pub fn views(&self) -> &[&[u8]] {
        &self.views
    }
}

/// Strings as an array of `bytes`.
pub fn array_of(py: Python<'_>, texts: &Texts) -> TextArray {
    let bytes = |text: &[u8]| PyBytes::new(py, text).into_any().unbind();
    PyArray1::from_vec(py, texts.iter().map(bytes).collect()).unbind()
}

/// Where rows begin and end among so many values.
pub struct Rows(Vec<usize>);

impl Rows {
    /// Checks row splits: from 0 to `count`, not decreasing.
    pub fn read(splits: &Bound<'_, PyArray1<i64>>, count: usize) -> PyResult<Self> {
        let splits = splits.try_readonly()?;
        let edges: Option<Vec<usize>> = splits
            .as_array()
            .iter()
            .map(|&edge| usize::try_from(edge).ok())
            .collect();
        let fits = |edges: &Vec<usize>| {
            edges.first() == Some(&0)
                && edges.last() == Some(&count)
                && edges.windows(2).all(|pair| pair[0] <= pair[1])
        };
        edges
            .filter(fits)
            .map(Self)
            .ok_or_else(|| PyValueError::new_err(format!("row splits must rise from 0 to {count}")))
    }

    /// The rows of these values.
    pub fn of<'a, T>(&'a self, values: &'a [T]) -> impl ExactSizeIterator<Item = &'a [T]> {
        self.0.windows(2).map(|pair| &values[pair[0]..pair[1]])
    }
}

/// The values of a contiguous array, copied so that no other thread may change them.
pub fn copied<T: numpy::Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<T>> {
    let mut values = Vec::with_capacity(array.len());
    values.extend(array.try_readonly()?.as_array().iter().copied());
    Ok(values)
}

/// All strings concatenated, and where each begins.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn joined_bytes<'py>(
    strings: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>)> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let (values, edges) = py.detach(|| concat(strings.views()));
    Ok((values.into_pyarray(py), edges.into_pyarray(py)))
}

/// Strings cut, or filled up with zeros, to `width` bytes each.
#[pyfunction]
pub fn padded_bytes<'py>(
    strings: &Bound<'py, PyAny>,
    width: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let views = strings.views();
    let values = py.detach(|| padded(views, width)).ok_or_else(|| {
        let count = views.len();
        PyMemoryError::new_err(format!(
            "{count} strings of {width} bytes do not fit in memory"
        ))
    })?;
    Ok(values.into_pyarray(py))
}
