//! From a `TensorProto` to a tensor's shape and values.

use super::kind::{Kind, List, BOOL, STRING};
use crate::formats::examples::defect::Malformed;
use crate::formats::examples::wire::{Content, Cursor};
use std::fmt;

/// The most bytes that a tensor may have for which fewer values are given than it has items: the
/// last of them stands for the rest, so that a few bytes may claim any size.
pub const MOST_FILLED: usize = 1 << 20;

/// A tensor whose values have been found, not yet copied.
#[derive(Debug)]
pub struct Tensor<'a> {
    pub dims: Vec<i64>,
    items: usize,
    kind: Kind,
    content: &'a [u8],
    /// Values that stand one by one, as little-endian bytes.
    listed: Vec<u8>,
    strings: Vec<&'a [u8]>,
}

/// Why bytes are no tensor.
#[derive(Debug, PartialEq, Eq)]
pub enum Defect {
    Malformed(Malformed),
    /// It holds another type, by its number.
    Kind(u64),
    /// A dimension below zero, or too many items to count.
    Shape,
    /// Bytes of its content, and how many its shape needs.
    Content(usize, usize),
    /// Strings packed in one field that do not fill it.
    Strings,
    /// So many bytes of items from fewer values.
    Filled(usize),
}

impl fmt::Display for Defect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(to, "byte {}: {malformed}", malformed.at()),
            Self::Kind(number) => write!(to, "it holds type {number}"),
            Self::Shape => write!(to, "its shape is none"),
            Self::Content(found, needed) => {
                write!(
                    to,
                    "it has {found} bytes of content, its shape needs {needed}"
                )
            }
            Self::Strings => write!(to, "its strings do not fill its content"),
            Self::Filled(size) => write!(
                to,
                "its shape needs {size} bytes, of which it gives a few to repeat; at most \
                 {MOST_FILLED} are filled up"
            ),
        }
    }
}

impl From<Malformed> for Defect {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Finds a tensor of a kind; values of other kinds are passed over, as protocol buffers do.
pub fn parse(bytes: &[u8], kind: Kind) -> Result<Tensor<'_>, Defect> {
    let mut message = Cursor::new(bytes);
    let mut number = 0;
    let mut tensor = Tensor {
        dims: Vec::new(),
        items: 1,
        kind,
        content: &[],
        listed: Vec::new(),
        strings: Vec::new(),
    };
    while let Some((field, content)) = message.field()? {
        match (field, content) {
            (1, Content::Varint(value)) => number = value,
            (2, Content::Delimited(shape)) => read_shape(shape, &mut tensor.dims)?,
            (4, Content::Delimited(inner)) => tensor.content = inner.rest(),
            (field, content) if field == kind.field => tensor.list(content)?,
            _ => {}
        }
    }
    if number != kind.number {
        return Err(Defect::Kind(number));
    }
    tensor.check()?;
    Ok(tensor)
}

fn read_shape(mut shape: Cursor, dims: &mut Vec<i64>) -> Result<(), Defect> {
    while let Some((field, content)) = shape.field()? {
        let (2, Content::Delimited(mut dim)) = (field, content) else {
            continue;
        };
        let mut size = 0;
        while let Some((field, content)) = dim.field()? {
            if let (1, Content::Varint(value)) = (field, content) {
                size = value as i64;
            }
        }
        dims.push(size);
    }
    Ok(())
}

impl<'a> Tensor<'a> {
    fn list(&mut self, content: Content<'a>) -> Result<(), Defect> {
        match (self.kind.list, content) {
            (List::Strings, Content::Delimited(string)) => self.strings.push(string.rest()),
            (List::Varints, Content::Varint(value)) => self.push(value),
            (List::Varints, Content::Delimited(mut packed)) => {
                while !packed.is_done() {
                    self.push(packed.varint()?);
                }
            }
            (List::Fixed(4), Content::Fixed32(value)) => self.listed.extend(value.to_le_bytes()),
            (List::Fixed(8), Content::Fixed64(value)) => self.listed.extend(value.to_le_bytes()),
            (List::Fixed(width), Content::Delimited(packed)) => {
                let length = packed.rest().len();
                if length % width != 0 {
                    return Err(Malformed::Truncated { at: packed.at() }.into());
                }
                self.listed.extend(packed.rest());
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, value: u64) {
        let value = if self.kind.number == BOOL {
            u64::from(value != 0)
        } else {
            value
        };
        self.listed.extend(&value.to_le_bytes()[..self.kind.width]);
    }

    fn check(&mut self) -> Result<(), Defect> {
        let mut items: usize = 1;
        for &dim in &self.dims {
            let dim = usize::try_from(dim).map_err(|_| Defect::Shape)?;
            items = items.checked_mul(dim).ok_or(Defect::Shape)?;
        }
        self.items = items;
        if self.kind.number == STRING {
            return self.check_strings();
        }
        let size = items.checked_mul(self.kind.width).ok_or(Defect::Shape)?;
        if isize::try_from(size).is_err() {
            return Err(Defect::Shape);
        }
        if !self.content.is_empty() {
            let found = self.content.len();
            return (found == size)
                .then_some(())
                .ok_or(Defect::Content(found, size));
        }
        let whole = self.listed.len() / self.kind.width * self.kind.width;
        self.listed.truncate(whole);
        if whole < size && size > MOST_FILLED {
            return Err(Defect::Filled(size));
        }
        Ok(())
    }

    fn check_strings(&mut self) -> Result<(), Defect> {
        if !self.content.is_empty() {
            self.strings = packed_strings(self.content, self.items)?;
            return Ok(());
        }
        let size = self.items.saturating_mul(8);
        if self.strings.len() < self.items && size > MOST_FILLED {
            return Err(Defect::Filled(size));
        }
        Ok(())
    }

    /// Bytes of all items, without those of strings.
    pub fn size(&self) -> usize {
        self.items * self.kind.width
    }

    /// Writes the items: what is not given repeats the last value, or is zero without one.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let size = self.size();
        if self.content.is_empty() {
            let given = self.listed.len().min(size);
            out.extend(&self.listed[..given]);
            let last = self.listed[..given].len().checked_sub(self.kind.width);
            let last = last.map_or(&[0; 16][..self.kind.width], |at| &self.listed[at..given]);
            while out.len() < start + size {
                out.extend(last);
            }
        } else {
            out.extend(self.content);
        }
        if self.kind.number == BOOL {
            out[start..]
                .iter_mut()
                .for_each(|item| *item = u8::from(*item != 0));
        }
    }

    /// The items of a tensor of strings.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let last = self.strings.last().copied().unwrap_or_default();
        (0..self.items).map(move |i| self.strings.get(i).copied().unwrap_or(last))
    }
}

/// Strings of which the content holds all lengths, then all bytes.
fn packed_strings(content: &[u8], count: usize) -> Result<Vec<&[u8]>, Defect> {
    let mut cursor = Cursor::new(content);
    if count > content.len() {
        return Err(Defect::Strings);
    }
    let lengths = (0..count)
        .map(|_| cursor.varint())
        .collect::<Result<Vec<_>, _>>()?;
    let mut rest = cursor.rest();
    let mut strings = Vec::with_capacity(count);
    for length in lengths {
        let length = usize::try_from(length).map_err(|_| Defect::Strings)?;
        if length > rest.len() {
            return Err(Defect::Strings);
        }
        let (string, left) = rest.split_at(length);
        strings.push(string);
        rest = left;
    }
    if rest.is_empty() {
        Ok(strings)
    } else {
        Err(Defect::Strings)
    }
}
