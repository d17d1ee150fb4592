//! Runs of records of one form, without quotes and of as many fields each: where all their fields
//! are is found first, and then they are converted column by column.
//!
//! Whatever else there may be in a file is left to `scan` and `record`, which read one record.

use super::columns::Column;
use super::layout::{Field, Layout};
use super::marks::Marks;
use crate::strings::numbers::Number;
use crate::strings::texts::Texts;

/// As many records as the nearest cache holds, with the places of their fields.
const MOST: usize = 128;

/// Places are kept as 32 bits; `MOST` records are found in much fewer bytes than that, as a rule.
const FURTHEST: usize = 1 << 30;

/// Where the fields of some records are. Of each record, first the place before its first field,
/// and then the end of each field, which is the place before the next one.
pub struct Run {
    edges: Vec<u32>,
    /// Which field of a record each column is.
    places: Vec<usize>,
}

impl Run {
    pub fn new(layout: &Layout) -> Self {
        Self {
            edges: Vec::new(),
            places: (0..layout.fields.len()).map(|i| layout.column(i)).collect(),
        }
    }

    /// Appends the values of up to `limit` records of `width` fields at the start of `bytes` to
    /// columns of `row` values, until one is of another form or has a field that cannot be read.
    /// Returns how many records these were, and how many bytes.
    ///
    /// Records of `width` fields must have all fields that are read.
    pub fn read(
        &mut self,
        bytes: &[u8],
        width: usize,
        limit: usize,
        layout: &Layout,
        columns: &mut [Column],
        row: usize,
    ) -> (usize, usize) {
        let bytes = &bytes[..bytes.len().min(FURTHEST)];
        let found = self.find(bytes, width, limit.min(MOST), layout);
        let mut count = found;
        let fields = layout.fields.iter().zip(&self.places);
        for ((field, &place), column) in fields.zip(columns.iter_mut()) {
            let records = self.edges.chunks_exact(width + 1).take(count);
            let texts = records.map(|edges| {
                let before = edges[place].wrapping_add(1) as usize;
                &bytes[before..edges[place + 1] as usize]
            });
            count = append(field, texts, &layout.missing, column);
        }
        columns
            .iter_mut()
            .for_each(|column| column.truncate(row + count));
        let used = if count < found {
            self.edges[count * (width + 1)].wrapping_add(1) as usize
        } else {
            self.end(bytes, width, count)
        };
        (count, used)
    }

    /// Finds the fields of up to `most` records.
    fn find(&mut self, bytes: &[u8], width: usize, most: usize, layout: &Layout) -> usize {
        self.edges.clear();
        self.edges.reserve(most * (width + 1));
        let mut marks = Marks::new(bytes, 0, layout.delimiter, layout.quotes);
        let mut before = u32::MAX;
        for count in 0..most {
            self.edges.push(before);
            for _ in 1..width {
                let end = marks.first();
                if bytes.get(end) != Some(&layout.delimiter) {
                    return count;
                }
                marks.drop_first();
                self.edges.push(end as u32);
            }
            let end = marks.first();
            let step = match bytes.get(end) {
                Some(&byte) if byte == layout.delimiter => return count,
                Some(b'\n') => 0,
                Some(b'\r') if bytes.get(end + 1) == Some(&b'\n') => 1,
                _ => return count,
            };
            self.edges.push(end as u32);
            marks.pass(end + step + 1);
            before = (end + step) as u32;
        }
        most
    }

    /// Where the last of `count` records ends, with its line break.
    fn end(&self, bytes: &[u8], width: usize, count: usize) -> usize {
        let last = count.checked_sub(1);
        last.map_or(0, |last| {
            let end = self.edges[last * (width + 1) + width] as usize;
            end + if bytes[end] == b'\r' { 2 } else { 1 }
        })
    }
}

/// Appends fields to a column, until one cannot be read, and returns how many.
fn append<'a>(
    field: &Field,
    texts: impl Iterator<Item = &'a [u8]>,
    missing: &[u8],
    column: &mut Column,
) -> usize {
    match (field, column) {
        (Field::Int32(default), Column::Int32(to)) => numbers(texts, missing, *default, to),
        (Field::Int64(default), Column::Int64(to)) => numbers(texts, missing, *default, to),
        (Field::Float32(default), Column::Float32(to)) => numbers(texts, missing, *default, to),
        (Field::Float64(default), Column::Float64(to)) => numbers(texts, missing, *default, to),
        (Field::Text(default), Column::Text(to)) => strings(texts, missing, default.as_deref(), to),
        _ => unreachable!("columns are made for the fields"),
    }
}

fn numbers<'a, T: Number>(
    texts: impl Iterator<Item = &'a [u8]>,
    missing: &[u8],
    default: Option<T>,
    to: &mut Vec<T>,
) -> usize {
    let held = to.len();
    to.reserve(MOST);
    for text in texts {
        let absent = text.is_empty() || text == missing;
        match if absent { default } else { T::parse(text) } {
            Some(value) => to.push(value),
            None => break,
        }
    }
    to.len() - held
}

fn strings<'a>(
    texts: impl Iterator<Item = &'a [u8]>,
    missing: &[u8],
    default: Option<&[u8]>,
    to: &mut Texts,
) -> usize {
    let held = to.len();
    for text in texts {
        let absent = text.is_empty() || text == missing;
        match default {
            _ if !absent => to.push(text),
            Some(default) => to.push(default),
            None => break,
        }
    }
    to.len() - held
}
