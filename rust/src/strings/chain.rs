//! Chains of string operations: each string is changed by itself, then cut into parts, without strings
//! in between.

use super::numbers::trimmed;
use super::pattern::{Pattern, Rewrite};
use super::split::Splitter;
use std::sync::Arc;

/// Changes in their order, and where what they give is cut, if it is, and how often at most.
pub struct Chain {
    pub changes: Vec<Change>,
    pub cut: Option<(Splitter, i64)>,
}

/// Memory that is used again from string to string.
#[derive(Default)]
pub struct Room([Vec<u8>; 2]);

impl Chain {
    /// Calls `part` with each part of what `text` becomes.
    pub fn each(&self, text: &[u8], room: &mut Room, part: impl FnMut(&[u8])) {
        let Some((first, others)) = self.changes.split_first() else {
            return self.parts(text, part);
        };
        let [made, next] = &mut room.0;
        made.clear();
        first.append(text, made);
        for change in others {
            next.clear();
            change.append(made, next);
            std::mem::swap(made, next);
        }
        self.parts(made, part);
    }

    fn parts(&self, text: &[u8], mut part: impl FnMut(&[u8])) {
        match &self.cut {
            None => part(text),
            Some((splitter, most)) => splitter.each(text, *most, part),
        }
    }
}

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
