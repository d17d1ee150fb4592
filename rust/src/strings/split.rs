//! Strings cut into parts.

use super::numbers::is_space;
use memchr::memmem::Finder;

/// Where strings are cut.
pub enum Splitter {
    /// At runs of white space, which gives no empty parts.
    Space,
    /// At each occurrence of a string.
    At(Box<Finder<'static>>),
}

impl Splitter {
    /// Cuts at `separator`, at white space if that is empty.
    pub fn new(separator: &[u8]) -> Self {
        if separator.is_empty() {
            return Self::Space;
        }
        Self::At(Box::new(Finder::new(separator).into_owned()))
    }

    /// Calls `part` with each part of `text`, which is cut `most` times at most if that is not
    /// negative.
    pub fn each<'a>(&self, text: &'a [u8], most: i64, mut part: impl FnMut(&'a [u8])) {
        if most == 0 {
            return part(text);
        }
        match self {
            Self::Space => at_space(text, most, part),
            Self::At(finder) => {
                let (mut rest, mut cuts) = (text, 0);
                while let Some(place) = finder.find(rest) {
                    part(&rest[..place]);
                    rest = &rest[place + finder.needle().len()..];
                    cuts += 1;
                    if cuts == most {
                        break;
                    }
                }
                part(rest);
            }
        }
    }
}

fn at_space<'a>(text: &'a [u8], most: i64, mut part: impl FnMut(&'a [u8])) {
    let (mut rest, mut cuts) = (after_space(text), 0);
    while !rest.is_empty() {
        let end = rest.iter().position(is_space).unwrap_or(rest.len());
        part(&rest[..end]);
        rest = after_space(&rest[end..]);
        cuts += 1;
        if cuts == most {
            // TensorFlow gives the rest as a part even if nothing is left.
            return part(rest);
        }
    }
}

fn after_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(byte));
    &text[start.unwrap_or(text.len())..]
}
