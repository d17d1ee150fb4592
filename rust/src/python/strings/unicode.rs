//! Text in the encodings of Unicode, as arrays of `bytes` and of character numbers.

use crate::python::strings::{unknown, Bad, Ragged};
use crate::python::texts::{array_of, copied, Rows, Strings, TextArray};
use crate::strings::ngrams::Ngrams;
use crate::strings::texts::Texts;
use crate::strings::unicode::{write, Encoding, Errors, Policy};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(unicode_decode, module)?)?;
    module.add_function(wrap_pyfunction!(unicode_split, module)?)?;
    module.add_function(wrap_pyfunction!(unicode_transcode, module)?)?;
    module.add_function(wrap_pyfunction!(unicode_encode, module)?)?;
    module.add_function(wrap_pyfunction!(string_ngrams, module)?)
}

/// What to do with errors, the character for them, and whether it replaces control characters.
type Given<'a> = (&'a str, char, bool);

fn policy_of((errors, replacement, controls): Given<'_>) -> PyResult<Policy> {
    let Some(errors) = Errors::named(errors) else {
        return unknown("treatment of errors", errors);
    };
    Ok(Policy {
        errors,
        replacement,
        controls,
    })
}

fn encoding_of(name: &str) -> PyResult<Encoding> {
    Encoding::named(name).map_or_else(|| unknown("encoding", name), Ok)
}

/// What is wrong: in which string, and at which of its bytes.
type BadByte = Option<(usize, usize)>;

type Numbers<'py> = (
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
);

#[pyfunction]
fn unicode_decode<'py>(
    py: Python<'py>,
    strings: &Bound<'py, PyAny>,
    encoding: &str,
    given: Given<'_>,
) -> PyResult<(Numbers<'py>, BadByte)> {
    let (strings, encoding, policy) = (
        Strings::read(strings)?,
        encoding_of(encoding)?,
        policy_of(given)?,
    );
    let (mut numbers, mut offsets, mut splits) = (Vec::new(), Vec::new(), vec![0]);
    let bad = py.detach(|| {
        for (row, text) in strings.views().iter().enumerate() {
            let read = policy.decode(encoding, text, |character, place| {
                numbers.push(u32::from(character) as i32);
                offsets.push(place as i64);
            });
            if let Err(place) = read {
                return Some((row, place));
            }
            splits.push(numbers.len() as i64);
        }
        None
    });
    let arrays = (
        numbers.into_pyarray(py),
        offsets.into_pyarray(py),
        splits.into_pyarray(py),
    );
    Ok((arrays, bad))
}

type Characters<'py> = (
    TextArray,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
);

#[pyfunction]
fn unicode_split<'py>(
    py: Python<'py>,
    strings: &Bound<'py, PyAny>,
    encoding: &str,
    given: Given<'_>,
) -> PyResult<(Characters<'py>, BadByte)> {
    let (strings, encoding, policy) = (
        Strings::read(strings)?,
        encoding_of(encoding)?,
        policy_of(given)?,
    );
    let (mut texts, mut offsets, mut splits) = (Texts::default(), Vec::new(), vec![0]);
    let bad = py.detach(|| {
        for (row, text) in strings.views().iter().enumerate() {
            let read = policy.decode(encoding, text, |character, place| {
                texts.push_with(|out| write(encoding, character, out));
                offsets.push(place as i64);
            });
            if let Err(place) = read {
                return Some((row, place));
            }
            splits.push(texts.len() as i64);
        }
        None
    });
    let arrays = (
        array_of(py, &texts),
        offsets.into_pyarray(py),
        splits.into_pyarray(py),
    );
    Ok((arrays, bad))
}

#[pyfunction]
fn unicode_transcode(
    py: Python<'_>,
    strings: &Bound<'_, PyAny>,
    from: &str,
    to: &str,
    given: Given<'_>,
) -> PyResult<(TextArray, BadByte)> {
    let (strings, policy) = (Strings::read(strings)?, policy_of(given)?);
    let (from, to) = (encoding_of(from)?, encoding_of(to)?);
    let (texts, bad) = py.detach(|| {
        let mut texts = Texts::default();
        for (row, text) in strings.views().iter().enumerate() {
            let mut read = Ok(());
            texts.push_with(|out| {
                read = policy.decode(from, text, |character, _| write(to, character, out));
            });
            if let Err(place) = read {
                texts.truncate(row);
                return (texts, Some((row, place)));
            }
        }
        (texts, None)
    });
    Ok((array_of(py, &texts), bad))
}

#[pyfunction]
fn unicode_encode(
    py: Python<'_>,
    numbers: &Bound<'_, PyArray1<i32>>,
    splits: &Bound<'_, PyArray1<i64>>,
    encoding: &str,
    given: Given<'_>,
) -> PyResult<(TextArray, Bad)> {
    let numbers = copied(numbers)?;
    let rows = Rows::read(splits, numbers.len())?;
    let (encoding, policy) = (encoding_of(encoding)?, policy_of(given)?);
    let (texts, bad) = py.detach(|| {
        let mut texts = Texts::default();
        for (place, row) in rows.of(&numbers).enumerate() {
            let mut written = Ok(());
            texts.push_with(|out| written = policy.encode(encoding, row, out));
            if written.is_err() {
                texts.truncate(place);
                return (texts, Some(place));
            }
        }
        (texts, None)
    });
    Ok((array_of(py, &texts), bad))
}

/// What joins the tokens, what stands before the first and after the last, and how often.
type Joining = (Vec<u8>, Vec<u8>, Vec<u8>, usize);

#[pyfunction]
fn string_ngrams<'py>(
    py: Python<'py>,
    strings: &Bound<'py, PyAny>,
    splits: &Bound<'py, PyArray1<i64>>,
    widths: Vec<usize>,
    joining: Joining,
    preserve_short: bool,
    skipped: &Bound<'py, PyArray1<bool>>,
) -> PyResult<Ragged<'py>> {
    let strings = Strings::read(strings)?;
    let rows = Rows::read(splits, strings.views().len())?;
    let skipped = copied(skipped)?;
    let (separator, left, right, padding) = joining;
    let ngrams = Ngrams {
        widths,
        separator,
        left,
        right,
        padding,
        preserve_short,
    };
    let (texts, splits) = py.detach(|| {
        let (mut texts, mut splits) = (Texts::default(), vec![0]);
        for (row, skip) in rows.of(strings.views()).zip(&skipped) {
            if !skip {
                ngrams.append(row, &mut texts);
            }
            splits.push(texts.len() as i64);
        }
        (texts, splits)
    });
    Ok((array_of(py, &texts), splits.into_pyarray(py)))
}
