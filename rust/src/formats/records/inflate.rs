//! Decompression that notices when a file is cut off or continues after its end.

use super::Compression;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, BufRead, BufReader, Read};

const WINDOW_BITS: u8 = 15;

/// The decompressed bytes of a source. A file without any byte has none; a GZIP file may have
/// several members.
pub struct Inflate<R> {
    source: BufReader<R>,
    gzip: bool,
    member: Option<Decompress>,
    begun: bool,
}

/// The bytes of a source, decompressed.
pub fn inflated(
    source: impl Read + Send + 'static,
    compression: Compression,
    buffer: usize,
) -> Box<dyn Read + Send> {
    match compression {
        Compression::None => Box::new(source),
        Compression::Gzip | Compression::Zlib => Box::new(Inflate {
            source: BufReader::with_capacity(buffer, source),
            gzip: compression == Compression::Gzip,
            member: None,
            begun: false,
        }),
    }
}

impl<R: Read> Inflate<R> {
    fn next_member(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        if self.begun && !self.gzip {
            return Err(invalid("bytes follow the end of the ZLIB stream"));
        }
        self.begun = true;
        self.member = Some(if self.gzip {
            Decompress::new_gzip(WINDOW_BITS)
        } else {
            Decompress::new(true)
        });
        Ok(true)
    }
}

impl<R: Read> Read for Inflate<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !out.is_empty() {
            if self.member.is_none() && !self.next_member()? {
                return Ok(0);
            }
            let Some(member) = self.member.as_mut() else {
                continue;
            };
            let input = self.source.fill_buf()?;
            let (before_in, before_out) = (member.total_in(), member.total_out());
            let status = member
                .decompress(input, out, FlushDecompress::None)
                .map_err(|error| invalid(&format!("the compressed data is damaged: {error}")))?;
            let taken = (member.total_in() - before_in) as usize;
            let made = (member.total_out() - before_out) as usize;
            if taken == 0 && made == 0 && status != Status::StreamEnd {
                return Err(invalid("the compressed data ends too early"));
            }
            self.source.consume(taken);
            if status == Status::StreamEnd {
                self.member = None;
            }
            if made > 0 {
                return Ok(made);
            }
        }
        Ok(0)
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
