//! What can be wrong with a record.

use std::fmt;
use std::io;

/// Longer records and lines are refused; protocol buffers have the same limit.
pub const MOST_BYTES: u64 = 1 << 31;

/// Bytes that are no record.
#[derive(Debug, PartialEq, Eq)]
pub enum Defect {
    /// The file ends within a record's framing or data.
    Truncated { missing: u64 },
    /// The checksum of a length is wrong.
    Length { compressed: bool },
    /// The checksum of a record's data is wrong.
    Data { length: u64 },
    /// A record is longer than `MOST_BYTES`.
    TooLong { length: u64 },
    /// A file of records of one length ends with fewer bytes.
    Partial {
        bytes: usize,
        record: usize,
        footer: usize,
    },
    /// A file has fewer bytes than its header and footer.
    TooShort { bytes: usize },
}

impl fmt::Display for Defect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing } => write!(
                to,
                "the file ends within a record, {missing} or more bytes are missing"
            ),
            Self::Length { compressed: true } => write!(
                to,
                "no TFRecord: these bytes look compressed, pass compression_type=\"GZIP\" or \
                 \"ZLIB\""
            ),
            Self::Length { compressed: false } => write!(
                to,
                "the checksum of the record's length is wrong; is this a TFRecord file, \
                 and not compressed?"
            ),
            Self::Data { length } => write!(
                to,
                "the checksum of the record's {length} bytes is wrong: they were changed or \
                 overwritten"
            ),
            Self::TooLong { length } => write!(
                to,
                "a record of {length} bytes or more; the limit is {MOST_BYTES}"
            ),
            Self::Partial {
                bytes,
                record,
                footer,
            } => write!(
                to,
                "{bytes} bytes are left; a record has record_bytes={record}, and footer_bytes={\
                 footer} follow the last"
            ),
            Self::TooShort { bytes } => write!(
                to,
                "the file has {bytes} bytes, fewer than its header and footer"
            ),
        }
    }
}

/// Why no further record can be had.
#[derive(Debug)]
pub enum Cause {
    Defect(Defect),
    Io(io::Error),
}

/// A record that could not be read, and where it begins.
#[derive(Debug)]
pub struct Failure {
    pub cause: Cause,
    /// Bytes of the (decompressed) file before the record.
    pub offset: u64,
    /// Records of the file before it.
    pub number: u64,
}
