//! Where the fields of a record are.

use super::marks::Marks;
use super::problem::Flaw;
use std::borrow::Cow;
use std::ops::Range;

/// A field's place in the bytes of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its bytes, without the quotes around it.
    pub bytes: Range<usize>,
    /// Whether quotes in it are doubled.
    pub doubled: bool,
    pub flaw: Option<Flaw>,
}

impl Place {
    /// A field that is not quoted.
    #[inline]
    pub fn plain(bytes: Range<usize>, flaw: Option<Flaw>) -> Self {
        Self {
            bytes,
            doubled: false,
            flaw,
        }
    }

    /// The field's content.
    #[inline]
    pub fn content<'a>(&self, record: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &record[self.bytes.clone()];
        if self.doubled {
            Cow::Owned(undoubled(bytes))
        } else {
            Cow::Borrowed(bytes)
        }
    }
}

fn undoubled(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut second = false;
    for &byte in bytes {
        second = byte == b'"' && !second;
        if byte != b'"' || second {
            kept.push(byte);
        }
    }
    kept
}

/// How far a record reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// So many bytes, the line's end included, and the line breaks in them.
    Whole { used: usize, lines: u64 },
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
    let mut marks = Marks::new(bytes, 0, delimiter, quotes);
    let (mut start, mut lines) = (0, 0);
    loop {
        let end = if quotes && bytes.get(start) == Some(&b'"') {
            let Some((place, end)) = quoted_field(bytes, start, delimiter, ended) else {
                return Reach::More;
            };
            places.push(place);
            lines += line_breaks(&bytes[start..end]);
            marks.pass(end);
            end
        } else {
            let (end, flaw) = plain_field(&mut marks);
            places.push(Place::plain(start..end, flaw));
            end
        };
        let step = match (bytes.get(end), bytes.get(end + 1)) {
            (Some(&byte), _) if byte == delimiter => {
                start = end + 1;
                marks.pass(start);
                continue;
            }
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\r'), None) if !ended => return Reach::More,
            (None, _) if !ended => return Reach::More,
            (None, _) => 0,
            _ => 1,
        };
        return Reach::Whole {
            used: end + step,
            lines: lines + u64::from(step > 0),
        };
    }
}

/// How many line breaks there are: `\n`, and `\r` without one.
fn line_breaks(bytes: &[u8]) -> u64 {
    let feeds = memchr::memchr_iter(b'\n', bytes).count();
    let returns = memchr::memchr_iter(b'\r', bytes);
    let alone = returns
        .filter(|&place| bytes.get(place + 1) != Some(&b'\n'))
        .count();
    (feeds + alone) as u64
}

/// The field that begins at `start` of bytes that nothing follows, and where it ends.
pub fn field(bytes: &[u8], start: usize, delimiter: u8, quotes: bool) -> (Place, usize) {
    let quoted = quotes && bytes.get(start) == Some(&b'"');
    let found = quoted
        .then(|| quoted_field(bytes, start, delimiter, true))
        .flatten();
    found.unwrap_or_else(|| {
        let (end, flaw) = plain_field(&mut Marks::new(bytes, start, delimiter, quotes));
        (Place::plain(start..end, flaw), end)
    })
}

/// Where the field without quotes ends that begins at the place up to which marks were passed: at
/// the next that is no quote; and what is wrong with it.
#[inline(always)]
fn plain_field(marks: &mut Marks) -> (usize, Option<Flaw>) {
    let mut flaw = None;
    let mut end = marks.first();
    while marks.is_quote(end) {
        flaw = Some(Flaw::QuoteInside);
        marks.pass(end + 1);
        end = marks.first();
    }
    (end, flaw)
}

/// A quoted field and where it ends, unless more bytes are needed to tell.
fn quoted_field(bytes: &[u8], start: usize, delimiter: u8, ended: bool) -> Option<(Place, usize)> {
    let (mut flaw, mut doubled) = (None, false);
    let mut from = start + 1;
    loop {
        let quote = memchr::memchr(b'"', bytes.get(from..).unwrap_or_default());
        let Some(quote) = quote.map(|step| from + step) else {
            return ended.then(|| {
                let bytes = start + 1..bytes.len().max(start + 1);
                let flaw = flaw.or(Some(Flaw::NotClosed));
                let end = bytes.end;
                (
                    Place {
                        bytes,
                        doubled,
                        flaw,
                    },
                    end,
                )
            });
        };
        match bytes.get(quote + 1) {
            Some(b'"') => doubled = true,
            None if !ended => return None,
            Some(&next) if next != delimiter && next != b'\n' && next != b'\r' => {
                flaw = flaw.or(Some(Flaw::QuoteNotDoubled));
            }
            _ => {
                let bytes = start + 1..quote;
                return Some((
                    Place {
                        bytes,
                        doubled,
                        flaw,
                    },
                    quote + 1,
                ));
            }
        }
        from = quote + 2;
    }
}
