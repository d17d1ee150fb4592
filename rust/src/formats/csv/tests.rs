use super::columns::{empty, Column};
use super::layout::{Chosen, Field, Layout};
use super::problem::{Defect, Flaw, Problem};
use super::reader::{Position, ReadError, Reader};
use super::scan::{fields, Reach};
use super::{record, single};
use crate::blocks::rng::mix64;
use std::io::{self, Read};

fn layout(fields: Vec<Field>) -> Layout {
    Layout {
        delimiter: b',',
        quotes: true,
        missing: b"NA".to_vec(),
        fields,
        chosen: Chosen::All,
    }
}

fn texts() -> Layout {
    layout(vec![
        Field::Text(Some(Vec::new())),
        Field::Text(Some(Vec::new())),
    ])
}

/// Gives `step` bytes at a time, so that every place is once the end of what is known.
struct Slow {
    bytes: Vec<u8>,
    place: usize,
    step: usize,
}

impl Read for Slow {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let end = self.bytes.len().min(self.place + self.step.min(to.len()));
        let part = &self.bytes[self.place..end];
        to[..part.len()].copy_from_slice(part);
        self.place = end;
        Ok(part.len())
    }
}

fn reader(text: &str, layout: &Layout, header: bool, step: usize) -> Reader {
    let bytes = text.as_bytes().to_vec();
    let input = Slow {
        bytes,
        place: 0,
        step,
    };
    Reader::new(
        Box::new(input),
        layout.clone(),
        header,
        1,
        Position::default(),
    )
}

/// The rows of two columns of text, and the problems between them with the lines before them.
type Outcome = Result<(String, String), (Problem, Option<usize>, u64)>;

fn outcomes(text: &str, layout: &Layout, header: bool, step: usize) -> Vec<Outcome> {
    let mut reader = reader(text, layout, header, step);
    let mut found = Vec::new();
    loop {
        let rows = reader.next(3);
        if let [Column::Text(first), Column::Text(second)] = &rows.columns[..] {
            let owned = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            let pairs = first.iter().map(owned).zip(second.iter().map(owned));
            found.extend(pairs.map(Ok));
        }
        match rows.failure {
            Some((ReadError::Record(Defect { problem, column }), position)) => {
                found.push(Err((problem, column, position.line)));
            }
            Some((ReadError::File(cause), _)) => panic!("{cause:?}"),
            None if rows.count == 0 => return found,
            None => {}
        }
    }
}

fn row(first: &str, second: &str) -> Outcome {
    Ok((first.to_owned(), second.to_owned()))
}

#[test]
fn records_end_where_tensorflow_ends_them() {
    let text = "a,b\r\n\"x\ny\",\"q\"\"q\"\rc,\n,d";
    let wanted = [
        row("a", "b"),
        row("x\ny", "q\"q"),
        row("c", ""),
        row("", "d"),
    ];
    for step in 1..=text.len() {
        assert_eq!(outcomes(text, &texts(), false, step), wanted, "{step}");
        assert_eq!(outcomes(text, &texts(), true, step), wanted[1..], "{step}");
    }
}

#[test]
fn fields_end_wherever_they_lie() {
    for length in [0, 1, 15, 16, 17, 62, 63, 64, 65, 127, 128, 200] {
        let (plain, quoted) = ("x".repeat(length), "\n,\"\"".repeat(length));
        let text = format!("{plain},\"{quoted}\"\r\n\"{quoted}\",{plain}\n{plain},{plain}");
        let content = "\n,\"".repeat(length);
        let wanted = [
            row(&plain, &content),
            row(&content, &plain),
            row(&plain, &plain),
        ];
        for step in [1, 7, 64, 5000] {
            assert_eq!(outcomes(&text, &texts(), false, step), wanted, "{length}");
        }
        let mut lines = reader(&text, &texts(), false, 7);
        while lines.next(1).count > 0 {}
        assert_eq!(lines.position().line, 2 * length as u64 + 2);
    }
}

#[test]
fn a_delimiter_is_one_before_all_else() {
    let mut layout = texts();
    for delimiter in [b'"', b'\r', 0] {
        layout.delimiter = delimiter;
        for quotes in [false, true] {
            layout.quotes = quotes;
            let text = format!("a{}b\n", char::from(delimiter));
            assert_eq!(outcomes(&text, &layout, false, 1), [row("a", "b")]);
        }
    }
}

#[test]
fn bad_records_are_passed_over() {
    let text = "a,b\nc\"d,e\n\"f\"g\",h\ni,j,k\nl\nm,n\n\"o,p";
    let bad = |problem, column, line| Err((problem, column, line));
    let count = |found| Problem::Count { found, wanted: 2 };
    let wanted = [
        row("a", "b"),
        bad(Problem::Field(Flaw::QuoteInside), Some(0), 1),
        bad(Problem::Field(Flaw::QuoteNotDoubled), Some(0), 2),
        bad(count(3), None, 3),
        bad(count(1), None, 4),
        row("m", "n"),
        bad(Problem::Field(Flaw::NotClosed), Some(0), 6),
    ];
    for step in [1, 2, 5, 100] {
        assert_eq!(outcomes(text, &texts(), false, step), wanted, "{step}");
    }
    assert_eq!(
        outcomes("", &texts(), true, 1),
        [bad(Problem::NoHeader, None, 0)]
    );
    assert_eq!(outcomes("", &texts(), false, 1), []);
}

#[test]
fn fields_become_numbers() {
    let fields = vec![
        Field::Int32(None),
        Field::Int64(Some(7)),
        Field::Float32(Some(0.5)),
        Field::Float64(None),
    ];
    let mut reader = reader(
        "1,NA,,2.5\n 2 ,3,1e2,-inf\n,1,1,1\n1,x,1,1\n",
        &layout(fields),
        false,
        9,
    );
    let mut rows = reader.next(9);
    while rows.failure.is_none() {
        rows = reader.next(9);
    }
    let Some((ReadError::Record(defect), position)) = rows.failure else {
        panic!("a record");
    };
    assert_eq!((defect.problem, defect.column), (Problem::Missing, Some(0)));
    assert_eq!((position.number, position.line), (2, 2));
    let rows = reader.next(9);
    assert_eq!(rows.columns[0], Column::Int32(vec![]));
    let Some((ReadError::Record(defect), _)) = rows.failure else {
        panic!("a record");
    };
    let text = b"x".to_vec();
    assert_eq!(
        defect.problem,
        Problem::Number {
            kind: "int64",
            text
        }
    );
    assert_eq!(defect.column, Some(1));
}

/// The rows as they are printed, or the defect, and the place after it, of each record.
fn described(columns: &[Column], count: usize, failure: Option<Defect>) -> Vec<String> {
    let value = |column: &Column, row: usize| match column {
        Column::Int32(values) => values[row].to_string(),
        Column::Float64(values) => format!("{:x}", values[row].to_bits()),
        Column::Text(values) => format!("{:?}", values.iter().nth(row)),
        other => panic!("{other:?}"),
    };
    let row = |row| {
        columns
            .iter()
            .map(|column| value(column, row) + ";")
            .collect()
    };
    let rows = (0..count).map(row);
    rows.chain(failure.map(|defect| format!("{defect:?}")))
        .collect()
}

/// Each record on its own.
fn one_by_one(text: &[u8], layout: &Layout) -> (Vec<String>, Position) {
    let (mut found, mut places, mut position) = (Vec::new(), Vec::new(), Position::default());
    while position.offset < text.len() as u64 {
        let rest = &text[position.offset as usize..];
        let reach = fields(rest, layout.delimiter, layout.quotes, true, &mut places);
        let Reach::Whole { used, lines } = reach else {
            panic!("there is no more");
        };
        let mut columns = empty(layout);
        let read = record::read(&rest[..used], &places, layout, &mut columns, 0);
        found.extend(described(&columns, usize::from(read.is_ok()), read.err()));
        position.offset += used as u64;
        position.number += 1;
        position.line += lines;
    }
    (found, position)
}

#[test]
fn records_read_together_are_what_they_are_one_by_one() {
    let endings = ["\n", "\n", "\n", "\r\n", "\r"];
    let odd = [
        "",
        "NA",
        "x",
        "\"1\"",
        "\"a\nb\"",
        "1\"",
        "1,2",
        "1\r2",
        "\"1\"2",
        "2147483648",
    ];
    let (mut good, mut bad) = (0, 0);
    for seed in 0..150 {
        let draw = |place: u64, below: usize| mix64(seed, place) as usize % below;
        let fields = vec![
            Field::Int32((seed % 3 == 0).then_some(7)),
            Field::Float64(Some(0.5)),
            Field::Text((seed % 2 == 0).then(|| b"none".to_vec())),
        ];
        let mut layout = layout(fields);
        layout.chosen = match draw(0, 3) {
            0 => Chosen::All,
            1 => Chosen::Only(vec![0, 2, 3]),
            _ => Chosen::Without(vec![1]),
        };
        layout.quotes = draw(1, 4) > 0;
        let width = if layout.chosen == Chosen::All { 3 } else { 4 };
        let mut text = String::new();
        let rare = [10, 100, 2_000][draw(2, 3)];
        for record in 0..300 {
            for field in 0..width {
                let place = 10 + 20 * record + 2 * field;
                text += &match draw(place, rare) {
                    0 => odd[draw(place + 1, odd.len())].to_owned(),
                    other => format!("{}", draw(place + 1, 1_000_000) * (other % 2)),
                };
                text += if field + 1 < width { "," } else { "" };
            }
            let ending = if draw(10 + 20 * record + 18, rare) == 0 {
                5
            } else {
                1
            };
            text += endings[draw(10 + 20 * record + 19, ending)];
        }
        let (wanted, end) = one_by_one(text.as_bytes(), &layout);
        for (limit, step) in [(usize::MAX, 1 << 20), (1, 4096), (7, 100), (200, 4096)] {
            let mut reader = reader(&text, &layout, false, step);
            let mut found = Vec::new();
            loop {
                let rows = reader.next(limit);
                assert!(rows.count <= limit);
                let failure = rows.failure.map(|(trouble, _)| match trouble {
                    ReadError::Record(defect) => defect,
                    ReadError::File(cause) => panic!("{cause:?}"),
                });
                let some = described(&rows.columns, rows.count, failure);
                if some.is_empty() {
                    break;
                }
                good += rows.count;
                bad += some.len() - rows.count;
                found.extend(some);
            }
            assert_eq!(found, wanted, "{seed}");
            assert_eq!(reader.position(), end, "{seed}");
        }
    }
    assert!(good > 50_000 && bad > 1_000, "{good} {bad}");
}

#[test]
fn columns_are_chosen_or_left_out() {
    for (chosen, wanted) in [
        (Chosen::Only(vec![1, 3]), ["b", "d"]),
        (Chosen::Without(vec![0, 2]), ["b", "d"]),
    ] {
        let mut layout = texts();
        layout.chosen = chosen;
        assert_eq!(
            outcomes("a,b,c,d", &layout, false, 9),
            [row(wanted[0], wanted[1])]
        );
        assert_eq!((layout.column(0), layout.column(1)), (1, 3));
        assert!(outcomes("a,b,c", &layout, false, 9)[0].is_err());
    }
}

#[test]
fn records_of_their_own_hold_no_line_breaks() {
    let layout = texts();
    let read = |text: &str| {
        let mut columns = empty(&layout);
        let result = single::read(text.as_bytes(), &layout, &mut Vec::new(), &mut columns, 0);
        result.map(|()| columns).map_err(|defect| defect.problem)
    };
    assert!(read("a,\"b\nc\"").is_ok());
    assert!(read("\n\na,b").is_ok());
    assert!(read("a,").is_ok());
    assert_eq!(read("a,b\n"), Err(Problem::Field(Flaw::LineBreak)));
    assert_eq!(
        read("a,\"b\"\n"),
        Err(Problem::Field(Flaw::QuoteNotDoubled))
    );
    assert_eq!(read("a,\"b"), Err(Problem::Field(Flaw::NotClosed)));
    assert_eq!(
        read(""),
        Err(Problem::Count {
            found: 0,
            wanted: 2
        })
    );
}
