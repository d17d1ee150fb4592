//! Records that have the features of the record before, in its order: the usual case, quickly.
//!
//! Nothing is found wrong here: what is not as expected is left to those who can name it.

use super::locate::{begins_with, Known};
use super::target::{Numbers, Target};
use super::varints;
use super::wire::Cursor;

const ENTRY: u8 = 0x0a;
const LIST: u8 = 0x0a;
const FLOATS: u8 = 0x12;
const INTEGERS: u8 = 0x1a;

/// Goes through the entries of a record's only map; None if they are not the known ones.
/// `field` is the map's number, and `take` says whether it could use the message of a slot.
#[inline(always)]
pub fn entries<'a>(
    record: &'a [u8],
    field: u64,
    known: &[Known<'a>],
    mut take: impl FnMut(usize, &'a [u8]) -> bool,
) -> Option<()> {
    let tag = u8::try_from(field << 3 | 2).ok()?;
    let mut rest = content(record, tag)?;
    for Known { head, slot } in known {
        let (entry, after) = next(rest, ENTRY)?;
        rest = after;
        if !begins_with(entry, head) {
            return None;
        }
        let value = lengthy(&entry[head.len()..])?;
        if let Some(slot) = slot {
            take(*slot, value).then_some(())?;
        }
    }
    rest.is_empty().then_some(())
}

/// Sets a record's numbers to the packed ones that a feature's message is; false if it is none.
#[inline(always)]
pub fn set(message: &[u8], row: usize, target: &mut Target) -> bool {
    let range = row * target.count..(row + 1) * target.count;
    match &mut target.numbers {
        Numbers::Float(to) => packed(message, FLOATS).is_some_and(|p| floats(p, &mut to[range])),
        Numbers::Int64(to) => {
            packed(message, INTEGERS).is_some_and(|p| varints::fill(p, &mut to[range]))
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
