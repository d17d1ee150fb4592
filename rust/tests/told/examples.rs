//! `Example` messages.

use _core::formats::examples::column::{Column, Values};
use _core::formats::examples::encode::{field, list};
use _core::formats::examples::owned::parse;
use _core::formats::examples::parse::FeatureMap;
use _core::formats::examples::schema::{Feature, FeatureShape, Kind, Schema};

fn map(number: u64, features: &[(&str, Kind, FeatureShape)]) -> FeatureMap {
    let features = features.iter().map(|(key, kind, shape)| Feature {
        key: key.as_bytes().to_vec(),
        kind: *kind,
        shape: shape.clone(),
    });
    FeatureMap {
        field: number,
        schema: Schema::new(features.collect()),
    }
}

const fn fixed(count: usize) -> FeatureShape {
    FeatureShape::Fixed {
        count,
        default: None,
    }
}

fn message(number: u32, content: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    field(number, content, &mut made);
    made
}

fn entry(key: &str, kind: u32, list: &[u8]) -> Vec<u8> {
    let feature = message(2, &message(kind, list));
    message(1, &[message(1, key.as_bytes()), feature].concat())
}

fn integers(key: &str, values: &[i64]) -> Vec<u8> {
    entry(key, 3, &list(&Values::Int64(values.to_vec())))
}

/// What is wrong with a record, and at which of its bytes.
fn told(record: &[u8], feature: (Kind, FeatureShape)) -> (String, Option<usize>) {
    let maps = [map(1, &[("a", feature.0, feature.1)])];
    let (columns, failure) = parse(&maps, &[record]);
    assert!(columns.iter().all(|column| column.values.is_empty()));
    let failure = failure.expect("a record that does not fit");
    (failure.defect.to_string(), failure.offset)
}

#[test]
fn defects_of_records() {
    let one = || (Kind::Int64, fixed(1));
    let two = message(1, &integers("a", &[1, 2]));
    let floats = message(1, &entry("a", 2, &message(1, &[0, 0, 0])));
    let long = [&[0x0a][..], &[0xff; 11]].concat();
    let by_three = (Kind::Int64, FeatureShape::Varying { of: 3 });
    let many = (Kind::Int64, fixed(usize::MAX / 16));
    for (record, feature, text, at) in [
        (&b"\x0a"[..], one(), "the bytes end within a field", Some(1)),
        (
            b"\x0a\x05a",
            one(),
            "a field says that it has 5 bytes, of which 1 are there",
            Some(1),
        ),
        (&long, one(), "an integer has more than 10 bytes", Some(1)),
        (b"\x00", one(), "no field begins with these bytes", Some(0)),
        (
            &floats,
            (Kind::Float, fixed(1)),
            "3 bytes of packed floats are no multiple of 4",
            Some(13),
        ),
        (b"", one(), "it is missing; if records may lack it", None),
        (
            &two,
            (Kind::Float, fixed(1)),
            "it holds int64 values, but its dtype is float32",
            Some(9),
        ),
        (
            &two,
            (Kind::Bytes, fixed(1)),
            "it holds int64 values, but its dtype is string",
            Some(9),
        ),
        (
            &floats,
            one(),
            "it holds float32 values, but its dtype is int64",
            Some(9),
        ),
        (
            &two,
            one(),
            "it holds 2 values, but its shape has 1; where the number varies",
            Some(9),
        ),
        (
            &two,
            by_three,
            "it holds 2 values, which is no multiple of the 3",
            Some(9),
        ),
        (
            &two,
            many,
            "there is no memory for the values; parse fewer records",
            None,
        ),
    ] {
        let (found, place) = told(record, feature);
        assert!(found.starts_with(text), "{found}, not {text}");
        assert_eq!(place, at, "{found}");
    }
}

#[test]
fn defects_of_lists() {
    let frames = |count| FeatureShape::Frames {
        count,
        required: true,
    };
    let maps = |count| [map(2, &[("x", Kind::Int64, frames(count))])];
    let told = |record: &[u8]| {
        let failure = parse(&maps(Some(1)), &[record]).1.expect("a failure");
        (failure.defect.to_string(), failure.frame)
    };
    let (text, frame) = told(b"");
    assert!(text.starts_with("the list is missing; if records may lack it, pass"));
    assert_eq!(frame, None);
    let feature = message(1, &message(3, &list(&Values::Int64(vec![5]))));
    let lists = message(2, &[feature, message(1, b"")].concat());
    let record = message(2, &message(1, &[message(1, b"x"), lists].concat()));
    let wanted = "it holds no values, but its dtype is int64".to_string();
    assert_eq!(told(&record), (wanted, Some(1)));
}

#[test]
fn numbers_of_many_records_are_those_of_each() {
    let maps = [map(
        1,
        &[
            ("few", Kind::Int64, fixed(3)),
            ("many", Kind::Float, fixed(300)),
        ],
    )];
    let record = |row: i64| {
        let floats = (0..300).map(|i| (row * 300 + i) as f32).collect();
        let entries = [
            integers("few", &[row, -row, 1 << 40]),
            entry("many", 2, &list(&Values::Float(floats))),
        ];
        message(1, &entries.concat())
    };
    let mut records: Vec<Vec<u8>> = (0..400).map(record).collect();
    for failing in [None, Some(311)] {
        if let Some(row) = failing {
            records[row].truncate(100);
        }
        let views: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let (found, failure) = parse(&maps, &views);
        assert_eq!(failure.map(|failure| failure.row), failing);
        let mut expected: Vec<Column> = parse(&maps, &[]).0;
        for view in &views[..failing.unwrap_or(400)] {
            let (columns, _) = parse(&maps, &[view]);
            let joined = expected.iter_mut().zip(&columns);
            joined.for_each(|(all, column)| assert!(all.append(column)));
        }
        assert!(found == expected);
    }
}
