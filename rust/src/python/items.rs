//! `Items`: an iterator over what another one has buffered, which asks for more when that ends.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};
use std::sync::{Mutex, PoisonError};

/// Gives the items of `_at_hand`, one a call, without Python; then what `_further()` of the subclass
/// returns or raises.
#[pyclass(subclass, frozen, module = "drumline._core")]
pub struct Items(Mutex<Option<Py<PyIterator>>>);

impl Items {
    fn held(&self, py: Python<'_>) -> Option<Py<PyIterator>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|items| items.clone_ref(py))
    }
}

#[pymethods]
impl Items {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        Self(Mutex::new(None))
    }

    #[getter(_at_hand)]
    fn at_hand(&self, py: Python<'_>) -> Option<Py<PyIterator>> {
        self.held(py)
    }

    #[setter(_at_hand)]
    fn set_at_hand(&self, items: &Bound<'_, PyIterator>) {
        let items = Some(items.clone().unbind());
        let before = {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, items)
        };
        // What is dropped may run Python, which may come back here.
        drop(before);
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let held = slf.get().held(slf.py());
        match held.and_then(|items| items.into_bound(slf.py()).next()) {
            Some(item) => item,
            None => slf.call_method0("_further"),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock().as_deref() {
            Ok(Some(items)) => visit.call(items),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut held) = self.0.try_lock() {
            let before = held.take();
            drop(held);
            drop(before);
        }
    }
}
