//! Comma-separated values.

use _core::formats::csv::columns::{empty, Column};
use _core::formats::csv::layout::{Chosen, Field, Layout};
use _core::formats::csv::reader::{Position, ReadError, Reader};
use _core::formats::csv::single;
use _core::formats::records::defect::Cause;
use std::io::{self, Cursor, Read};

fn layout() -> Layout {
    Layout {
        delimiter: b',',
        quotes: true,
        missing: Vec::new(),
        fields: vec![Field::Float64(None), Field::Text(Some(Vec::new()))],
        chosen: Chosen::All,
    }
}

fn reader(input: impl Read + Send + 'static, header: bool) -> Reader {
    Reader::new(Box::new(input), layout(), header, 64, Position::default())
}

/// What is wrong with the second record, and in which column.
fn told(text: &str) -> (String, Option<usize>) {
    let mut reader = reader(Cursor::new(format!("0.5,x\n{text}")), false);
    assert_eq!(reader.layout().fields.len(), 2);
    let first = reader.next(1);
    assert_eq!(first.columns[0], Column::Float64(vec![0.5]));
    let Some((ReadError::Record(defect), place)) = reader.next(1).failure else {
        panic!("{text:?} is not refused");
    };
    assert_eq!((place.offset, place.number, place.line), (6, 1, 1));
    (defect.problem.to_string(), defect.column)
}

#[test]
fn problems_of_records() {
    for (text, problem, column) in [
        ("1\n", "expected 2 fields, the record has 1", None),
        (
            ",a\n",
            "the field is empty or not available and has no default",
            Some(0),
        ),
        ("x,a\n", "\"x\" is no valid float64", Some(0)),
        (
            "1,a\"b\n",
            "a quote inside a field that does not begin with one",
            Some(1),
        ),
        (
            "1,\"a\"b\"\n",
            "a quote inside a quoted field must be doubled",
            Some(1),
        ),
        ("1,\"a", "the end comes within a quoted field", Some(1)),
    ] {
        let (found, place) = told(text);
        assert!(found.starts_with(problem), "{found}");
        assert_eq!(place, column, "{found}");
    }
}

#[test]
fn problems_of_strings_and_files() {
    let mut columns = empty(&layout());
    let broken = single::read(b"1,a\nb", &layout(), &mut Vec::new(), &mut columns, 0);
    let text = broken.unwrap_err().problem.to_string();
    assert!(text.starts_with("a line break inside a field that is not quoted"));
    let Some((ReadError::Record(defect), _)) = reader(io::empty(), true).next(1).failure else {
        panic!("there is no header");
    };
    assert!(defect.problem.to_string().starts_with("the file is empty"));
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn what_the_file_says_ends_its_records() {
    let mut reader = reader(Cursor::new("1,a\n").chain(Broken), false);
    assert_eq!(reader.next(10).count, 1);
    let Some((ReadError::File(Cause::Io(error)), place)) = reader.next(10).failure else {
        panic!("the file cannot be read");
    };
    assert_eq!(
        (error.to_string(), place.offset),
        ("the disk is gone".into(), 4)
    );
    let after = reader.next(10);
    assert!(after.count == 0 && after.failure.is_none());
}
