//! Protocol buffers' wire format, packed integers of variable length included.

use super::defect::Malformed;

/// How deep groups, which protocol buffers gave up long ago, may be nested.
const MOST_GROUPS: u32 = 100;

/// Reads a message; `at` counts from the start of the record that it is part of.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    /// The record up to the end of the message.
    bytes: &'a [u8],
    at: usize,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    /// Bytes, or a message.
    Delimited(Cursor<'a>),
    Group,
}

impl<'a> Cursor<'a> {
    /// Reads a record from its start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes of the record come before.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is left of the message.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Whether the message ends here.
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Advances by `count` bytes, which `rest` has.
    #[inline(always)]
    pub fn pass(&mut self, count: usize) {
        self.at += count;
    }

    /// The next variable-length integer.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (i, &byte) in self.rest().iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        Err(match self.rest().len() {
            0..10 => Malformed::Truncated { at: self.at },
            _ => Malformed::Varint { at: self.at },
        })
    }

    /// The bytes of a field whose tag has been read.
    #[inline(always)]
    pub fn delimited(&mut self) -> Result<Self, Malformed> {
        let start = self.at;
        let length = self.varint()?;
        let left = self.bytes.len() - self.at;
        if length > left as u64 {
            return Err(Malformed::Length {
                at: start,
                length,
                left,
            });
        }
        let message = Self {
            bytes: &self.bytes[..self.at + length as usize],
            at: self.at,
        };
        self.at += length as usize;
        Ok(message)
    }

    /// The next field's number and content; None at the end of the message.
    #[inline(always)]
    pub fn field(&mut self) -> Result<Option<(u64, Content<'a>)>, Malformed> {
        if self.is_done() {
            return Ok(None);
        }
        let start = self.at;
        let tag = self.varint()?;
        let content = match tag {
            0x0a | 0x12 | 0x1a => Content::Delimited(self.delimited()?),
            _ => self.content(start, tag, 0)?,
        };
        Ok(Some((tag >> 3, content)))
    }

    #[cold]
    fn content(&mut self, start: usize, tag: u64, depth: u32) -> Result<Content<'a>, Malformed> {
        if tag >> 3 == 0 || tag > u64::from(u32::MAX) {
            return Err(Malformed::Tag { at: start });
        }
        match tag & 7 {
            0 => Ok(Content::Varint(self.varint()?)),
            1 => self.fixed().map(u64::from_le_bytes).map(Content::Fixed64),
            2 => self.delimited().map(Content::Delimited),
            3 => self.group(start, tag >> 3, depth),
            5 => self.fixed().map(u32::from_le_bytes).map(Content::Fixed32),
            _ => Err(Malformed::Tag { at: start }),
        }
    }

    fn group(&mut self, start: usize, number: u64, depth: u32) -> Result<Content<'a>, Malformed> {
        if depth == MOST_GROUPS {
            return Err(Malformed::Tag { at: start });
        }
        loop {
            let here = self.at;
            let tag = self.varint()?;
            if tag == number << 3 | 4 {
                return Ok(Content::Group);
            }
            self.content(here, tag, depth + 1)?;
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.rest().first_chunk();
        let bytes = bytes.ok_or(Malformed::Truncated { at: self.at })?;
        self.at += N;
        Ok(*bytes)
    }
}

const LAST: u64 = 0x8080_8080_8080_8080;

/// How many integers the bytes hold: those without a continuation bit end one.
pub fn count(packed: &[u8]) -> usize {
    let ends = |bytes: &[u8]| bytes.iter().map(|&byte| byte >> 7 ^ 1).sum::<u8>();
    // A chunk's sum fits a byte, so that bytes are added as bytes.
    packed.chunks(255).map(|part| usize::from(ends(part))).sum()
}

/// Appends the integers of a packed field.
pub fn decode(mut packed: Cursor<'_>, out: &mut Vec<i64>) -> Result<(), Malformed> {
    while let Some(&first) = packed.rest().first() {
        if first < 0x80 {
            out.push(i64::from(first));
            packed.pass(1);
            continue;
        }
        let word = packed.rest().first_chunk().map(|c| u64::from_le_bytes(*c));
        match word.map(|word| (word, !word & LAST)) {
            Some((word, ends)) if ends != 0 => {
                let bits = ends.trailing_zeros() + 1;
                out.push(joined(word & (u64::MAX >> (64 - bits))) as i64);
                packed.pass(bits as usize / 8);
            }
            _ => out.push(packed.varint()? as i64),
        }
    }
    Ok(())
}

/// Fewer than 8 bytes, not none, as the lowest of an integer.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let low = u64::from(u32::from_le_bytes(*first));
        return low | u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
    }
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    at(0) | at(length / 2) | at(length - 1)
}

/// The integer that fills the lowest `length` bytes, 1 to 8; the others are 0.
#[inline(always)]
pub fn single(bytes: u64, length: usize) -> Option<i64> {
    let last = (!bytes & LAST).trailing_zeros() as usize / 8 + 1;
    (last == length).then(|| joined(bytes) as i64)
}

/// Sets `out` to the integers of a packed field; false if it has not as many.
#[inline]
pub fn fill(packed: &[u8], out: &mut [i64]) -> bool {
    let mut rest = packed;
    let mut out = out.iter_mut();
    while !rest.is_empty() {
        let (bytes, known) = match rest.first_chunk() {
            Some(chunk) => (u64::from_le_bytes(*chunk), u64::MAX),
            None => (short(rest), (1 << (8 * rest.len())) - 1),
        };
        let mut ends = !bytes & LAST & known;
        if ends == 0 {
            let mut one = Cursor::new(rest);
            let (Ok(value), Some(to)) = (one.varint(), out.next()) else {
                return false;
            };
            *to = value as i64;
            rest = one.rest();
            continue;
        }
        let used = 8 - ends.leading_zeros() as usize / 8;
        let mut left = bytes;
        while ends != 0 {
            let Some(to) = out.next() else {
                return false;
            };
            let last = ends.trailing_zeros();
            *to = joined(left & (u64::MAX >> (63 - last))) as i64;
            (left, ends) = (left >> last >> 1, ends >> last >> 1);
        }
        rest = &rest[used..];
    }
    out.next().is_none()
}

/// The low seven bits of each byte, put together.
#[inline(always)]
fn joined(bytes: u64) -> u64 {
    if bytes >> 32 == 0 {
        let sevens = bytes as u32 & !LAST as u32;
        let pairs = (sevens & 0x7f00_7f00) >> 1 | (sevens & 0x007f_007f);
        return ((pairs & 0x3fff_0000) >> 2 | (pairs & 0x3fff)).into();
    }
    let sevens = bytes & !LAST;
    let pairs = (sevens & 0x7f00_7f00_7f00_7f00) >> 1 | (sevens & 0x007f_007f_007f_007f);
    let fours = (pairs & 0x3fff_0000_3fff_0000) >> 2 | (pairs & 0x0000_3fff_0000_3fff);
    (fours & 0x0fff_ffff_0000_0000) >> 4 | (fours & 0x0000_0000_0fff_ffff)
}
