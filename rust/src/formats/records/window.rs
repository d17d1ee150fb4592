//! The bytes of a file that are buffered.

use super::defect::{Cause, Defect, MOST_BYTES};
use std::io::{self, Read};
use std::sync::Arc;

/// Buffers that were given out and are kept for when they come back.
const SPARE: usize = 8;

/// Reads a file in order and holds what was read and not used, and of what was used the last part.
pub struct Window {
    input: Box<dyn Read + Send>,
    chunk: usize,
    bytes: Arc<Vec<u8>>,
    spare: Vec<Arc<Vec<u8>>>,
    kept: usize,
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
            bytes: Arc::default(),
            spare: Vec::new(),
            kept: 0,
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

    /// Whether the file ends with what is buffered.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// What is buffered.
    pub fn known(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How many bytes were used and are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The memory in which what is kept stays as it is, and where there it begins.
    pub fn shared(&self) -> (Arc<Vec<u8>>, usize) {
        (self.bytes.clone(), self.start - self.kept)
    }

    /// What is kept.
    pub fn seen(&self) -> &[u8] {
        &self.bytes[self.start - self.kept..self.start]
    }

    /// How much memory there is for bytes.
    pub fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Uses the first `count` bytes, and keeps nothing.
    pub fn pass(&mut self, count: usize) {
        self.keep(count);
        self.forget();
    }

    /// Uses the first `count` bytes, and keeps them until `forget`.
    pub fn keep(&mut self, count: usize) {
        self.start += count;
        self.kept += count;
        self.offset += count as u64;
    }

    /// Keeps nothing of what was used.
    pub fn forget(&mut self) {
        self.kept = 0;
    }

    /// Reads more behind what is held. The window at most doubles, so that it grows with the bytes
    /// that are really there, not with what a record says of itself.
    pub fn fill(&mut self, missing: usize) -> Result<(), Cause> {
        let held = self.end - self.start;
        if held as u64 > MOST_BYTES + (1 << 10) {
            let length = held as u64;
            return Err(Cause::Defect(Defect::TooLong { length }));
        }
        let size = self.kept + held + missing.min(held).max(self.chunk);
        self.make_room(size).map_err(Cause::Io)?;
        let end = self.kept + held;
        (self.start, self.end) = (self.kept, end);
        // No other owner has the buffer after `make_room`.
        let bytes = Arc::make_mut(&mut self.bytes);
        self.end += read(&mut self.input, &mut bytes[end..]).map_err(Cause::Io)?;
        self.ended = self.end == end;
        Ok(())
    }

    /// Moves what is kept and held to the start of a buffer of at least `size` bytes that has
    /// no other owner.
    fn make_room(&mut self, size: usize) -> io::Result<()> {
        let held = self.start - self.kept..self.end;
        if let Some(bytes) = Arc::get_mut(&mut self.bytes) {
            bytes.copy_within(held, 0);
            return grow(bytes, size);
        }
        let mut next = self.unused();
        if let Some(bytes) = Arc::get_mut(&mut next) {
            grow(bytes, size)?;
            bytes[..held.len()].copy_from_slice(&self.bytes[held]);
        }
        let given = std::mem::replace(&mut self.bytes, next);
        if self.spare.len() < SPARE {
            self.spare.push(given);
        }
        Ok(())
    }

    /// A buffer that was given out and came back, or a new one.
    fn unused(&mut self) -> Arc<Vec<u8>> {
        let back = |spare: &Arc<Vec<u8>>| Arc::strong_count(spare) == 1;
        match self.spare.iter().position(back) {
            Some(place) => self.spare.swap_remove(place),
            None => Arc::default(),
        }
    }
}

fn grow(bytes: &mut Vec<u8>, size: usize) -> io::Result<()> {
    let further = size.saturating_sub(bytes.len());
    let reserved = bytes.try_reserve_exact(further);
    reserved.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    bytes.resize(size.max(bytes.len()), 0);
    Ok(())
}

fn read(input: &mut dyn Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
