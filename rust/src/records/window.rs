//! The bytes of a file that are at hand.

use super::defect::{Cause, Defect, MOST_BYTES};
use std::io::{self, Read};
use std::ops::Range;

/// Reads a file in order and holds what was read and not used.
pub struct Window {
    input: Box<dyn Read + Send>,
    chunk: usize,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    ended: bool,
}

impl Window {
    /// Reads `input`, which begins `offset` bytes into its file, by at least `chunk` bytes at a
    /// time.
    pub fn new(input: Box<dyn Read + Send>, chunk: usize, offset: u64) -> Self {
        Self {
            input,
            chunk: chunk.max(1),
            bytes: Vec::new(),
            start: 0,
            end: 0,
            offset,
            ended: false,
        }
    }

    /// How many bytes of the file were used.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the file ends with what is at hand.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// What is at hand.
    pub fn known(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where a part of what is at hand is, as `at` takes it.
    pub fn place(&self, part: Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }

    /// The bytes of a place, also after they were used; not after more was read.
    pub fn at(&self, place: &Range<usize>) -> &[u8] {
        &self.bytes[place.clone()]
    }

    /// How much memory there is for bytes.
    pub fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Uses the first `count` bytes.
    pub fn pass(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads more behind what is held. The window at most doubles, so that it grows with the bytes
    /// that are really there, not with what a record says of itself.
    pub fn fill(&mut self, missing: usize) -> Result<(), Cause> {
        self.bytes.copy_within(self.start..self.end, 0);
        let held = self.end - self.start;
        (self.start, self.end) = (0, held);
        if held as u64 > MOST_BYTES + (1 << 10) {
            let length = held as u64;
            return Err(Cause::Defect(Defect::TooLong { length }));
        }
        let room = missing.min(held).max(self.chunk);
        self.make_room(held + room).map_err(Cause::Io)?;
        self.end += read(&mut self.input, &mut self.bytes[held..]).map_err(Cause::Io)?;
        self.ended = self.end == held;
        Ok(())
    }

    fn make_room(&mut self, size: usize) -> io::Result<()> {
        let further = size.saturating_sub(self.bytes.len());
        let reserved = self.bytes.try_reserve_exact(further);
        reserved.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.bytes.resize(size.max(self.bytes.len()), 0);
        Ok(())
    }
}

fn read(input: &mut dyn Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
