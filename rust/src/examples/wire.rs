//! Protocol buffers' wire format.

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

    /// Goes on `count` bytes, which `rest` has.
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
