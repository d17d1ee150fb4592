//! Columns of images that Python gives: one array, or one for each row.

use numpy::{Element, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// One image in memory that Python holds.
#[derive(Clone, Copy)]
pub struct Pixels {
    start: *const u8,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    /// Bytes of a value.
    pub size: usize,
}

// SAFETY: `Images` keeps what the pointer points at, and nothing writes there.
unsafe impl Send for Pixels {}
unsafe impl Sync for Pixels {}

impl Pixels {
    /// The values, if they are of type `T`.
    ///
    /// # Safety
    /// The `Images` that it is of are there, and no thread writes to them.
    pub unsafe fn values<T>(&self) -> &[T] {
        let count = self.height * self.width * self.channels;
        std::slice::from_raw_parts(self.start.cast(), count)
    }

    /// # Safety
    /// As `values`.
    pub unsafe fn bytes(&self) -> &[u8] {
        let count = self.height * self.width * self.channels * self.size;
        std::slice::from_raw_parts(self.start, count)
    }
}

/// The images of a column, and what keeps them in memory.
pub struct Images<'py> {
    pub rows: Vec<Pixels>,
    /// The kind of values, as numpy writes it: `u1`, `f4`.
    pub kind: String,
    _held: Vec<Bound<'py, PyUntypedArray>>,
}

impl<'py> Images<'py> {
    /// Of an array (n, height, width, channels), or a list of arrays (height, width, channels).
    pub fn new(column: &Bound<'py, PyAny>) -> PyResult<Self> {
        let mut images = Self {
            rows: Vec::new(),
            kind: String::new(),
            _held: Vec::new(),
        };
        if let Ok(array) = column.cast::<PyUntypedArray>() {
            images.add(array, true)?;
            return Ok(images);
        }
        for item in column.try_iter()? {
            let item = item?;
            let array = item.cast::<PyUntypedArray>().map_err(|_| {
                PyTypeError::new_err("images must be an array, or a list of arrays")
            })?;
            images.add(array, false)?;
        }
        Ok(images)
    }

    fn add(&mut self, array: &Bound<'py, PyUntypedArray>, many: bool) -> PyResult<()> {
        let kind = kind_of(array);
        if self.kind.is_empty() {
            self.kind.clone_from(&kind);
        }
        let shape = array.shape();
        let dimensions = if many { 4 } else { 3 };
        if shape.len() != dimensions || kind != self.kind || !array.is_c_contiguous() {
            return Err(PyValueError::new_err(format!(
                "images must be C-contiguous, of one dtype and of {dimensions} dimensions; got \
                 shape {shape:?}"
            )));
        }
        let size = array.dtype().itemsize();
        let [.., height, width, channels] = *shape else {
            return Ok(());
        };
        // SAFETY: numpy's own field; the array is kept.
        let start: *const u8 = unsafe { (*array.as_array_ptr()).fields.data.cast() };
        if start as usize % size != 0 {
            return Err(PyValueError::new_err("images must be aligned"));
        }
        let count = if many { shape[0] } else { 1 };
        for row in 0..count {
            self.rows.push(Pixels {
                start: start.wrapping_add(row * height * width * channels * size),
                height,
                width,
                channels,
                size,
            });
        }
        self._held.push(array.clone());
        Ok(())
    }

    /// Whether values are of type `T`.
    pub fn are<T: Element>(&self, py: Python<'_>) -> bool {
        let dtype = T::get_dtype(py);
        self.kind == format!("{}{}", dtype.kind() as char, dtype.itemsize())
    }
}

fn kind_of(array: &Bound<'_, PyUntypedArray>) -> String {
    let dtype = array.dtype();
    format!("{}{}", dtype.kind() as char, dtype.itemsize())
}
