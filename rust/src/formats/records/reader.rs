//! Records of a stream of bytes, many at a time.

use super::defect::{Cause, Failure};
use super::format::{Format, Found, View};
use super::window::Window;
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

/// Reads a file's records in order. Once it failed or came to the end it has no more.
pub struct Reader {
    window: Window,
    format: Format,
    seen: usize,
    number: u64,
    done: bool,
}

/// Whole records, as places in what the reader has kept of them, and what came after.
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
            window: Window::new(input, chunk, offset),
            format,
            seen: 0,
            number,
            done: false,
        }
    }

    /// How many bytes and records of the file came before the next record.
    pub fn position(&self) -> (u64, u64) {
        (self.window.offset(), self.number)
    }

    /// The record at a place that the last `next` gave.
    pub fn record(&self, place: &Range<usize>) -> Cow<'_, [u8]> {
        self.format.content(&self.window.seen()[place.clone()])
    }

    /// The memory in which the last `next`'s records stay as they are, and where their places begin.
    pub fn shared(&self) -> (Arc<Vec<u8>>, usize) {
        self.window.shared()
    }

    /// How many bytes of memory the records are read into.
    pub fn room(&self) -> usize {
        self.window.room()
    }

    /// Up to `limit` records: those buffered, and more while they have fewer than `nbytes` bytes; at
    /// least one; none at the end.
    pub fn next(&mut self, limit: usize, nbytes: usize) -> Records {
        self.window.forget();
        let mut places = Vec::new();
        let mut failure = None;
        while places.len() < limit && !self.done {
            let view = View {
                bytes: self.window.known(),
                offset: self.window.offset(),
                seen: self.seen,
                ended: self.window.ended(),
            };
            match self.format.find(view) {
                Ok(Found::Record { data, used }) => {
                    let kept = self.window.kept();
                    places.push(kept + data.start..kept + data.end);
                    self.pass(used);
                }
                Ok(Found::More(_)) if !places.is_empty() && self.window.kept() >= nbytes => break,
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
        self.window.keep(used);
        self.seen = 0;
        self.number += 1;
    }

    fn fill(&mut self, missing: usize) -> Result<(), Cause> {
        self.seen = self.window.known().len();
        self.window.fill(missing)
    }
}

/// Reads and forgets `count` bytes, or as many as there are.
pub fn skip(input: &mut dyn Read, count: u64) -> io::Result<()> {
    io::copy(&mut input.take(count), &mut io::sink()).map(|_| ())
}
