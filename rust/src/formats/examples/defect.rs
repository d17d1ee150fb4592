//! Why a record cannot be parsed.

use super::schema::Kind;
use std::fmt;

/// Bytes that are no protocol buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes end within a field.
    Truncated { at: usize },
    /// A field says that it is longer than the message around it.
    Length { at: usize, length: u64, left: usize },
    /// An integer of more than 10 bytes.
    Varint { at: usize },
    /// No field can begin like this.
    Tag { at: usize },
    /// Packed floats that are not a multiple of 4 bytes.
    Floats { at: usize, length: usize },
}

impl Malformed {
    /// The byte of the record where it was found.
    pub fn at(&self) -> usize {
        match *self {
            Self::Truncated { at }
            | Self::Length { at, .. }
            | Self::Varint { at }
            | Self::Tag { at }
            | Self::Floats { at, .. } => at,
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { .. } => write!(to, "the bytes end within a field"),
            Self::Length { length, left, .. } => write!(
                to,
                "a field says that it has {length} bytes, of which {left} are there"
            ),
            Self::Varint { .. } => write!(to, "an integer has more than 10 bytes"),
            Self::Tag { .. } => write!(to, "no field begins with these bytes"),
            Self::Floats { length, .. } => {
                write!(to, "{length} bytes of packed floats are no multiple of 4")
            }
        }
    }
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    Malformed(Malformed),
    /// A feature without a default is not there.
    Missing,
    /// A list of frames is not there.
    MissingList,
    /// A feature holds values of another kind, or of none.
    Kind {
        found: Option<Kind>,
        wanted: Kind,
    },
    /// A feature of fixed shape has another number of values.
    Count {
        found: usize,
        wanted: usize,
    },
    /// The number of values is no multiple of those of an item.
    Multiple {
        found: usize,
        of: usize,
    },
    /// No memory for the values.
    Memory,
}

impl fmt::Display for Defect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(to),
            Self::Missing => write!(
                to,
                "it is missing; if records may lack it, give it a default_value"
            ),
            Self::MissingList => write!(
                to,
                "the list is missing; if records may lack it, pass allow_missing=True"
            ),
            Self::Kind { found, wanted } => {
                let found = found.map_or("no", Kind::name);
                let wanted = wanted.name();
                write!(to, "it holds {found} values, but its dtype is {wanted}")
            }
            Self::Count { found, wanted } => write!(
                to,
                "it holds {found} values, but its shape has {wanted}; where the number varies, use \
                 VarLenFeature"
            ),
            Self::Multiple { found, of } => write!(
                to,
                "it holds {found} values, which is no multiple of the {of} that its shape has"
            ),
            Self::Memory => write!(to, "there is no memory for the values; parse fewer records"),
        }
    }
}

impl From<Malformed> for Defect {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// A record that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its position among the records.
    pub row: usize,
    /// The feature's position in the schema, and which frame of it.
    pub feature: Option<usize>,
    pub frame: Option<usize>,
    /// Bytes of the record before; None if something is missing.
    pub offset: Option<usize>,
    pub defect: Defect,
}

/// A failure before it is known which row and feature it is in.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub offset: Option<usize>,
    pub defect: Defect,
}

impl From<Malformed> for Found {
    fn from(malformed: Malformed) -> Self {
        Self {
            offset: Some(malformed.at()),
            defect: malformed.into(),
        }
    }
}
