//! `RowSlots`, `ScalarRows` and `scatter_rows`: rows that come in order and leave in any.

use crate::python::tables::rows::integers;
use crate::python::{addresses, borrow_error, check_apart, contiguous};
use crate::tables::scatter_gather::scatter;
use crate::tables::slots::Slots;
use numpy::ndarray::Ix2;
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API};
use numpy::{
    IntoPyArray, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which places of a table rows are in that come in order and leave in any.
#[pyclass(frozen, module = "drumline._core")]
pub struct RowSlots(Mutex<Slots>);

#[pymethods]
impl RowSlots {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// How many places were ever used.
    #[getter]
    fn size(&self) -> usize {
        self.locked().size()
    }

    /// The places of `count` rows from `number` on.
    fn put<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        count: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let places = self.locked().put(number, count).ok_or_else(|| {
            let message = format!("no place for {count} rows from number {number} on");
            PyValueError::new_err(message)
        })?;
        Ok(places.into_pyarray(py))
    }

    /// The places of rows, which leave them.
    fn take<'py>(&self, numbers: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let wanted = integers(numbers, "numbers")?;
        let places = self.locked().take(wanted.iter().copied());
        match places {
            Ok(places) => Ok(places.into_pyarray(numbers.py())),
            Err(position) => Err(PyKeyError::new_err(wanted[position])),
        }
    }
}

impl RowSlots {
    fn locked(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Columns<'py> = Vec<Bound<'py, PyAny>>;

/// The values of one column, by place.
enum Table {
    Numbers {
        dtype: Py<PyArrayDescr>,
        width: usize,
        bytes: Vec<u8>,
    },
    Objects(Vec<Option<Py<PyAny>>>),
}

/// Rows of scalars at places of a table.
#[pyclass(frozen, module = "drumline._core")]
pub struct ScalarRows(Mutex<(usize, Vec<Table>)>);

#[pymethods]
impl ScalarRows {
    #[new]
    fn new(dtypes: Vec<Bound<'_, PyArrayDescr>>) -> PyResult<Self> {
        let table = |dtype: Bound<'_, PyArrayDescr>| {
            if dtype.kind() == b'O' {
                return Ok(Table::Objects(Vec::new()));
            }
            if dtype.has_object() || dtype.has_subarray() {
                let message = format!("a column of dtype {dtype} has no scalars of bytes");
                return Err(PyTypeError::new_err(message));
            }
            Ok(Table::Numbers {
                width: dtype.itemsize(),
                dtype: dtype.unbind(),
                bytes: Vec::new(),
            })
        };
        let tables = dtypes.into_iter().map(table).collect::<PyResult<_>>()?;
        Ok(Self(Mutex::new((0, tables))))
    }

    /// Makes room for `size` rows in all.
    fn grow(&self, size: usize) -> PyResult<()> {
        let mut held = self.locked();
        let (rows, tables) = &mut *held;
        if size <= *rows {
            return Ok(());
        }
        for table in tables.iter_mut() {
            let refused = match table {
                Table::Numbers { width, bytes, .. } => size
                    .checked_mul(*width)
                    .is_none_or(|all| bytes.try_reserve_exact(all - bytes.len()).is_err()),
                Table::Objects(objects) => objects.try_reserve_exact(size - objects.len()).is_err(),
            };
            if refused {
                let message = format!("no memory for {size} rows");
                return Err(PyMemoryError::new_err(message));
            }
        }
        for table in tables.iter_mut() {
            match table {
                Table::Numbers { width, bytes, .. } => bytes.resize(size * *width, 0),
                Table::Objects(objects) => objects.resize_with(size, || None),
            }
        }
        *rows = size;
        Ok(())
    }

    /// Sets the rows at `places`.
    fn put(
        &self,
        py: Python<'_>,
        places: &Bound<'_, PyAny>,
        columns: Vec<Bound<'_, PyUntypedArray>>,
    ) -> PyResult<()> {
        let places = integers(places, "places")?;
        let mut replaced = Vec::new();
        let mut held = self.locked();
        let (rows, tables) = &mut *held;
        let places = checked(places, *rows)?;
        if columns.len() != tables.len() {
            let message = format!("{} columns, not {}", columns.len(), tables.len());
            return Err(PyValueError::new_err(message));
        }
        for (number, (table, column)) in tables.iter().zip(&columns).enumerate() {
            if column.ndim() != 1 || column.len() != places.len() || !column.is_c_contiguous() {
                return Err(PyValueError::new_err(format!(
                    "column {number} has shape {:?}, {} rows need a contiguous one of as many",
                    column.shape(),
                    places.len(),
                )));
            }
            let (wanted, given) = match table {
                Table::Numbers { dtype, .. } => (dtype.bind(py).clone(), column.dtype()),
                Table::Objects(_) => (PyArrayDescr::object(py), column.dtype()),
            };
            if !given.is_equiv_to(&wanted) {
                let message = format!("column {number} is {given}, not {wanted}");
                return Err(PyTypeError::new_err(message));
            }
        }
        for (table, column) in tables.iter_mut().zip(&columns) {
            match table {
                Table::Numbers { width, bytes, .. } => {
                    // SAFETY: the array is contiguous and has this many bytes, which are read
                    // before anything else runs that could free them.
                    let from = unsafe {
                        let fields = npyffi::_PyArray_GET_ITEM_DATA(column.as_array_ptr());
                        std::slice::from_raw_parts((*fields).data.cast(), places.len() * *width)
                    };
                    set_rows(from, &places, bytes, *width);
                }
                Table::Objects(objects) => {
                    let column = column.cast::<PyArray1<Py<PyAny>>>()?.try_readonly()?;
                    for (&place, object) in places.iter().zip(column.as_array()) {
                        replaced.extend(objects[place].replace(object.clone_ref(py)));
                    }
                }
            }
        }
        // What objects do as they go may need this one.
        drop(held);
        drop(replaced);
        Ok(())
    }

    /// The rows at `places`, as read-only arrays; objects are held no longer.
    fn take<'py>(&self, py: Python<'py>, places: &Bound<'py, PyAny>) -> PyResult<Columns<'py>> {
        let places = integers(places, "places")?;
        let mut held = self.locked();
        let (rows, tables) = &mut *held;
        let places = checked(places, *rows)?;
        let column = |table: &mut Table| match table {
            Table::Numbers {
                dtype,
                width,
                bytes,
            } => gathered(dtype.bind(py), bytes, &places, *width),
            Table::Objects(objects) => {
                let taken = places.iter().map(|&place| objects[place].take());
                let taken = taken.map(|object| object.unwrap_or_else(|| py.None()));
                Ok(PyArray1::from_vec(py, taken.collect()).into_any())
            }
        };
        tables.iter_mut().map(column).collect()
    }

    /// Holds the objects at `places` no longer.
    fn forget(&self, places: &Bound<'_, PyAny>) -> PyResult<()> {
        let places = integers(places, "places")?;
        let mut held = self.locked();
        let (rows, tables) = &mut *held;
        let places = checked(places, *rows)?;
        let mut taken = Vec::new();
        for table in tables.iter_mut() {
            if let Table::Objects(objects) = table {
                taken.extend(places.iter().map(|&place| objects[place].take()));
            }
        }
        drop(held);
        drop(taken);
        Ok(())
    }
}

impl ScalarRows {
    fn locked(&self) -> MutexGuard<'_, (usize, Vec<Table>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn checked(places: Vec<i64>, rows: usize) -> PyResult<Vec<usize>> {
    let place = |(position, value): (usize, i64)| {
        let place = usize::try_from(value).ok().filter(|&place| place < rows);
        place.ok_or_else(|| {
            let message = format!("places[{position}] is {value}, but there are {rows} rows");
            PyIndexError::new_err(message)
        })
    };
    places.into_iter().enumerate().map(place).collect()
}

fn set_rows(from: &[u8], places: &[usize], to: &mut [u8], width: usize) {
    fn copy(from: &[u8], places: &[usize], to: &mut [u8], width: usize) {
        if width > 0 {
            for (row, &place) in from.chunks_exact(width).zip(places) {
                to[place * width..][..width].copy_from_slice(row);
            }
        }
    }
    match width {
        // A width known to the compiler makes each copy a single load and store.
        4 => copy_fixed::<4>(from.chunks_exact(4), places, to),
        8 => copy_fixed::<8>(from.chunks_exact(8), places, to),
        _ => copy(from, places, to, width),
    }
}

fn copy_fixed<'a, const WIDTH: usize>(
    from: impl Iterator<Item = &'a [u8]>,
    places: &[usize],
    to: &mut [u8],
) {
    for (row, &place) in from.zip(places) {
        to[place * WIDTH..][..WIDTH].copy_from_slice(row);
    }
}

/// The values at places, as a read-only array.
fn gathered<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    table: &[u8],
    places: &[usize],
    width: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let mut count = places.len() as npyffi::npy_intp;
    // SAFETY: one dimension is given, and the reference to the dtype that the call takes. The
    // array is new: no other thread reads its `count * width` bytes, all of which are written here.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            1,
            &raw mut count,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, made)?;
        let fields = npyffi::_PyArray_GET_ITEM_DATA(made.cast());
        let to = (*fields).data.cast::<u8>();
        match width {
            4 => gather::<4>(table, places, to),
            8 => gather::<8>(table, places, to),
            _ => {
                for (position, &place) in places.iter().enumerate() {
                    let row = &table[place * width..][..width];
                    std::ptr::copy_nonoverlapping(row.as_ptr(), to.add(position * width), width);
                }
            }
        }
        (*fields).flags &= !npyffi::NPY_ARRAY_WRITEABLE;
        Ok(array)
    }
}

/// # Safety
/// `to` has `WIDTH` writable bytes for each place.
unsafe fn gather<const WIDTH: usize>(table: &[u8], places: &[usize], to: *mut u8) {
    for (position, &place) in places.iter().enumerate() {
        let row = &table[place * WIDTH..][..WIDTH];
        // SAFETY: as promised.
        unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to.add(position * WIDTH), WIDTH) };
    }
}

/// Copy rows of bytes to the rows of `out` at `places`.
#[pyfunction]
pub fn scatter_rows(
    src: &Bound<'_, PyAny>,
    places: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let src = contiguous::<u8, Ix2>(src, "src", "2-dimensional uint8")?;
    let out = contiguous::<u8, Ix2>(out, "out", "2-dimensional uint8")?;
    let places = integers(places, "places")?;
    let width = out.shape()[1];
    if src.shape() != [places.len(), width] {
        return Err(PyValueError::new_err(format!(
            "src has shape {:?}; {} places of {width} bytes need as many rows of that",
            src.shape(),
            places.len(),
        )));
    }
    let read = src
        .try_readonly()
        .map_err(|error| borrow_error("src", error))?;
    let mut written = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    check_apart("src", addresses(&read), addresses(&written))?;
    let (from, to) = (read.as_slice()?, written.as_slice_mut()?);
    let done = src.py().detach(|| scatter(from, &places, to, width));
    done.map_err(|bad| {
        PyIndexError::new_err(format!(
            "places[{}] is {}, but out has {} rows",
            bad.position,
            bad.value,
            out.shape()[0]
        ))
    })
}
