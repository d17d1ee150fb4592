//! `Vocabulary` and `Tokenizer`: text to numbers without a Python object for each token.

use crate::python::strings::{unknown, Ragged};
use crate::python::texts::{array_of, Rows, Strings, TextArray};
use crate::strings::ngrams::Ngrams;
use crate::strings::texts::Texts;
use crate::strings::vectorize::{Cut, Tokenizer};
use crate::strings::vocabulary::Vocabulary;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StringTable>()?;
    module.add_class::<TextTokenizer>()?;
    module.add_class::<TokenCounts>()
}

/// Strings and their numbers, from 0 on.
#[pyclass(frozen, module = "drumline._core")]
pub struct StringTable(pub Vocabulary);

#[pymethods]
impl StringTable {
    #[new]
    fn new(py: Python<'_>, strings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let strings = Strings::read(strings)?;
        let made = py.detach(|| Vocabulary::new(strings.views().iter().copied()));
        made.map(Self).map_err(|place| {
            let text = String::from_utf8_lossy(strings.views()[place]).into_owned();
            PyValueError::new_err(format!("{text:?} occurs twice"))
        })
    }

    /// The number of each string; -1 if it is not there.
    fn numbers<'py>(&self, strings: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let number = |text: &&[u8]| self.0.number(text).map_or(-1, |number| number as i64);
        let numbers: Vec<i64> = py.detach(|| strings.views().iter().map(number).collect());
        Ok(numbers.into_pyarray(py))
    }
}

/// How tokens are numbered: what an empty one counts as (nothing if negative), what one does that
/// is not in the table, and what the table's first does.
type LookupArguments = (i64, i64, i64);

fn number(table: &Vocabulary, (empty, absent, first): LookupArguments, token: &[u8]) -> i64 {
    if token.is_empty() {
        return empty;
    }
    table
        .number(token)
        .map_or(absent, |number| first + number as i64)
}

/// Cuts rows of strings into tokens.
#[pyclass(frozen, module = "drumline._core")]
pub struct TextTokenizer(Tokenizer);

#[pymethods]
impl TextTokenizer {
    #[new]
    fn new(
        lower: bool,
        strip_punctuation: bool,
        split: &str,
        widths: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let cut = match split {
            "" => Cut::Nowhere,
            "whitespace" => Cut::AtSpace,
            "character" => Cut::IntoCharacters,
            _ => return unknown("way to split", split),
        };
        Ok(Self(Tokenizer {
            lower,
            strip_punctuation,
            cut,
            ngrams: widths.map(|widths| Ngrams::plain(widths, b" ")),
        }))
    }

    /// The tokens of each row.
    fn tokens<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        splits: &Bound<'py, PyArray1<i64>>,
    ) -> PyResult<Ragged<'py>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let rows = Rows::read(splits, strings.views().len())?;
        let (texts, splits) = py.detach(|| {
            let (mut texts, mut splits) = (Texts::default(), vec![0]);
            for row in rows.of(strings.views()) {
                self.0.tokens(row, |token| texts.push(token));
                splits.push(texts.len() as i64);
            }
            (texts, splits)
        });
        Ok((array_of(py, &texts), splits.into_pyarray(py)))
    }

    /// The numbers of each row's tokens.
    fn numbers<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        splits: &Bound<'py, PyArray1<i64>>,
        table: &StringTable,
        numbering: LookupArguments,
    ) -> PyResult<Numbers<'py>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let rows = Rows::read(splits, strings.views().len())?;
        let (numbers, splits) = py.detach(|| {
            let (mut numbers, mut splits) = (Vec::new(), vec![0]);
            for row in rows.of(strings.views()) {
                self.0.tokens(row, |token| {
                    numbers.push(number(&table.0, numbering, token))
                });
                splits.push(numbers.len() as i64);
            }
            (numbers, splits)
        });
        Ok((numbers.into_pyarray(py), splits.into_pyarray(py)))
    }

    /// The numbers of each row's first `length` tokens, and zeros after them.
    fn padded<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        splits: &Bound<'py, PyArray1<i64>>,
        table: &StringTable,
        numbering: LookupArguments,
        length: usize,
    ) -> PyResult<Bound<'py, PyArray2<i64>>> {
        self.tabulated(strings, splits, length, |row, out| {
            let mut places = out.iter_mut();
            self.0.tokens(row, |token| {
                if let Some(place) = places.next() {
                    *place = number(&table.0, numbering, token);
                }
            });
        })
    }

    /// How often each number below `depth` stands for a token of each row; at most once if `once`.
    #[allow(clippy::too_many_arguments)]
    fn counted<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        splits: &Bound<'py, PyArray1<i64>>,
        table: &StringTable,
        numbering: LookupArguments,
        depth: usize,
        once: bool,
    ) -> PyResult<Bound<'py, PyArray2<i64>>> {
        self.tabulated(strings, splits, depth, |row, out| {
            self.0.tokens(row, |token| {
                let number = usize::try_from(number(&table.0, numbering, token));
                if let Some(count) = number.ok().and_then(|number| out.get_mut(number)) {
                    *count = if once { 1 } else { *count + 1 };
                }
            });
        })
    }
}

impl TextTokenizer {
    fn tabulated<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        splits: &Bound<'py, PyArray1<i64>>,
        width: usize,
        fill: impl Fn(&[&[u8]], &mut [i64]) + Send + Sync,
    ) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let rows = Rows::read(splits, strings.views().len())?;
        let count = rows.of(strings.views()).len();
        let size = count
            .checked_mul(width)
            .filter(|&size| size < isize::MAX as usize / 8);
        let table = py.detach(|| {
            let mut out = Vec::new();
            out.try_reserve_exact(size?).ok()?;
            out.resize(size?, 0);
            for (number, row) in rows.of(strings.views()).enumerate() {
                fill(row, &mut out[number * width..(number + 1) * width]);
            }
            Array2::from_shape_vec((count, width), out).ok()
        });
        let message = || format!("no memory for {count} rows of {width} numbers");
        Ok(table
            .ok_or_else(|| PyMemoryError::new_err(message()))?
            .into_pyarray(py))
    }
}

pub type Numbers<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

type Counted<'py> = (
    TextArray,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    u64,
);

/// How often tokens occur, and in how many rows.
#[pyclass(frozen, module = "drumline._core")]
pub struct TokenCounts(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    tokens: Vocabulary,
    times: Vec<i64>,
    rows: Vec<i64>,
    /// The last row in which each token was.
    last: Vec<u64>,
    row: u64,
}

impl Counts {
    fn add(&mut self, token: &[u8]) {
        let number = self.tokens.insert(token);
        if number == self.times.len() {
            self.times.push(0);
            self.rows.push(0);
            self.last.push(0);
        }
        self.times[number] += 1;
        if self.last[number] != self.row {
            self.last[number] = self.row;
            self.rows[number] += 1;
        }
    }
}

#[pymethods]
impl TokenCounts {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Counts the tokens of rows.
    fn add(
        &self,
        tokenizer: &TextTokenizer,
        strings: &Bound<'_, PyAny>,
        splits: &Bound<'_, PyArray1<i64>>,
    ) -> PyResult<()> {
        let strings = Strings::read(strings)?;
        let rows = Rows::read(splits, strings.views().len())?;
        splits.py().detach(|| {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for row in rows.of(strings.views()) {
                counts.row += 1;
                tokenizer.0.tokens(row, |token| counts.add(token));
            }
        });
        Ok(())
    }

    /// The tokens, how often each occurred, in how many rows, and how many rows there were.
    fn counts<'py>(&self, py: Python<'py>) -> Counted<'py> {
        let (texts, times, rows, all) = py.detach(|| {
            let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut texts = Texts::default();
            for number in 0..counts.tokens.len() {
                texts.push(counts.tokens.text(number).unwrap_or_default());
            }
            (texts, counts.times.clone(), counts.rows.clone(), counts.row)
        });
        (
            array_of(py, &texts),
            times.into_pyarray(py),
            rows.into_pyarray(py),
            all,
        )
    }
}
