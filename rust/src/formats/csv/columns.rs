//! Values of records, a column for each field.

use super::layout::{Field, Layout};
use super::problem::Problem;
use crate::strings::numbers::Number;
use crate::strings::texts::Texts;

/// The values of one field.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Text(Texts),
}

impl Column {
    /// Forgets the values from the `count`-th on.
    pub fn truncate(&mut self, count: usize) {
        match self {
            Self::Int32(values) => values.truncate(count),
            Self::Int64(values) => values.truncate(count),
            Self::Float32(values) => values.truncate(count),
            Self::Float64(values) => values.truncate(count),
            Self::Text(values) => values.truncate(count),
        }
    }
}

/// Columns without values for the fields that are read.
pub fn empty(layout: &Layout) -> Vec<Column> {
    with_room(layout, 0)
}

/// The same, with room for `count` numbers each.
pub fn with_room(layout: &Layout, count: usize) -> Vec<Column> {
    let column = |field: &Field| match field {
        Field::Int32(_) => Column::Int32(Vec::with_capacity(count)),
        Field::Int64(_) => Column::Int64(Vec::with_capacity(count)),
        Field::Float32(_) => Column::Float32(Vec::with_capacity(count)),
        Field::Float64(_) => Column::Float64(Vec::with_capacity(count)),
        Field::Text(_) => Column::Text(Texts::default()),
    };
    layout.fields.iter().map(column).collect()
}

/// Appends what a field holds to its column.
#[inline]
pub fn append(
    field: &Field,
    text: &[u8],
    missing: &[u8],
    column: &mut Column,
) -> Result<(), Problem> {
    let absent = text.is_empty() || text == missing;
    match (field, column) {
        (Field::Int32(default), Column::Int32(values)) => {
            values.push(number(text, absent, *default, "int32")?);
        }
        (Field::Int64(default), Column::Int64(values)) => {
            values.push(number(text, absent, *default, "int64")?);
        }
        (Field::Float32(default), Column::Float32(values)) => {
            values.push(number(text, absent, *default, "float32")?);
        }
        (Field::Float64(default), Column::Float64(values)) => {
            values.push(number(text, absent, *default, "float64")?);
        }
        (Field::Text(default), Column::Text(values)) => match default {
            _ if !absent => values.push(text),
            Some(default) => values.push(default),
            None => return Err(Problem::Missing),
        },
        _ => unreachable!("columns are made for the fields"),
    }
    Ok(())
}

#[inline]
fn number<T: Number>(
    text: &[u8],
    absent: bool,
    default: Option<T>,
    kind: &'static str,
) -> Result<T, Problem> {
    if absent {
        return default.ok_or(Problem::Missing);
    }
    T::parse(text).ok_or_else(|| Problem::Number {
        kind,
        text: text.to_vec(),
    })
}
