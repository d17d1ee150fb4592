//! What can be wrong with the bytes of an image.

use std::fmt;

/// Why bytes are no image that can be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Where in the bytes, if it is at one place.
    pub offset: Option<usize>,
    pub what: String,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bytes are damaged.
    Damaged,
    /// The bytes end too early.
    Truncated,
    /// They are valid, and of a kind that is not decoded here.
    Unsupported,
    /// The image would be larger than allowed.
    TooLarge,
    /// What was asked for does not fit the image.
    Request,
}

impl Defect {
    pub fn damaged(offset: usize, what: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, Some(offset), what)
    }

    pub fn truncated(offset: usize, what: impl Into<String>) -> Self {
        Self::new(Kind::Truncated, Some(offset), what)
    }

    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, None, what)
    }

    pub fn too_large(what: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, None, what)
    }

    pub fn request(what: impl Into<String>) -> Self {
        Self::new(Kind::Request, None, what)
    }

    pub fn new(kind: Kind, offset: Option<usize>, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { offset, what, kind }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{}, at byte {offset}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
