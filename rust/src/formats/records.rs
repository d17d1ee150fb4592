//! Records of files: bytes in, whole records out, whatever the bytes are.
//!
//! Nothing here trusts a length: memory grows with the bytes that have come, and a record that is
//! damaged or cut off is a failure that says its place.

pub mod defect;
pub mod encoder;
pub mod format;
pub mod inflate;
pub mod reader;
pub mod window;

#[cfg(test)]
mod tests;

/// How a file is compressed, by TensorFlow's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zlib,
}

impl Compression {
    /// The compression of this name; `""` is none.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" => Some(Self::None),
            "GZIP" => Some(Self::Gzip),
            "ZLIB" => Some(Self::Zlib),
            _ => None,
        }
    }
}
