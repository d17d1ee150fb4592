//! The bytes of a TFRecord file.

use super::format::masked_crc;
use super::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Write};
use std::mem;

/// Frames records and compresses them; what is to be written is taken out from time to time.
pub enum Encoder {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zlib(ZlibEncoder<Vec<u8>>),
}

impl Encoder {
    /// Compresses with a zlib level of 0 to 9.
    pub fn new(compression: Compression, level: u32) -> Self {
        let level = flate2::Compression::new(level);
        match compression {
            Compression::None => Self::Plain(Vec::new()),
            Compression::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), level)),
            Compression::Zlib => Self::Zlib(ZlibEncoder::new(Vec::new(), level)),
        }
    }

    /// Adds a record; returns how many bytes wait to be taken.
    pub fn add(&mut self, record: &[u8]) -> io::Result<usize> {
        let length = (record.len() as u64).to_le_bytes();
        let sink = self.sink();
        sink.write_all(&length)?;
        sink.write_all(&masked_crc(&length).to_le_bytes())?;
        sink.write_all(record)?;
        sink.write_all(&masked_crc(record).to_le_bytes())?;
        Ok(self.out().len())
    }

    /// What there is to write by now; after `flush`, all that was added.
    pub fn take(&mut self) -> Vec<u8> {
        mem::take(self.out())
    }

    /// Has the compressor give out all that it holds.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink().flush()
    }

    /// Ends the stream; nothing may be added any more.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Zlib(encoder) => encoder.try_finish(),
        }
    }

    fn sink(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder,
            Self::Zlib(encoder) => encoder,
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zlib(encoder) => encoder.get_mut(),
        }
    }
}
