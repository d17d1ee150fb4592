//! The records of a file, many at a time.

use super::columns::{with_room, Column};
use super::layout::Layout;
use super::problem::{Defect, Problem};
use super::record;
use super::regular::Run;
use super::scan::{fields, Place, Reach};
use crate::formats::records::defect::Cause;
use crate::formats::records::window::Window;
use std::io::Read;

/// A place between two records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of the (decompressed) file before it.
    pub offset: u64,
    /// Records before it.
    pub number: u64,
    /// Lines before it.
    pub line: u64,
}

/// Why a record has no values.
#[derive(Debug)]
pub enum ReadError {
    /// The record is bad; others may follow.
    Record(Defect),
    /// Nothing further can be read.
    File(Cause),
}

/// Values of records, and what came after them in place of the next.
pub struct Rows {
    pub columns: Vec<Column>,
    pub count: usize,
    /// What was wrong, and where the record begins.
    pub failure: Option<(ReadError, Position)>,
}

/// Reads a file's records in order. A record that is bad is passed over, as a failure.
pub struct Reader {
    window: Window,
    layout: Layout,
    header: bool,
    position: Position,
    places: Vec<Place>,
    /// How many fields the last record had that was read on its own.
    width: Option<usize>,
    run: Run,
    /// How many records were last read at once.
    before: usize,
    done: bool,
}

impl Reader {
    /// Reads `input`, which begins at `position` of its file, by at least `chunk` bytes at a time.
    /// The first record of the file is not read if it is a header.
    pub fn new(
        input: Box<dyn Read + Send>,
        layout: Layout,
        header: bool,
        chunk: usize,
        position: Position,
    ) -> Self {
        let run = Run::new(&layout);
        Self {
            window: Window::new(input, chunk, position.offset),
            layout,
            header: header && position.offset == 0,
            position,
            places: Vec::new(),
            width: None,
            run,
            before: 0,
            done: false,
        }
    }

    /// The place before the next record.
    pub fn position(&self) -> Position {
        self.position
    }

    /// How the file is read.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Up to `limit` records: as many as are buffered, at least one; none at the end.
    pub fn next(&mut self, limit: usize) -> Rows {
        let mut rows = Rows {
            columns: with_room(&self.layout, limit.min(self.before)),
            count: 0,
            failure: None,
        };
        while rows.count < limit && rows.failure.is_none() && !self.done {
            if self.read_run(limit, &mut rows) {
                continue;
            }
            let Some((used, lines)) = self.find() else {
                if rows.count > 0 && !self.window.ended() {
                    break;
                }
                if let Err(cause) = self.read_further() {
                    self.done = true;
                    rows.failure = Some((ReadError::File(cause), self.position));
                }
                continue;
            };
            if used == 0 {
                self.end(&mut rows);
            } else {
                self.record(used, lines, &mut rows);
            }
        }
        self.before = rows.count;
        rows
    }

    /// Reads records of the same form as the last one; false if there is none.
    fn read_run(&mut self, limit: usize, rows: &mut Rows) -> bool {
        let Some(width) = self.width else {
            return false;
        };
        let (bytes, limit) = (self.window.known(), limit - rows.count);
        let (columns, row) = (&mut rows.columns, rows.count);
        let read = &mut self.run;
        let (count, used) = read.read(bytes, width, limit, &self.layout, columns, row);
        self.window.pass(used);
        rows.count += count;
        self.position.offset += used as u64;
        self.position.number += count as u64;
        self.position.line += count as u64;
        count > 0
    }

    /// Reads at least as much as is buffered, so that a long record is not looked through for each
    /// few bytes that come.
    fn read_further(&mut self) -> Result<(), Cause> {
        let held = self.window.known().len();
        self.window.fill(held)?;
        while self.window.known().len() < 2 * held && !self.window.ended() {
            self.window.fill(held)?;
        }
        Ok(())
    }

    /// How many bytes and lines the next record has, none at the end; `None` if more must be read.
    fn find(&mut self) -> Option<(usize, u64)> {
        let (bytes, ended) = (self.window.known(), self.window.ended());
        if bytes.is_empty() {
            return ended.then_some((0, 0));
        }
        let Layout {
            delimiter, quotes, ..
        } = self.layout;
        match fields(bytes, delimiter, quotes, ended, &mut self.places) {
            Reach::Whole { used, lines } => Some((used, lines)),
            Reach::More => None,
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        self.done = true;
        if self.header {
            let defect = Defect {
                problem: Problem::NoHeader,
                column: None,
            };
            rows.failure = Some((ReadError::Record(defect), self.position));
        }
    }

    fn record(&mut self, used: usize, lines: u64, rows: &mut Rows) {
        let bytes = &self.window.known()[..used];
        let result = if self.header {
            header(&self.places)
        } else {
            record::read(
                bytes,
                &self.places,
                &self.layout,
                &mut rows.columns,
                rows.count,
            )
        };
        let begun = self.position;
        self.window.pass(used);
        self.position.offset += used as u64;
        self.position.line += lines;
        self.position.number += u64::from(!self.header);
        match result {
            Ok(()) if self.header => {}
            Ok(()) => {
                rows.count += 1;
                self.width = Some(self.places.len());
            }
            Err(defect) => rows.failure = Some((ReadError::Record(defect), begun)),
        }
        self.header = false;
    }
}

fn header(places: &[Place]) -> Result<(), Defect> {
    let bad = |(column, place): (usize, &Place)| {
        Some(Defect {
            problem: Problem::Field(place.flaw?),
            column: Some(column),
        })
    };
    places.iter().enumerate().find_map(bad).map_or(Ok(()), Err)
}
