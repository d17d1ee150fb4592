//! Functions of strings on arrays of `bytes`.

pub mod chains;
pub mod tokens;
pub mod unicode;

use crate::python::texts::{array_of, copied, Rows, Strings, TextArray};
use crate::strings::chain::Change;
use crate::strings::fingerprint::fingerprint64;
use crate::strings::fingerprint::siphash;
use crate::strings::numbers::Number;
use crate::strings::numbers::{Format, Style};
use crate::strings::pattern::{Pattern, Rewrite};
use crate::strings::split::Splitter;
use crate::strings::substring::{substring, Unit};
use crate::strings::texts::Texts;
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Where in an array something is wrong.
pub type Bad = Option<usize>;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(change_strings, module)?)?;
    module.add_function(wrap_pyfunction!(substrings, module)?)?;
    module.add_function(wrap_pyfunction!(string_lengths, module)?)?;
    module.add_function(wrap_pyfunction!(split_strings, module)?)?;
    module.add_function(wrap_pyfunction!(join_strings, module)?)?;
    module.add_function(wrap_pyfunction!(join_rows, module)?)?;
    module.add_function(wrap_pyfunction!(numbers_of_strings, module)?)?;
    module.add_function(wrap_pyfunction!(print_floats, module)?)?;
    module.add_function(wrap_pyfunction!(print_integers, module)?)?;
    module.add_function(wrap_pyfunction!(hash_strings, module)?)?;
    module.add_class::<StringPattern>()
}

pub fn changed(
    py: Python<'_>,
    strings: &Bound<'_, PyAny>,
    change: impl Fn(&[u8], &mut Vec<u8>) + Send + Sync,
) -> PyResult<TextArray> {
    let strings = Strings::read(strings)?;
    let texts = py.detach(|| {
        let mut texts = Texts::default();
        for text in strings.views() {
            texts.push_with(|out| change(text, out));
        }
        texts
    });
    Ok(array_of(py, &texts))
}

fn measured<'py, T: Element + Send>(
    strings: &Bound<'py, PyAny>,
    measure: impl Fn(&[u8]) -> T + Send + Sync,
) -> PyResult<Bound<'py, PyArray1<T>>> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let values: Vec<T> = py.detach(|| strings.views().iter().map(|text| measure(text)).collect());
    Ok(values.into_pyarray(py))
}

pub fn unknown<T>(what: &str, name: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("no {what} {name:?}")))
}

#[pyfunction]
fn change_strings(py: Python<'_>, strings: &Bound<'_, PyAny>, how: &str) -> PyResult<TextArray> {
    let Some(change) = Change::named(how) else {
        return unknown("change of strings", how);
    };
    changed(py, strings, |text, out| change.append(text, out))
}

fn unit_of(name: &str) -> PyResult<Unit> {
    Unit::named(name).map_or_else(|| unknown("unit", name), Ok)
}

#[pyfunction]
fn substrings(
    py: Python<'_>,
    strings: &Bound<'_, PyAny>,
    starts: &Bound<'_, PyArray1<i64>>,
    lengths: &Bound<'_, PyArray1<i64>>,
    unit: &str,
) -> PyResult<(TextArray, Bad)> {
    let (strings, unit) = (Strings::read(strings)?, unit_of(unit)?);
    let (starts, lengths) = (copied(starts)?, copied(lengths)?);
    let (texts, bad) = py.detach(|| {
        let mut texts = Texts::default();
        let places = starts.iter().zip(&lengths);
        for (text, (&start, &length)) in strings.views().iter().zip(places) {
            match substring(text, start, length, unit) {
                Some(part) => texts.push(part),
                None => {
                    let bad = texts.len();
                    return (texts, Some(bad));
                }
            }
        }
        (texts, None)
    });
    Ok((array_of(py, &texts), bad))
}

#[pyfunction]
fn string_lengths<'py>(
    strings: &Bound<'py, PyAny>,
    unit: &str,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    let unit = unit_of(unit)?;
    measured(strings, |text| {
        i32::try_from(unit.length(text)).unwrap_or(i32::MAX)
    })
}

pub type Ragged<'py> = (TextArray, Bound<'py, PyArray1<i64>>);

#[pyfunction]
fn split_strings<'py>(
    py: Python<'py>,
    strings: &Bound<'py, PyAny>,
    separator: &[u8],
    most: i64,
) -> PyResult<Ragged<'py>> {
    let (strings, splitter) = (Strings::read(strings)?, Splitter::new(separator));
    let (texts, splits) = py.detach(|| {
        let (mut texts, mut splits) = (Texts::default(), vec![0]);
        for text in strings.views() {
            splitter.each(text, most, |part| texts.push(part));
            splits.push(texts.len() as i64);
        }
        (texts, splits)
    });
    Ok((array_of(py, &texts), splits.into_pyarray(py)))
}

#[pyfunction]
fn join_strings(
    py: Python<'_>,
    columns: Vec<Bound<'_, PyAny>>,
    separator: &[u8],
) -> PyResult<TextArray> {
    let columns: Vec<_> = columns.iter().map(Strings::read).collect::<PyResult<_>>()?;
    let count = columns
        .iter()
        .map(|column| column.views().len())
        .min()
        .unwrap_or(0);
    let texts = py.detach(|| {
        let mut texts = Texts::default();
        for row in 0..count {
            let parts = columns.iter().map(|column| column.views()[row]);
            texts.push_with(|out| join(parts, separator, out));
        }
        texts
    });
    Ok(array_of(py, &texts))
}

#[pyfunction]
fn join_rows(
    py: Python<'_>,
    strings: &Bound<'_, PyAny>,
    splits: &Bound<'_, PyArray1<i64>>,
    separator: &[u8],
) -> PyResult<TextArray> {
    let strings = Strings::read(strings)?;
    let rows = Rows::read(splits, strings.views().len())?;
    let texts = py.detach(|| {
        let mut texts = Texts::default();
        for row in rows.of(strings.views()) {
            texts.push_with(|out| join(row.iter().copied(), separator, out));
        }
        texts
    });
    Ok(array_of(py, &texts))
}

fn join<'a>(parts: impl Iterator<Item = &'a [u8]>, separator: &[u8], out: &mut Vec<u8>) {
    for (place, part) in parts.enumerate() {
        if place > 0 {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(part);
    }
}

#[pyfunction]
fn numbers_of_strings<'py>(
    strings: &Bound<'py, PyAny>,
    dtype: &str,
) -> PyResult<(Bound<'py, PyAny>, Bad)> {
    match dtype {
        "int32" => numbers::<i32>(strings),
        "int64" => numbers::<i64>(strings),
        "uint32" => numbers::<u32>(strings),
        "uint64" => numbers::<u64>(strings),
        "float32" => numbers::<f32>(strings),
        "float64" => numbers::<f64>(strings),
        _ => unknown("number type", dtype),
    }
}

fn numbers<'py, T: Number + Element + Send>(
    strings: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bad)> {
    let py = strings.py();
    let strings = Strings::read(strings)?;
    let (values, bad) = py.detach(|| {
        let mut values = Vec::with_capacity(strings.views().len());
        for text in strings.views() {
            match T::parse(text) {
                Some(number) => values.push(number),
                None => {
                    let bad = values.len();
                    return (values, Some(bad));
                }
            }
        }
        (values, None)
    });
    Ok((values.into_pyarray(py).into_any(), bad))
}

fn style_of(name: &str) -> PyResult<Style> {
    match name {
        "fixed" => Ok(Style::Fixed),
        "scientific" => Ok(Style::Scientific),
        "shortest" => Ok(Style::Shortest),
        _ => unknown("style of numbers", name),
    }
}

fn printed<T: Element + Copy + Send + Sync>(
    values: &Bound<'_, PyArray1<T>>,
    print: impl Fn(T, &mut Vec<u8>) + Send + Sync,
) -> PyResult<TextArray> {
    let py = values.py();
    let values = copied(values)?;
    let texts = py.detach(|| {
        let mut texts = Texts::default();
        values
            .iter()
            .for_each(|&value| texts.push_with(|out| print(value, out)));
        texts
    });
    Ok(array_of(py, &texts))
}

fn fill_of(fill: &[u8]) -> PyResult<Option<u8>> {
    match fill {
        [] => Ok(None),
        [fill @ (b' ' | b'+' | b'-' | b'0' | b'#')] => Ok(Some(*fill)),
        _ => unknown("fill", &String::from_utf8_lossy(fill)),
    }
}

#[pyfunction]
fn print_floats(
    values: &Bound<'_, PyArray1<f64>>,
    style: &str,
    fill: &[u8],
    width: i32,
    precision: i32,
) -> PyResult<TextArray> {
    let format = Format::float(style_of(style)?, fill_of(fill)?, width, precision);
    printed(values, move |value, out| format.append_float(value, out))
}

#[pyfunction]
fn print_integers(
    values: &Bound<'_, PyArray1<i64>>,
    signed: bool,
    fill: &[u8],
    width: i32,
) -> PyResult<TextArray> {
    let format = Format::integer(signed, fill_of(fill)?, width);
    printed(values, move |value, out| format.append_integer(value, out))
}

#[pyfunction]
#[pyo3(signature = (strings, buckets, key=None))]
fn hash_strings<'py>(
    strings: &Bound<'py, PyAny>,
    buckets: u64,
    key: Option<[u64; 2]>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    if buckets == 0 || i64::try_from(buckets).is_err() {
        let message = format!("there must be 1 to 2**63 - 1 buckets, not {buckets}");
        return Err(PyValueError::new_err(message));
    }
    match key {
        None => measured(strings, |text| (fingerprint64(text) % buckets) as i64),
        Some(key) => measured(strings, |text| (siphash(key, text) % buckets) as i64),
    }
}

/// A regular expression of RE2's syntax.
#[pyclass(frozen, module = "drumline._core")]
pub struct StringPattern(pub Arc<Pattern>);

#[pymethods]
impl StringPattern {
    #[new]
    fn new(pattern: &str) -> PyResult<Self> {
        let compiled = Pattern::new(pattern).map_err(PyValueError::new_err)?;
        Ok(Self(Arc::new(compiled)))
    }

    /// Checks what matches are to be replaced by.
    fn check(&self, rewrite: &[u8]) -> PyResult<()> {
        self.rewrite(rewrite).map(|_| ())
    }

    /// The strings with their matches, or the first of each only, replaced.
    fn replace(
        &self,
        py: Python<'_>,
        strings: &Bound<'_, PyAny>,
        rewrite: &[u8],
        all: bool,
    ) -> PyResult<TextArray> {
        let rewrite = self.rewrite(rewrite)?;
        changed(py, strings, |text, out| {
            self.0.replace(text, &rewrite, all, out)
        })
    }

    /// Whether strings match as a whole.
    fn matches<'py>(&self, strings: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<bool>>> {
        measured(strings, |text| self.0.matches(text))
    }
}

impl StringPattern {
    /// What matches are to be replaced by.
    pub fn rewrite(&self, rewrite: &[u8]) -> PyResult<Rewrite> {
        Rewrite::new(rewrite, self.0.groups()).map_err(PyValueError::new_err)
    }
}
