//! The members of an archive, in order.

use super::defect::{Cause, Defect};
use super::header::{self, Kind, BLOCK};
use super::header::{parse_pax, Pax};
use std::io::{self, Read};

/// Names and pax headers that are longer are taken for damage.
const MOST_NAME: u64 = 1 << 20;

/// An archive that is read in order.
pub struct Archive {
    input: Box<dyn Read + Send>,
    offset: u64,
    padding: u64,
    ended: bool,
}

/// A file in the archive, whose content is to be read or passed over next.
#[derive(Debug)]
pub struct Member {
    pub path: Vec<u8>,
    pub size: u64,
    /// Where its headers begin.
    pub start: u64,
}

impl Archive {
    /// Reads `input`, which begins `offset` bytes into the archive, before a member's headers.
    pub fn new(input: Box<dyn Read + Send>, offset: u64) -> Self {
        Self {
            input,
            offset,
            padding: 0,
            ended: false,
        }
    }

    /// Bytes before what is read next; at the end, before the blocks that mark it.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next file; folders, links and the like are passed over. `None` at the end.
    pub fn next_member(&mut self) -> Result<Option<Member>, Cause> {
        if self.ended {
            return Ok(None);
        }
        let mut name: Option<Vec<u8>> = None;
        let mut pax = Pax::default();
        let mut start = None;
        loop {
            self.pass_padding()?;
            let begun = *start.get_or_insert(self.offset);
            let Some(header) = self.header()? else {
                self.ended = true;
                self.check_rest()?;
                return Ok(None);
            };
            match header.kind {
                Kind::LongName => {
                    let mut content = self.short(header.size)?;
                    content.truncate(memchr::memchr(0, &content).unwrap_or(content.len()));
                    name = Some(content);
                    continue;
                }
                Kind::Pax => {
                    pax = parse_pax(&self.short(header.size)?)?;
                    continue;
                }
                Kind::Note => {
                    self.pass(header.size)?;
                    continue;
                }
                _ => {}
            }
            let path = pax.path.take().or(name.take()).unwrap_or(header.path);
            let size = pax.size.take().unwrap_or(header.size);
            match header.kind {
                Kind::File if !pax.sparse => {
                    let start = begun;
                    return Ok(Some(Member { path, size, start }));
                }
                Kind::File | Kind::Sparse => {
                    let path = String::from_utf8_lossy(&path).into_owned();
                    return Err(Defect::Sparse { path }.into());
                }
                _ => {
                    self.pass(size)?;
                    (start, pax) = (None, Pax::default());
                }
            }
        }
    }

    /// The content of a member of `size` bytes.
    pub fn content(&mut self, size: u64) -> Result<Vec<u8>, Cause> {
        let mut content = Vec::new();
        let found = (&mut self.input).take(size).read_to_end(&mut content)? as u64;
        self.took(found, size)?;
        Ok(content)
    }

    /// Passes over a member's content.
    pub fn pass(&mut self, size: u64) -> Result<(), Cause> {
        let found = io::copy(&mut (&mut self.input).take(size), &mut io::sink())?;
        self.took(found, size)
    }

    fn took(&mut self, found: u64, size: u64) -> Result<(), Cause> {
        self.offset += found;
        if found < size {
            let missing = size - found;
            return Err(Defect::Truncated { missing }.into());
        }
        self.padding = size.wrapping_neg() % BLOCK as u64;
        Ok(())
    }

    fn short(&mut self, size: u64) -> Result<Vec<u8>, Cause> {
        if size > MOST_NAME {
            return Err(Defect::LongName { bytes: size }.into());
        }
        let content = self.content(size)?;
        self.pass_padding()?;
        Ok(content)
    }

    fn pass_padding(&mut self) -> Result<(), Cause> {
        let padding = std::mem::take(&mut self.padding);
        self.pass(padding)?;
        self.padding = 0;
        Ok(())
    }

    /// The header at this place; `None` at the end. A file without any byte is an empty archive.
    fn header(&mut self) -> Result<Option<header::Header>, Cause> {
        let mut block = [0; BLOCK];
        let found = fill(&mut self.input, &mut block)?;
        match found {
            BLOCK => {
                let header = header::parse(&block)?;
                self.offset += header.as_ref().map_or(0, |_| BLOCK as u64);
                Ok(header)
            }
            0 if self.offset == 0 => Ok(None),
            0 => Err(Defect::NoEnd.into()),
            _ => {
                let missing = (BLOCK - found) as u64;
                Err(Defect::Truncated { missing }.into())
            }
        }
    }

    /// Sees that zeros alone follow, which is so if nothing was put behind the archive.
    fn check_rest(&mut self) -> Result<(), Cause> {
        let mut block = [0; 8 * BLOCK];
        loop {
            let found = fill(&mut self.input, &mut block)?;
            if block[..found].iter().any(|&byte| byte != 0) {
                return Err(Defect::AfterEnd.into());
            }
            if found < block.len() {
                return Ok(());
            }
        }
    }
}

/// Reads until `to` is full or the input ends.
fn fill(input: &mut dyn Read, to: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < to.len() {
        match input.read(&mut to[found..]) {
            Ok(0) => break,
            Ok(count) => found += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
