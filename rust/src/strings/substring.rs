//! Parts of strings by position.

use super::unicode;

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
            Self::Character => unicode::count(text),
        }
    }
}

/// `length` units of the text from `start` on, which counts from the end if negative; `None` if it
/// lies outside. What goes beyond the end is left out, and there is nothing less than nothing.
///
/// Bytes that begin no character belong to the one before, at the start of the text to one of their
/// own if one counts from there.
pub fn substring(text: &[u8], start: i64, length: i64, unit: Unit) -> Option<&[u8]> {
    let length = usize::try_from(length.max(0)).ok()?;
    let units = usize::try_from(start.unsigned_abs()).ok()?;
    let from = match unit {
        Unit::Byte if start < 0 => text.len().checked_sub(units)?,
        Unit::Byte => units,
        Unit::Character if start < 0 => back(text, units)?,
        Unit::Character => forward(text, units)?,
    };
    let rest = text.get(from..)?;
    let kept = match unit {
        Unit::Byte => length.min(rest.len()),
        Unit::Character => forward(rest, length).unwrap_or(rest.len()),
    };
    Some(&rest[..kept])
}

/// How many bytes so many characters take, if there are as many.
fn forward(text: &[u8], characters: usize) -> Option<usize> {
    let mut place = 0;
    for _ in 0..characters {
        if place == text.len() {
            return None;
        }
        place = unicode::next(text, place);
    }
    Some(place)
}

/// Where so many characters from the end begin, if there are as many.
fn back(text: &[u8], characters: usize) -> Option<usize> {
    let mut place = text.len();
    for _ in 0..characters {
        let before = text[..place]
            .iter()
            .rposition(|&byte| unicode::begins(byte));
        if place == 0 {
            return None;
        }
        place = before.unwrap_or(0);
    }
    Some(place)
}
