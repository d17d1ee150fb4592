//! The values of a `Feature` message.

use super::column::Values;
use super::defect::{Defect, Found, Malformed};
use super::schema::Kind;
use super::wire;
use super::wire::{Content, Cursor};

/// The lists of a feature that count: a later one of another kind takes the place of those before,
/// one of the same kind continues it.
struct Lists<'a> {
    kind: Kind,
    first: Cursor<'a>,
    /// The feature after the first list.
    rest: Cursor<'a>,
}

/// Appends the values that a feature holds; returns how many, None if it holds none of any kind.
#[inline(always)]
pub fn append<'a>(feature: Cursor<'a>, to: &mut Values<'a>) -> Result<Option<usize>, Found> {
    if let Some(packed) = short_packed(feature, to.kind()) {
        let before = to.len();
        match to {
            Values::Float(values) => packed_floats(packed, values)?,
            Values::Int64(values) => packed_integers(packed, values)?,
            Values::Bytes(_) => {}
        }
        return Ok(Some(to.len() - before));
    }
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

/// The packed numbers of a feature that holds nothing else, and of which no length has two bytes.
#[inline(always)]
fn short_packed(feature: Cursor<'_>, kind: Kind) -> Option<Cursor<'_>> {
    let tag = match kind {
        Kind::Float => 0x12,
        Kind::Int64 => 0x1a,
        Kind::Bytes => return None,
    };
    let bytes = feature.rest();
    let &[first, list, 0x0a, packed, ..] = bytes else {
        return None;
    };
    let is_short = first == tag
        && bytes.len() < 0x80
        && usize::from(list) + 2 == bytes.len()
        && usize::from(packed) + 4 == bytes.len();
    is_short.then(|| {
        let mut packed = feature;
        packed.pass(4);
        packed
    })
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
            (1, Content::Delimited(packed)) => packed_floats(packed, to)?,
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
            (1, Content::Delimited(packed)) => packed_integers(packed, to)?,
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
fn packed_floats(packed: Cursor<'_>, to: &mut Vec<f32>) -> Result<(), Found> {
    let values = packed.rest().chunks_exact(4);
    if !values.remainder().is_empty() {
        let (at, length) = (packed.at(), packed.rest().len());
        return Err(Malformed::Floats { at, length }.into());
    }
    reserve(to, values.len(), packed.at())?;
    let bytes = |value: &[u8]| [value[0], value[1], value[2], value[3]];
    to.extend(values.map(|value| f32::from_le_bytes(bytes(value))));
    Ok(())
}

#[inline(always)]
fn packed_integers(packed: Cursor<'_>, to: &mut Vec<i64>) -> Result<(), Found> {
    // Counting exactly pays only where memory must grow: no integer is shorter than a byte.
    if to.capacity() - to.len() < packed.rest().len() {
        reserve(to, wire::count(packed.rest()), packed.at())?;
    }
    wire::decode(packed, to)?;
    Ok(())
}

#[inline(always)]
fn reserve<T>(values: &mut Vec<T>, further: usize, at: usize) -> Result<(), Found> {
    values.try_reserve(further).map_err(|_| Found {
        offset: Some(at),
        defect: Defect::Memory,
    })
}
