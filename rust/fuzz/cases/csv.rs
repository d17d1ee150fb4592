//! Comma-separated values: whatever the bytes and however they come, the same records, and an end.

use _core::formats::csv::columns::Column;
use _core::formats::csv::layout::{Chosen, Field, Layout};
use _core::formats::csv::reader::{Position, ReadError, Reader};
use _core::formats::csv::single;
use std::io::Cursor;

pub fn run(bytes: &[u8]) {
    let [form, header, chunk, file @ ..] = bytes else {
        return;
    };
    let fields = vec![
        Field::Text(Some(Vec::new())),
        Field::Float32((form & 1 == 0).then_some(0.0)),
    ];
    let layout = Layout {
        delimiter: if form & 2 == 0 { b',' } else { b'\t' },
        quotes: form & 4 == 0,
        missing: b"NA".to_vec(),
        fields,
        chosen: match form >> 3 & 3 {
            0 => Chosen::Only(vec![0, 2]),
            1 => Chosen::Without(vec![1]),
            _ => Chosen::All,
        },
    };
    let header = header & 1 == 1;
    let whole = read(file, &layout, header, file.len(), usize::MAX);
    let parts = read(file, &layout, header, usize::from(*chunk), 3);
    assert_eq!(whole, parts);
    let mut columns = _core::formats::csv::columns::empty(&layout);
    let _ = single::read(file, &layout, &mut Vec::new(), &mut columns, 0);
}

/// What each record holds, or what is wrong with it.
fn read(file: &[u8], layout: &Layout, header: bool, chunk: usize, limit: usize) -> Vec<String> {
    let input = Box::new(Cursor::new(file.to_vec()));
    let mut reader = Reader::new(input, layout.clone(), header, chunk, Position::default());
    let mut found = Vec::new();
    let mut before = 0;
    loop {
        let rows = reader.next(limit);
        found.extend((0..rows.count).map(|row| described(&rows.columns, row)));
        match &rows.failure {
            Some((ReadError::Record(defect), position)) => {
                found.push(format!("{defect:?} {position:?}"));
            }
            Some((ReadError::File(cause), _)) => panic!("{cause:?}"),
            None if rows.count == 0 => break,
            None => {}
        }
        let after = reader.position().offset;
        assert!(after > before || rows.failure.is_some());
        before = after;
    }
    assert_eq!(reader.position().offset, file.len() as u64);
    found
}

fn described(columns: &[Column], row: usize) -> String {
    let value = |column: &Column| match column {
        Column::Text(values) => format!("{:?}", values.iter().nth(row)),
        Column::Float32(values) => format!("{:?}", values[row].to_bits()),
        other => panic!("{other:?}"),
    };
    columns.iter().map(value).collect()
}
