//! The 512 bytes before a member.

use super::defect::Defect;

pub const BLOCK: usize = 512;

const CHECKSUM: std::ops::Range<usize> = 148..156;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    /// Its content is the next member's name (GNU).
    LongName,
    /// Its content is a list of what differs from the next member's header.
    Pax,
    Sparse,
    /// Something about other members: where the next one links to (GNU), or about all.
    Note,
    /// Folders, links, devices.
    Other,
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    pub path: Vec<u8>,
    pub size: u64,
    pub kind: Kind,
}

/// Reads a header; `None` for a block of zeros, which ends an archive.
pub fn parse(block: &[u8; BLOCK]) -> Result<Option<Header>, Defect> {
    if block.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    if !checked(block) {
        let compressed = matches!(block, [0x1f, 0x8b, ..]);
        return Err(Defect::Checksum { compressed });
    }
    let kind = match block[156] {
        b'0' | 0 | b'7' => Kind::File,
        b'L' => Kind::LongName,
        b'x' => Kind::Pax,
        b'S' => Kind::Sparse,
        b'K' | b'g' => Kind::Note,
        _ => Kind::Other,
    };
    Ok(Some(Header {
        path: path(block),
        size: number(&block[124..136]).ok_or(Defect::Number { field: "size" })?,
        kind,
    }))
}

/// Whether the sum of the bytes is as noted, taken as unsigned or, as some writers do, as signed.
fn checked(block: &[u8; BLOCK]) -> bool {
    let Some(noted) = number(&block[CHECKSUM]) else {
        return false;
    };
    let mut spaced = *block;
    spaced[CHECKSUM].fill(b' ');
    let unsigned: i64 = spaced.iter().map(|&byte| i64::from(byte)).sum();
    let signed: i64 = spaced.iter().map(|&byte| i64::from(byte as i8)).sum();
    i64::try_from(noted).is_ok_and(|noted| noted == unsigned || noted == signed)
}

fn path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(&block[..100]);
    let prefix = text(&block[345..500]);
    // GNU's own format has other things where POSIX's has the prefix.
    if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
        return [prefix, b"/", name].concat();
    }
    name.to_vec()
}

fn text(field: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    &field[..end]
}

/// A number in octal digits, or in binary if the first bit is set (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let positive = field[0] == 0x80;
        let value = field[1..].iter().try_fold(0u64, |value, &byte| {
            value.checked_mul(256)?.checked_add(u64::from(byte))
        })?;
        return positive.then_some(value);
    }
    let digits = field
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default()
        .trim_ascii();
    digits.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// What a pax header says of the member after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pax {
    pub path: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub sparse: bool,
}

/// Reads the content of a pax header: records `length key=value`, each ended by a line feed.
pub fn parse_pax(mut rest: &[u8]) -> Result<Pax, Defect> {
    let mut pax = Pax::default();
    while !rest.is_empty() {
        let space = memchr::memchr(b' ', rest).ok_or(Defect::Pax)?;
        let length = decimal(&rest[..space]).ok_or(Defect::Pax)? as usize;
        let record = rest.get(space + 1..length).ok_or(Defect::Pax)?;
        let record = record.strip_suffix(b"\n").ok_or(Defect::Pax)?;
        let equals = memchr::memchr(b'=', record).ok_or(Defect::Pax)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => pax.path = Some(value.to_vec()),
            b"size" => {
                let size = decimal(value).ok_or(Defect::Number { field: "pax size" })?;
                pax.size = Some(size);
            }
            _ => pax.sparse |= key.starts_with(b"GNU.sparse."),
        }
        rest = &rest[length..];
    }
    Ok(pax)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}
