//! Records of a stream of bytes, many at a time.

use super::defect::{Cause, Defect, Failure, MOST_BYTES};
use super::format::{Format, Found, View};
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// Reads a file's records in order. Once it failed or came to the end it has no more.
pub struct Reader {
    input: Box<dyn Read + Send>,
    format: Format,
    chunk: usize,
    window: Vec<u8>,
    start: usize,
    end: usize,
    seen: usize,
    offset: u64,
    number: u64,
    ended: bool,
    done: bool,
}

/// Whole records, as places in the reader's window until it is asked again, and what came after.
pub struct Records {
    pub places: Vec<Range<usize>>,
    pub failure: Option<Failure>,
}

impl Reader {
    /// Reads `input`, which begins `offset` bytes and `number` records into its file, by at least
    /// `chunk` bytes at a time.
    pub fn new(
        input: Box<dyn Read + Send>,
        format: Format,
        chunk: usize,
        offset: u64,
        number: u64,
    ) -> Self {
        Self {
            input,
            format,
            chunk: chunk.max(1),
            window: Vec::new(),
            start: 0,
            end: 0,
            seen: 0,
            offset,
            number,
            ended: false,
            done: false,
        }
    }

    /// How many bytes and records of the file came before the next record.
    pub fn position(&self) -> (u64, u64) {
        (self.offset, self.number)
    }

    /// The record at a place that the last `next` gave.
    pub fn record(&self, place: &Range<usize>) -> Cow<'_, [u8]> {
        self.format.content(&self.window[place.clone()])
    }

    /// How many bytes of memory the records are read into.
    pub fn room(&self) -> usize {
        self.window.capacity()
    }

    /// Up to `limit` records: as many as are at hand, at least one; none at the end.
    pub fn next(&mut self, limit: usize) -> Records {
        let mut places = Vec::new();
        let mut failure = None;
        while places.len() < limit && !self.done {
            let view = View {
                bytes: &self.window[self.start..self.end],
                offset: self.offset,
                seen: self.seen,
                ended: self.ended,
            };
            match self.format.find(view) {
                Ok(Found::Record { data, used }) => {
                    places.push(self.start + data.start..self.start + data.end);
                    self.pass(used);
                }
                Ok(Found::More(_)) if !places.is_empty() => break,
                Ok(Found::More(bytes)) => failure = self.fill(bytes).err(),
                Ok(Found::End) => self.done = true,
                Err(defect) => failure = Some(Cause::Defect(defect)),
            }
            self.done |= failure.is_some();
        }
        let (offset, number) = self.position();
        let failure = failure.map(|cause| Failure {
            cause,
            offset,
            number,
        });
        Records { places, failure }
    }

    fn pass(&mut self, used: usize) {
        self.start += used;
        self.seen = 0;
        self.offset += used as u64;
        self.number += 1;
    }

    /// Reads more behind what is held. The window at most doubles, so that it grows with the bytes
    /// that are really there, not with what a record says of itself.
    fn fill(&mut self, missing: usize) -> Result<(), Cause> {
        self.window.copy_within(self.start..self.end, 0);
        let held = self.end - self.start;
        (self.start, self.end, self.seen) = (0, held, held);
        if held as u64 > MOST_BYTES + (1 << 10) {
            let length = held as u64;
            return Err(Cause::Defect(Defect::TooLong { length }));
        }
        let room = missing.min(held).max(self.chunk);
        self.make_room(held + room).map_err(Cause::Io)?;
        self.end += read(&mut self.input, &mut self.window[held..]).map_err(Cause::Io)?;
        self.ended = self.end == held;
        Ok(())
    }

    fn make_room(&mut self, size: usize) -> io::Result<()> {
        let further = size.saturating_sub(self.window.len());
        let reserved = self.window.try_reserve_exact(further);
        reserved.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.window.resize(size.max(self.window.len()), 0);
        Ok(())
    }
}

/// Reads and forgets `count` bytes, or as many as there are.
pub fn skip(input: &mut dyn Read, count: u64) -> io::Result<()> {
    io::copy(&mut input.take(count), &mut io::sink()).map(|_| ())
}

fn read(input: &mut dyn Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
