//! `StringChain`: strings changed, cut and numbered in one pass.

use crate::python::strings::tokens::{Numbers, StringTable};
use crate::python::strings::{unknown, Ragged, StringPattern};
use crate::python::texts::{array_of, Strings};
use crate::strings::chain::Change;
use crate::strings::chain::{Chain, Room};
use crate::strings::split::Splitter;
use crate::strings::texts::Texts;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use std::sync::Arc;

/// What the table's first string counts as, what a part does that is not in it, and how many
/// numbers after the table's stand for such parts by their hash, if any do.
type LookupArguments = (i64, i64, u64);

/// A change by name, or a pattern, what its matches become, and whether all of them do.
#[derive(FromPyObject)]
enum ChangeArgument<'py> {
    Named(String),
    Replace(Bound<'py, StringPattern>, Vec<u8>, bool),
}

fn change_of(wanted: &ChangeArgument<'_>) -> PyResult<Change> {
    match wanted {
        ChangeArgument::Named(name) => {
            Change::named(name).map_or_else(|| unknown("change of strings", name), Ok)
        }
        ChangeArgument::Replace(pattern, rewrite, all) => Ok(Change::Replace {
            pattern: Arc::clone(&pattern.get().0),
            rewrite: pattern.get().rewrite(rewrite)?,
            all: *all,
        }),
    }
}

/// Changes strings, cuts them into parts and numbers these.
#[pyclass(frozen, module = "drumline._core")]
pub struct StringChain(Chain);

#[pymethods]
impl StringChain {
    #[new]
    fn new(changes: Vec<ChangeArgument<'_>>, cut: Option<(Vec<u8>, i64)>) -> PyResult<Self> {
        let changes = changes.iter().map(change_of).collect::<PyResult<_>>()?;
        let cut = cut.map(|(separator, most)| (Splitter::new(&separator), most));
        Ok(Self(Chain { changes, cut }))
    }

    /// The parts of each string.
    fn parts<'py>(&self, strings: &Bound<'py, PyAny>) -> PyResult<Ragged<'py>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let (texts, splits) = py.detach(|| {
            let mut texts = Texts::default();
            let splits = self.each(strings.views(), |part| texts.push(part));
            (texts, splits)
        });
        Ok((array_of(py, &texts), splits.into_pyarray(py)))
    }

    /// The numbers of each string's parts.
    fn numbers<'py>(
        &self,
        strings: &Bound<'py, PyAny>,
        table: &StringTable,
        numbering: LookupArguments,
    ) -> PyResult<Numbers<'py>> {
        let py = strings.py();
        let strings = Strings::read(strings)?;
        let (first, absent, buckets) = numbering;
        let after = first + table.0.len() as i64;
        let number = |part: &[u8]| match table.0.find(part) {
            Ok(number) => first + number as i64,
            Err(_) if buckets == 0 => absent,
            Err(hash) => after + (hash % buckets) as i64,
        };
        let (numbers, splits) = py.detach(|| {
            let mut numbers = Vec::new();
            let splits = self.each(strings.views(), |part| numbers.push(number(part)));
            (numbers, splits)
        });
        Ok((numbers.into_pyarray(py), splits.into_pyarray(py)))
    }
}

impl StringChain {
    /// Calls `part` with all parts of all strings; where those of each begin, and the last end.
    fn each(&self, strings: &[&[u8]], mut part: impl FnMut(&[u8])) -> Vec<i64> {
        let mut room = Room::default();
        let mut count = 0;
        let mut splits = Vec::with_capacity(strings.len() + 1);
        splits.push(count);
        for text in strings {
            self.0.each(text, &mut room, |found| {
                part(found);
                count += 1;
            });
            splits.push(count);
        }
        splits
    }
}
