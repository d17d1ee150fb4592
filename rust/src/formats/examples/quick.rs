//! Records that have the features of the record before, in its order: the usual case, quickly.
//!
//! Nothing is found wrong here: what is not as expected is left to those who can name it.

use super::locate::{begins_with, Known};
use super::target::{Numbers, Target};
use super::wire;
use super::wire::Cursor;

const ENTRY: u8 = 0x0a;
const LIST: u8 = 0x0a;
const FLOATS: u8 = 0x12;
const INTEGERS: u8 = 0x1a;

/// Who takes the values of a record; both say whether they could.
pub trait Take<'a> {
    /// Takes the message of a slot's feature.
    fn message(&mut self, slot: usize, message: &'a [u8]) -> bool;

    /// Takes the one value of a slot's feature.
    fn one(&mut self, slot: usize, value: One) -> bool;
}

/// Goes through the entries of a record's only map; None if they are not the known ones.
/// `field` is the map's number.
#[inline(always)]
pub fn entries<'a>(
    record: &'a [u8],
    field: u64,
    known: &[Known<'a>],
    take: &mut impl Take<'a>,
) -> Option<()> {
    let tag = u8::try_from(field << 3 | 2).ok()?;
    let mut rest = content(record, tag)?;
    for Known { head, slot } in known {
        if let (Some(slot), Some((value, after))) = (slot, one(rest, head)) {
            if take.one(*slot, value) {
                rest = after;
                continue;
            }
        }
        let (entry, after) = next(rest, ENTRY)?;
        rest = after;
        if !begins_with(entry, head) {
            return None;
        }
        let value = lengthy(&entry[head.len()..])?;
        if let Some(slot) = slot {
            take.message(*slot, value).then_some(())?;
        }
    }
    rest.is_empty().then_some(())
}

/// Packed values of 1 to 8 bytes, which are the lowest of `bytes`; others are 0.
#[derive(Clone, Copy)]
pub struct One {
    tag: u8,
    length: usize,
    bytes: u64,
}

/// From the length of a feature to that of its packed values.
const LENGTHS: usize = 5;
/// The bytes of these that do not tell the kind of values.
const BUT_KIND: u64 = 0xff_ffff_00ff;

/// The next entry, if it begins as is known and holds few bytes of packed values, and what comes
/// after it: all lengths in it follow from the last.
#[inline(always)]
fn one<'a>(rest: &'a [u8], head: &[u8]) -> Option<(One, &'a [u8])> {
    let lengths = rest.get(2 + head.len()..)?;
    let found = u64::from_le_bytes(*lengths.first_chunk()?);
    let values = lengths.get(LENGTHS..)?;
    let following = u64::from_le_bytes(*values.first_chunk()?);
    let length = (found >> 32) as usize & 0xff;
    let inner = length as u64;
    let wanted = (inner + 4) | (inner + 2) << 16 | u64::from(LIST) << 24 | inner << 32;
    let entry = head.len() + LENGTHS + length;
    let is_as_known = found & BUT_KIND == wanted
        && (1..=8).contains(&length)
        && rest[0] == ENTRY
        && entry < 0x80
        && usize::from(rest[1]) == entry
        && begins_with(&rest[2..], head);
    let value = One {
        tag: (found >> 8) as u8,
        length,
        bytes: following & (u64::MAX >> (64 - 8 * length.clamp(1, 8))),
    };
    is_as_known.then(|| (value, &values[length..]))
}

/// Sets a record's only number to a value; false if it is of another kind, or several.
#[inline(always)]
pub fn set_one(value: One, row: usize, target: &mut Target) -> bool {
    if target.count != 1 {
        return false;
    }
    match (&mut target.numbers, value.tag) {
        (Numbers::Float(to), FLOATS) if value.length == 4 => {
            to[row] = f32::from_bits(value.bytes as u32);
            true
        }
        (Numbers::Int64(to), INTEGERS) => {
            let number = wire::single(value.bytes, value.length);
            number.is_some_and(|number| {
                to[row] = number;
                true
            })
        }
        _ => false,
    }
}

/// Sets a record's numbers to the packed ones that a feature's message is; false if it is none.
#[inline(always)]
pub fn set(message: &[u8], row: usize, target: &mut Target) -> bool {
    let range = row * target.count..(row + 1) * target.count;
    match &mut target.numbers {
        Numbers::Float(to) => packed(message, FLOATS).is_some_and(|p| floats(p, &mut to[range])),
        Numbers::Int64(to) => {
            packed(message, INTEGERS).is_some_and(|p| wire::fill(p, &mut to[range]))
        }
    }
}

#[inline(always)]
fn floats(packed: &[u8], to: &mut [f32]) -> bool {
    let values = packed.chunks_exact(4);
    let fits = packed.len() == 4 * to.len();
    if fits {
        for (to, value) in to.iter_mut().zip(values) {
            *to = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        }
    }
    fits
}

/// The packed values of a feature that holds nothing else.
#[inline(always)]
fn packed(feature: &[u8], tag: u8) -> Option<&[u8]> {
    content(content(feature, tag)?, LIST)
}

/// What a message's only field holds.
#[inline(always)]
fn content(message: &[u8], tag: u8) -> Option<&[u8]> {
    let (&found, rest) = message.split_first()?;
    if found != tag {
        return None;
    }
    lengthy(rest)
}

/// What comes after the length, which must be its length.
#[inline(always)]
fn lengthy(bytes: &[u8]) -> Option<&[u8]> {
    let (content, rest) = split(bytes)?;
    rest.is_empty().then_some(content)
}

/// The bytes of a field, and what comes after it.
#[inline(always)]
fn next(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    if found != tag {
        return None;
    }
    split(rest)
}

/// As many bytes as the length before them says, and what comes after.
#[inline(always)]
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    if length < 0x80 {
        return rest.split_at_checked(length.into());
    }
    let mut long = Cursor::new(bytes);
    let length = long.varint().ok()?;
    long.rest().split_at_checked(usize::try_from(length).ok()?)
}
