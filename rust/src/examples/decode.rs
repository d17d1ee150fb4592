//! The values of a `Feature` message.

use super::column::Values;
use super::defect::{Defect, Found, Malformed};
use super::schema::Kind;
use super::varints;
use super::wire::{Content, Cursor};

/// The lists of a feature that count: a later one of another kind takes the place of those before,
/// one of the same kind goes on.
struct Lists<'a> {
    kind: Kind,
    first: Cursor<'a>,
    /// The feature after the first list.
    rest: Cursor<'a>,
}

/// Appends the values that a feature holds; returns how many, None if it holds none of any kind.
#[inline(always)]
pub fn append<'a>(feature: Cursor<'a>, to: &mut Values<'a>) -> Result<Option<usize>, Found> {
    let Some(mut lists) = lists(feature)? else {
        return Ok(None);
    };
    if lists.kind != to.kind() {
        return Err(Found {
            offset: Some(feature.at()),
            defect: Defect::Kind {
                found: Some(lists.kind),
                wanted: to.kind(),
            },
        });
    }
    let before = to.len();
    list(lists.first, to)?;
    while let Some(field) = lists.rest.field()? {
        if let (1..=3, Content::Delimited(further)) = field {
            list(further, to)?;
        }
    }
    Ok(Some(to.len() - before))
}

#[inline(always)]
fn lists(mut feature: Cursor<'_>) -> Result<Option<Lists<'_>>, Malformed> {
    let mut found: Option<Lists> = None;
    while let Some((number, content)) = feature.field()? {
        let (Some(kind), Content::Delimited(first)) = (Kind::of_field(number), content) else {
            continue;
        };
        if found.as_ref().is_none_or(|lists| lists.kind != kind) {
            let rest = feature;
            found = Some(Lists { kind, first, rest });
        }
    }
    Ok(found)
}

/// Appends the values of a list, which is of the kind of `to`.
#[inline(always)]
pub fn list<'a>(list: Cursor<'a>, to: &mut Values<'a>) -> Result<(), Found> {
    match to {
        Values::Bytes(values) => bytes(list, values),
        Values::Float(values) => floats(list, values),
        Values::Int64(values) => integers(list, values),
    }
}

fn bytes<'a>(mut list: Cursor<'a>, to: &mut Vec<&'a [u8]>) -> Result<(), Found> {
    while let Some(field) = list.field()? {
        if let (1, Content::Delimited(value)) = field {
            reserve(to, 1, value.at())?;
            to.push(value.rest());
        }
    }
    Ok(())
}

fn floats(mut list: Cursor<'_>, to: &mut Vec<f32>) -> Result<(), Found> {
    while let Some(field) = list.field()? {
        match field {
            (1, Content::Delimited(packed)) => {
                let values = packed.rest().chunks_exact(4);
                if !values.remainder().is_empty() {
                    let (at, length) = (packed.at(), packed.rest().len());
                    return Err(Malformed::Floats { at, length }.into());
                }
                reserve(to, values.len(), packed.at())?;
                let bytes = |value: &[u8]| [value[0], value[1], value[2], value[3]];
                to.extend(values.map(|value| f32::from_le_bytes(bytes(value))));
            }
            (1, Content::Fixed32(value)) => {
                reserve(to, 1, list.at())?;
                to.push(f32::from_bits(value));
            }
            _ => {}
        }
    }
    Ok(())
}

fn integers(mut list: Cursor<'_>, to: &mut Vec<i64>) -> Result<(), Found> {
    while let Some(field) = list.field()? {
        match field {
            (1, Content::Delimited(packed)) => {
                reserve(to, varints::count(packed.rest()), packed.at())?;
                varints::decode(packed, to)?;
            }
            (1, Content::Varint(value)) => {
                reserve(to, 1, list.at())?;
                to.push(value as i64);
            }
            _ => {}
        }
    }
    Ok(())
}

#[inline(always)]
fn reserve<T>(values: &mut Vec<T>, further: usize, at: usize) -> Result<(), Found> {
    values.try_reserve(further).map_err(|_| Found {
        offset: Some(at),
        defect: Defect::Memory,
    })
}
