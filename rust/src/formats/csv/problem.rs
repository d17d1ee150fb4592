//! What can be wrong with a record.

use std::fmt;

/// How a field can be written that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A quote within a field that does not begin with one.
    QuoteInside,
    /// A quote within a quoted field that is neither doubled nor the last character.
    QuoteNotDoubled,
    /// The file ends within a quoted field.
    NotClosed,
    /// A line break within a field that is not quoted, of a record given as a string.
    LineBreak,
}

/// Why a record has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A record has another number of fields.
    Count { found: usize, wanted: usize },
    /// A field is empty that has no default.
    Missing,
    /// A field is no number of its type.
    Number { kind: &'static str, text: Vec<u8> },
    /// A field is written as none can be.
    Field(Flaw),
    /// A file that should have a header is empty.
    NoHeader,
}

impl fmt::Display for Flaw {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::QuoteInside => {
                "a quote inside a field that does not begin with one; quote the whole field, or \
                 pass use_quote_delim=False"
            }
            Self::QuoteNotDoubled => "a quote inside a quoted field must be doubled",
            Self::NotClosed => "the end comes within a quoted field",
            Self::LineBreak => {
                "a line break inside a field that is not quoted: one string holds one record"
            }
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { found, wanted } => {
                write!(to, "expected {wanted} fields, the record has {found}")
            }
            Self::Missing => write!(
                to,
                "the field is empty or not available and has no default; give one in \
                 record_defaults"
            ),
            Self::Number { kind, text } => {
                let text = String::from_utf8_lossy(text);
                let start: String = text.chars().take(60).collect();
                write!(to, "{start:?} is no valid {kind}")
            }
            Self::Field(flaw) => flaw.fmt(to),
            Self::NoHeader => write!(to, "the file is empty, and header=True asks for a header"),
        }
    }
}

/// A problem, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    pub problem: Problem,
    /// Which column of the file it is in, from 0 on, if it is in one.
    pub column: Option<usize>,
}
