//! What can be wrong with an archive.

use std::fmt;
use std::io;

/// Bytes that are no tar archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Defect {
    /// A header's checksum is wrong.
    Checksum { compressed: bool },
    /// A number in a header or a pax record cannot be read.
    Number { field: &'static str },
    /// The records of a pax header do not have its form.
    Pax,
    /// A member, or all members of a sample together, are longer than the limit.
    TooLong { bytes: u64, most: u64 },
    /// A header that only names another member is longer than any name.
    LongName { bytes: u64 },
    /// The file ends within a member.
    Truncated { missing: u64 },
    /// The file ends without the archive's end.
    NoEnd,
    /// Other bytes than zeros follow the archive's end.
    AfterEnd,
    /// A member is sparse.
    Sparse { path: String },
}

impl Defect {
    /// Whether all members before it are whole.
    pub fn is_past_members(&self) -> bool {
        matches!(self, Self::NoEnd | Self::AfterEnd)
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { compressed: true } => write!(
                to,
                "no tar archive: these bytes look compressed, pass compression_type=\"GZIP\""
            ),
            Self::Checksum { compressed: false } => write!(
                to,
                "the checksum of a member's header is wrong; is this a tar archive, and not \
                 damaged?"
            ),
            Self::Number { field } => write!(to, "a member's {field} is no number"),
            Self::Pax => write!(to, "a pax header is damaged"),
            Self::TooLong { bytes, most } => write!(
                to,
                "a sample of {bytes} bytes or more; the limit is {most}, see max_bytes"
            ),
            Self::LongName { bytes } => write!(to, "a name or pax header of {bytes} bytes"),
            Self::Truncated { missing } => write!(
                to,
                "the file ends within a member, {missing} or more bytes are missing"
            ),
            Self::NoEnd => write!(
                to,
                "the file ends without an archive's end (zeros): it may have been cut off"
            ),
            Self::AfterEnd => write!(
                to,
                "bytes follow the archive's end: were archives joined? (tar --concatenate joins \
                 them rightly)"
            ),
            Self::Sparse { path } => write!(to, "{path} is a sparse file, which is not supported"),
        }
    }
}

/// Why an archive cannot be read on.
#[derive(Debug)]
pub enum Cause {
    Defect(Defect),
    Io(io::Error),
}

impl From<Defect> for Cause {
    fn from(defect: Defect) -> Self {
        Self::Defect(defect)
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
