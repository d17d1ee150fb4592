//! `PackedBytes`: strings that stay in the memory they were read into.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::Arc;

/// Strings in one piece of memory.
#[pyclass(frozen, module = "drumline._core")]
pub struct PackedBytes {
    memory: Arc<Vec<u8>>,
    places: Vec<Range<usize>>,
}

/// Some of the strings: which, from where to where.
pub type Rows<'py> = (Bound<'py, PackedBytes>, usize, usize);

impl PackedBytes {
    /// The strings at these places, `start` bytes further on in the memory.
    pub fn new((memory, start): (Arc<Vec<u8>>, usize), mut places: Vec<Range<usize>>) -> Self {
        for place in &mut places {
            *place = place.start + start..place.end + start;
        }
        Self { memory, places }
    }

    fn strings(&self, start: usize, stop: usize) -> impl Iterator<Item = &[u8]> {
        let stop = stop.min(self.places.len());
        let places = self.places[start.min(stop)..stop].iter();
        places.map(|place| &self.memory[place.clone()])
    }
}

/// All strings of several pieces.
pub fn strings<'a>(parts: &'a [Rows<'_>]) -> Vec<&'a [u8]> {
    let of = |(packed, start, stop): &'a Rows<'_>| packed.get().strings(*start, *stop);
    parts.iter().flat_map(of).collect()
}

#[pymethods]
impl PackedBytes {
    fn __len__(&self) -> usize {
        self.places.len()
    }

    /// How many bytes the strings from `start` to `stop` have.
    fn nbytes(&self, start: usize, stop: usize) -> usize {
        self.strings(start, stop).map(<[u8]>::len).sum()
    }

    /// The strings from `start` to `stop` as `bytes`.
    fn objects<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> Bound<'py, PyArray1<Py<PyAny>>> {
        let object = |string| PyBytes::new(py, string).into_any().unbind();
        PyArray1::from_vec(py, self.strings(start, stop).map(object).collect())
    }
}
