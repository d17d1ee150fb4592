//! Where the fields of a record are.

use super::problem::Problem;
use std::borrow::Cow;
use std::ops::Range;

/// A field's place in the bytes of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its bytes, without the quotes around it.
    pub bytes: Range<usize>,
    /// Whether quotes in it are doubled.
    pub doubled: bool,
    pub problem: Option<Problem>,
}

impl Place {
    /// An empty field.
    pub fn empty(at: usize) -> Self {
        Self {
            bytes: at..at,
            doubled: false,
            problem: None,
        }
    }

    /// The field's content.
    pub fn content<'a>(&self, record: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &record[self.bytes.clone()];
        if !self.doubled {
            return Cow::Borrowed(bytes);
        }
        let mut kept = Vec::with_capacity(bytes.len());
        let mut second = false;
        for &byte in bytes {
            second = byte == b'"' && !second;
            if byte != b'"' || second {
                kept.push(byte);
            }
        }
        Cow::Owned(kept)
    }
}

/// How far a record reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// So many bytes, the line's end included.
    Whole(usize),
    /// Further than the bytes that are known.
    More,
}

/// Finds the fields of the record at the start of `bytes`, which the file ends with if `ended`.
///
/// A record ends at a line break that is not quoted. What is wrong with a field does not keep the
/// record from being read to its end.
pub fn fields(
    bytes: &[u8],
    delimiter: u8,
    quotes: bool,
    ended: bool,
    places: &mut Vec<Place>,
) -> Reach {
    places.clear();
    let mut start = 0;
    loop {
        let quoted = quotes && bytes.get(start) == Some(&b'"');
        let (place, end) = if quoted {
            match quoted_field(bytes, start, delimiter, ended) {
                Some(found) => found,
                None => return Reach::More,
            }
        } else {
            plain_field(bytes, start, delimiter, quotes)
        };
        places.push(place);
        match bytes.get(end) {
            Some(&byte) if byte == delimiter => start = end + 1,
            Some(b'\r') => match bytes.get(end + 1) {
                Some(b'\n') => return Reach::Whole(end + 2),
                None if !ended => return Reach::More,
                _ => return Reach::Whole(end + 1),
            },
            Some(_) => return Reach::Whole(end + 1),
            None if ended => return Reach::Whole(end),
            None => return Reach::More,
        }
    }
}

/// The field that begins at `start` of bytes that nothing follows, and where it ends.
pub fn field(bytes: &[u8], start: usize, delimiter: u8, quotes: bool) -> (Place, usize) {
    let quoted = quotes && bytes.get(start) == Some(&b'"');
    let found = quoted
        .then(|| quoted_field(bytes, start, delimiter, true))
        .flatten();
    found.unwrap_or_else(|| plain_field(bytes, start, delimiter, quotes))
}

/// A field without quotes, and where it ends.
fn plain_field(bytes: &[u8], start: usize, delimiter: u8, quotes: bool) -> (Place, usize) {
    let mut problem = None;
    let mut end = start;
    while let Some(&byte) = bytes.get(end) {
        if byte == delimiter || byte == b'\n' || byte == b'\r' {
            break;
        }
        if byte == b'"' && quotes {
            problem = Some(Problem::QuoteInside);
        }
        end += 1;
    }
    let place = Place {
        bytes: start..end,
        doubled: false,
        problem,
    };
    (place, end)
}

/// A quoted field and where it ends, unless more bytes are needed to tell.
fn quoted_field(bytes: &[u8], start: usize, delimiter: u8, ended: bool) -> Option<(Place, usize)> {
    let (mut problem, mut doubled) = (None, false);
    let mut from = start + 1;
    loop {
        let quote = memchr::memchr(b'"', bytes.get(from..).unwrap_or_default());
        let Some(quote) = quote.map(|step| from + step) else {
            return ended.then(|| {
                let bytes = start + 1..bytes.len().max(start + 1);
                let problem = problem.or(Some(Problem::NotClosed));
                let end = bytes.end;
                (
                    Place {
                        bytes,
                        doubled,
                        problem,
                    },
                    end,
                )
            });
        };
        match bytes.get(quote + 1) {
            Some(b'"') => doubled = true,
            None if !ended => return None,
            Some(&next) if next != delimiter && next != b'\n' && next != b'\r' => {
                problem = problem.or(Some(Problem::QuoteNotDoubled));
            }
            _ => {
                let bytes = start + 1..quote;
                return Some((
                    Place {
                        bytes,
                        doubled,
                        problem,
                    },
                    quote + 1,
                ));
            }
        }
        from = quote + 2;
    }
}
