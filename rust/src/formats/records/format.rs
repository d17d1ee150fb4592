//! Where records begin and end.

use super::defect::{Defect, MOST_BYTES};
use std::borrow::Cow;
use std::ops::Range;

const LENGTH_BYTES: usize = 8;
const CRC_BYTES: usize = 4;
const HEADER_BYTES: usize = LENGTH_BYTES + CRC_BYTES;

/// How records follow one another in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TensorFlow's framing: length, its checksum, data, their checksum.
    TfRecord,
    /// Lines of text; the end of the file ends the last.
    Lines,
    /// Records of one length, between a header and a footer.
    Fixed {
        record: usize,
        header: usize,
        footer: usize,
    },
}

/// What stands at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A record, and how many bytes it takes with all that belongs to it.
    Record { data: Range<usize>, used: usize },
    /// Part of one: at least so many bytes more are needed.
    More(usize),
    /// Nothing more to come.
    End,
}

/// The bytes of a file from some place on, up to where they are known.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub bytes: &'a [u8],
    /// Where they begin in the file.
    pub offset: u64,
    /// How many of them were looked at before, in vain.
    pub seen: usize,
    /// Whether the file ends with them.
    pub ended: bool,
}

impl Format {
    /// What the bytes of a record stand for: carriage returns are no part of a line, wherever they
    /// are, as in TensorFlow.
    pub fn content<'a>(&self, data: &'a [u8]) -> Cow<'a, [u8]> {
        if *self != Self::Lines || memchr::memchr(b'\r', data).is_none() {
            return Cow::Borrowed(data);
        }
        let kept = data.iter().copied().filter(|&byte| byte != b'\r');
        Cow::Owned(kept.collect())
    }

    /// The record at the start of a view.
    pub fn find(&self, view: View<'_>) -> Result<Found, Defect> {
        match *self {
            Self::TfRecord => tf_record(view),
            Self::Lines => Ok(line(view)),
            Self::Fixed {
                record,
                header,
                footer,
            } => {
                let lead = if view.offset == 0 { header } else { 0 };
                fixed(view, record, lead, footer)
            }
        }
    }
}

fn tf_record(View { bytes, ended, .. }: View<'_>) -> Result<Found, Defect> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return if bytes.is_empty() && ended {
            Ok(Found::End)
        } else {
            missing(HEADER_BYTES - bytes.len(), ended)
        };
    };
    let (length, crc) = header.split_at(LENGTH_BYTES);
    if masked_crc(length) != little_endian(crc) {
        let compressed = matches!(header, [0x1f, 0x8b, ..] | [0x78, ..]);
        return Err(Defect::Length { compressed });
    }
    let length = u64::from(little_endian(&length[4..])) << 32 | u64::from(little_endian(length));
    if length > MOST_BYTES {
        return Err(Defect::TooLong { length });
    }
    let size = length as usize;
    if rest.len() < size + CRC_BYTES {
        return missing(size + CRC_BYTES - rest.len(), ended);
    }
    if masked_crc(&rest[..size]) != little_endian(&rest[size..]) {
        return Err(Defect::Data { length });
    }
    Ok(Found::Record {
        data: HEADER_BYTES..HEADER_BYTES + size,
        used: HEADER_BYTES + size + CRC_BYTES,
    })
}

fn little_endian(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn missing(bytes: usize, ended: bool) -> Result<Found, Defect> {
    if ended {
        let missing = bytes as u64;
        return Err(Defect::Truncated { missing });
    }
    Ok(Found::More(bytes))
}

fn line(view: View<'_>) -> Found {
    let View { bytes, seen, .. } = view;
    match memchr::memchr(b'\n', &bytes[seen..]) {
        Some(place) => Found::Record {
            data: 0..seen + place,
            used: seen + place + 1,
        },
        None if !view.ended => Found::More(1),
        None if bytes.is_empty() => Found::End,
        None => Found::Record {
            data: 0..bytes.len(),
            used: bytes.len(),
        },
    }
}

fn fixed(view: View<'_>, record: usize, lead: usize, footer: usize) -> Result<Found, Defect> {
    let bytes = view.bytes.len();
    let needed = lead.saturating_add(record).saturating_add(footer);
    if bytes >= needed {
        return Ok(Found::Record {
            data: lead..lead + record,
            used: lead + record,
        });
    }
    let around = lead.saturating_add(footer);
    match bytes {
        _ if !view.ended => Ok(Found::More(needed - bytes)),
        _ if bytes == around => Ok(Found::End),
        _ if bytes < around && view.offset == 0 => Err(Defect::TooShort { bytes }),
        _ => Err(Defect::Partial {
            bytes: bytes.saturating_sub(lead),
            record,
            footer,
        }),
    }
}

/// Added by TensorFlow to a rotated CRC32C.
const MASK: u32 = 0xa282_ead8;

/// The CRC32C of `bytes`, rotated and shifted, so that a CRC may be computed of data with CRCs in it.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}
