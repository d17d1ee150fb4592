//! `RowArithmetic`: argument checks, and the GIL released.

use crate::images::arithmetic::Step;
use crate::images::elementwise::{Layout, Number, Program};
use crate::python::tables::rows::Pointer;
use crate::python::{addresses, borrow_error, check_apart, contiguous};
use numpy::ndarray::Ix2;
use numpy::{PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// They are computed in less time than it may take to get the GIL back.
const FEW_BYTES: usize = 64 << 10;

enum Kind {
    U8,
    I8,
    U16,
    I16,
    I32,
    F32,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "uint8" => Self::U8,
            "int8" => Self::I8,
            "uint16" => Self::U16,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "float32" => Self::F32,
            _ => return None,
        })
    }

    fn nbytes(&self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
        }
    }
}

/// A result's numbers from a row's: moved, converted to float32, and computed with constants.
#[pyclass(frozen, module = "drumline._core")]
pub struct RowArithmetic {
    kind: Kind,
    program: Program,
}

#[pymethods]
impl RowArithmetic {
    #[new]
    fn new(
        kind: &str,
        row: usize,
        offset: usize,
        sizes: Vec<usize>,
        strides: Vec<isize>,
        steps: Vec<(String, Vec<f32>, Vec<f32>)>,
        period: usize,
    ) -> PyResult<Self> {
        let Some(kind) = Kind::named(kind) else {
            return Err(PyValueError::new_err(format!("kind is {kind:?}")));
        };
        let Some(layout) = Layout::new(row, offset, &sizes, &strides) else {
            return Err(PyValueError::new_err(format!(
                "sizes {sizes:?} with strides {strides:?} from {offset} leave a row of {row}"
            )));
        };
        if period == 0 || layout.size() % period != 0 {
            return Err(PyValueError::new_err(format!(
                "period is {period}; it must divide {}",
                layout.size()
            )));
        }
        let step = |(name, first, second): &(String, Vec<f32>, Vec<f32>)| {
            Step::named(name, [first, second], period)
                .ok_or_else(|| PyValueError::new_err(format!("step {name:?} has wrong constants")))
        };
        let steps = steps.iter().map(step).collect::<PyResult<_>>()?;
        let program = Program::new(layout, steps);
        Ok(Self { kind, program })
    }

    /// Compute the rows of `out` from those of `source`.
    fn run(&self, source: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = contiguous::<u8, Ix2>(source, "source", "2-dimensional uint8")?;
        let out = contiguous::<f32, Ix2>(out, "out", "2-dimensional float32")?;
        let (layout, nbytes) = (self.program.layout(), self.kind.nbytes());
        let (from, to) = (source.shape(), out.shape());
        if from[0] != to[0] || from[1] != layout.row() * nbytes || to[1] != layout.size() {
            return Err(PyValueError::new_err(format!(
                "source has shape {from:?} and out {to:?}; rows must be of {} and {}",
                layout.row() * nbytes,
                layout.size()
            )));
        }
        if source.data() as usize % nbytes != 0 {
            return Err(PyValueError::new_err("source must be aligned"));
        }
        let read = source
            .try_readonly()
            .map_err(|error| borrow_error("source", error))?;
        let written = out
            .try_readwrite()
            .map_err(|error| borrow_error("out", error))?;
        check_apart("source", addresses(&read), addresses(&written))?;
        let (count, size) = (read.len() / nbytes, written.len());
        let (from, to) = (Pointer(read.data()), Pointer(written.data().cast()));
        // SAFETY: the borrows outlive the call, lengths and alignment were looked at, and numbers
        // of all kinds may have any bits.
        let compute = || unsafe {
            match self.kind {
                Kind::U8 => self.compute::<u8>(from, count, to, size),
                Kind::I8 => self.compute::<i8>(from, count, to, size),
                Kind::U16 => self.compute::<u16>(from, count, to, size),
                Kind::I16 => self.compute::<i16>(from, count, to, size),
                Kind::I32 => self.compute::<i32>(from, count, to, size),
                Kind::F32 => self.compute::<f32>(from, count, to, size),
            }
        };
        if size * size_of::<f32>() < FEW_BYTES {
            compute();
        } else {
            source.py().detach(compute);
        }
        Ok(())
    }
}

impl RowArithmetic {
    /// # Safety
    /// `from` points to `count` numbers and `to` to `size`, which no other thread writes.
    unsafe fn compute<S: Number>(&self, from: Pointer, count: usize, to: Pointer, size: usize) {
        let rows = unsafe { from_raw_parts(from.get().cast::<S>(), count) };
        let out = unsafe { from_raw_parts_mut(to.get().cast::<f32>(), size) };
        self.program.run(rows, out);
    }
}
