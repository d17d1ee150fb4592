//! Strings changed, each by itself.

use super::numbers::trimmed;
use super::pattern::{Pattern, Rewrite};
use std::sync::Arc;

/// What is made of a string.
pub enum Change {
    Lower,
    Upper,
    /// Of all letters; what is no UTF-8 becomes U+FFFD.
    LowerUnicode,
    UpperUnicode,
    /// Without white space at its ends.
    Strip,
    /// With its matches, or the first of them, replaced.
    Replace {
        pattern: Arc<Pattern>,
        rewrite: Rewrite,
        all: bool,
    },
}

impl Change {
    /// The change of this name, if it is one without arguments.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "lower" => Self::Lower,
            "upper" => Self::Upper,
            "lower utf-8" => Self::LowerUnicode,
            "upper utf-8" => Self::UpperUnicode,
            "strip" => Self::Strip,
            _ => return None,
        })
    }

    /// Appends what `text` becomes.
    pub fn append(&self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Lower => out.extend(text.iter().map(u8::to_ascii_lowercase)),
            Self::Upper => out.extend(text.iter().map(u8::to_ascii_uppercase)),
            Self::LowerUnicode => out.extend(String::from_utf8_lossy(text).to_lowercase().bytes()),
            Self::UpperUnicode => out.extend(String::from_utf8_lossy(text).to_uppercase().bytes()),
            Self::Strip => out.extend_from_slice(trimmed(text)),
            Self::Replace {
                pattern,
                rewrite,
                all,
            } => pattern.replace(text, rewrite, *all, out),
        }
    }
}
