//! Parts of strings by position.

use super::utf8;

/// What positions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Byte,
    Character,
}

impl Unit {
    /// The unit of TensorFlow's name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "BYTE" => Some(Self::Byte),
            "UTF8_CHAR" => Some(Self::Character),
            _ => None,
        }
    }

    /// The length of a text.
    pub fn length(self, text: &[u8]) -> usize {
        match self {
            Self::Byte => text.len(),
            Self::Character => utf8::count(text),
        }
    }
}

/// `length` units of the text from `start` on, which counts from the end if negative; `None` if it
/// lies outside. What goes beyond the end is left out, and there is nothing less than nothing.
pub fn substring(text: &[u8], start: i64, length: i64, unit: Unit) -> Option<&[u8]> {
    let size = i64::try_from(unit.length(text)).ok()?;
    let first = if start < 0 {
        start.checked_add(size)?
    } else {
        start
    };
    if !(0..=size).contains(&first) {
        return None;
    }
    let kept = length.clamp(0, size - first);
    let place = |units: i64| usize::try_from(units).ok();
    match unit {
        Unit::Byte => text.get(place(first)?..place(first + kept)?),
        Unit::Character => {
            let from = advanced(text, 0, place(first)?);
            let to = advanced(text, from, place(kept)?);
            text.get(from..to)
        }
    }
}

fn advanced(text: &[u8], from: usize, characters: usize) -> usize {
    (0..characters).fold(from, |place, _| utf8::next(text, place))
}
