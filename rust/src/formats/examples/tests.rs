use super::column::{Column, Values};
use super::defect::{Defect, Failure, Malformed};
use super::encode;
use super::owned::parse;
use super::parse::FeatureMap;
use super::schema::{Default, Feature, FeatureShape, Kind, Schema};
use super::wire::Cursor;
use crate::blocks::rng::mix64;

/// What TensorFlow 2.21 writes: a: 1, b: 1.5 and 2.5, c: "x" and "yy".
const EXAMPLE: &[u8] = b"\n1\n\x0c\n\x01a\x12\x07\x1a\x05\n\x03\x01\xac\x02\n\x11\n\x01b\x12\x0c\
    \x12\x0a\n\x08\x00\x00\xc0?\x00\x00 @\n\x0e\n\x01c\x12\x09\n\x07\n\x01x\n\x02yy";

pub fn map(field: u64, features: &[(&str, Kind, FeatureShape)]) -> FeatureMap {
    let features = features.iter().map(|(key, kind, shape)| Feature {
        key: key.as_bytes().to_vec(),
        kind: *kind,
        shape: shape.clone(),
    });
    FeatureMap {
        field,
        schema: Schema::new(features.collect()),
    }
}

pub fn fixed(count: usize) -> FeatureShape {
    FeatureShape::Fixed {
        count,
        default: None,
    }
}

pub const VARYING: FeatureShape = FeatureShape::Varying { of: 1 };
const FRAMES: FeatureShape = FeatureShape::Frames {
    count: None,
    required: false,
};

/// A field that holds a message or bytes.
pub fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

pub fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, value)].concat())
}

pub fn example(entries: &[Vec<u8>]) -> Vec<u8> {
    field(1, &entries.concat())
}

#[test]
fn messages_are_those_of_tensorflow() {
    let mut entries = Vec::new();
    encode::entry(b"a", &Values::Int64(vec![1, 300]), &mut entries);
    encode::entry(b"b", &Values::Float(vec![1.5, 2.5]), &mut entries);
    encode::entry(b"c", &Values::Bytes(vec![b"x", b"yy"]), &mut entries);
    let mut message = Vec::new();
    encode::field(1, &entries, &mut message);
    assert_eq!(message, EXAMPLE);
}

#[test]
fn lengths_are_those_of_what_is_written() {
    for values in [
        Values::Int64(vec![]),
        Values::Int64(vec![
            0,
            127,
            128,
            i64::MAX,
            -1,
            i64::MIN,
            1 << 21,
            (1 << 21) - 1,
        ]),
        Values::Float(vec![]),
        Values::Float(vec![f32::NAN; 40]),
        Values::Bytes(vec![b"", &[7; 128], &[7; 127]]),
    ] {
        let mut entries = Vec::new();
        encode::entry(b"k", &values, &mut entries);
        let list = encode::list(&values);
        let kind = match values {
            Values::Bytes(_) => 1,
            Values::Float(_) => 2,
            Values::Int64(_) => 3,
        };
        assert_eq!(entries, entry("k", &field(kind, &list)));
    }
}

/// A feature of unpacked integers.
fn unpacked(values: &[u8]) -> Vec<u8> {
    let fields: Vec<u8> = values.iter().flat_map(|&value| [8, value]).collect();
    field(3, &fields)
}

fn parsed(map: FeatureMap, record: &[u8]) -> Result<Vec<Values<'static>>, (Option<usize>, Defect)> {
    let maps = [map];
    let (columns, failure) = parse(&maps, &[record]);
    match failure {
        Some(failure) => Err((failure.offset, failure.defect)),
        None => Ok(columns.into_iter().map(|c| owned(c.values)).collect()),
    }
}

fn owned(values: Values<'_>) -> Values<'static> {
    match values {
        Values::Bytes(values) => {
            let leak = |v: &[u8]| -> &'static [u8] { Vec::leak(v.to_vec()) };
            Values::Bytes(values.into_iter().map(leak).collect())
        }
        Values::Float(values) => Values::Float(values),
        Values::Int64(values) => Values::Int64(values),
    }
}

fn integers(map: FeatureMap, record: &[u8]) -> Result<Vec<i64>, (Option<usize>, Defect)> {
    match parsed(map, record)?.swap_remove(0) {
        Values::Int64(values) => Ok(values),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tensorflows_bytes_are_parsed() {
    let wanted = [
        ("c", Kind::Bytes, VARYING),
        ("a", Kind::Int64, fixed(2)),
        ("b", Kind::Float, fixed(2)),
    ];
    let found = parsed(map(1, &wanted), EXAMPLE);
    let (a, b) = (Values::Int64(vec![1, 300]), Values::Float(vec![1.5, 2.5]));
    assert_eq!(found, Ok(vec![Values::Bytes(vec![b"x", b"yy"]), a, b]));
}

#[test]
fn integers_of_every_length_come_back() {
    let edges = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !(1 << bit)]);
    let values: Vec<u64> = edges.collect();
    for packed in [true, false] {
        let mut bytes = Vec::new();
        for &value in &values {
            if !packed {
                bytes.push(8);
            }
            let mut left = value;
            while left >= 0x80 {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
        }
        let list = if packed { field(1, &bytes) } else { bytes };
        let record = example(&[entry("a", &field(3, &list))]);
        let found = integers(map(1, &[("a", Kind::Int64, VARYING)]), &record).unwrap();
        assert!(found.iter().map(|&v| v as u64).eq(values.iter().copied()));
    }
}

#[test]
fn unpacked_floats_and_unknown_fields_are_passed() {
    let unknown = [
        b"\x7a\x01x".as_slice(),
        b"\x29\0\0\0\0\0\0\0\0",
        b"\x35\0\0\0\0",
        b"\x38\x96\x01",
        b"\x3b\x08\x01\x4b\x4c\x3c",
    ]
    .concat();
    let list = [
        unknown.as_slice(),
        b"\x0d\0\0\xc0?",
        &unknown,
        b"\x0d\0\0 @",
    ]
    .concat();
    let feature = [unknown.clone(), field(2, &list), unknown.clone()].concat();
    let entries = [unknown.clone(), entry("b", &feature), unknown.clone()].concat();
    let record = [unknown.clone(), field(1, &entries), unknown].concat();
    let found = parsed(map(1, &[("b", Kind::Float, fixed(2))]), &record);
    assert_eq!(found, Ok(vec![Values::Float(vec![1.5, 2.5])]));
}

#[test]
fn the_last_of_equal_keys_counts_and_lists_of_one_kind_are_joined() {
    let of = |values: &[u8]| entry("a", &unpacked(values));
    let twice = [example(&[of(&[1]), of(&[2])]), example(&[of(&[3, 4])])].concat();
    let wanted = || map(1, &[("a", Kind::Int64, VARYING)]);
    assert_eq!(integers(wanted(), &twice), Ok(vec![3, 4]));
    let lists = [
        unpacked(&[9]),
        field(2, b""),
        unpacked(&[1]),
        unpacked(&[2]),
    ]
    .concat();
    assert_eq!(
        integers(wanted(), &example(&[entry("a", &lists)])),
        Ok(vec![1, 2])
    );
}

#[test]
fn keys_may_come_in_any_order_and_be_missing() {
    let keys = ["a", "bb", "a rather long name of a feature", "d", "ee"];
    let default = |n| FeatureShape::Fixed {
        count: 1,
        default: Some(Default::Int64(vec![n])),
    };
    let wanted: Vec<_> = keys[..4]
        .iter()
        .map(|&key| (key, Kind::Int64, default(-1)))
        .collect();
    let maps = [map(1, &wanted)];
    let mut records = Vec::new();
    let mut rows = Vec::new();
    for row in 0..200u64 {
        let mut chosen: Vec<usize> = (0..5).collect();
        chosen.sort_by_key(|&i| {
            if row % 3 == 0 {
                i as u64
            } else {
                mix64(row, i as u64)
            }
        });
        chosen.truncate((mix64(row, 9) % 6) as usize);
        let value = |i: usize| (row % 20) as u8 * 5 + i as u8;
        let entries = chosen
            .iter()
            .map(|&i| entry(keys[i], &unpacked(&[value(i)])));
        records.push(example(&entries.collect::<Vec<_>>()));
        let of = |i| {
            if chosen.contains(&i) {
                i64::from(value(i))
            } else {
                -1
            }
        };
        rows.push([of(0), of(1), of(2), of(3)]);
    }
    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let (columns, failure) = parse(&maps, &slices);
    assert_eq!(failure, None);
    for (i, column) in columns.iter().enumerate() {
        let wanted = rows.iter().map(|row| row[i]).collect();
        assert_eq!(column.values, Values::Int64(wanted), "{}", keys[i]);
    }
}

#[test]
fn features_may_share_a_key() {
    let found = parsed(
        map(
            1,
            &[("a", Kind::Int64, fixed(1)), ("a", Kind::Int64, VARYING)],
        ),
        &example(&[entry("a", &unpacked(&[5]))]),
    );
    let five = || Values::Int64(vec![5]);
    assert_eq!(found, Ok(vec![five(), five()]));
}

#[test]
fn what_does_not_fit_is_named_with_its_byte() {
    let record = example(&[entry("a", &unpacked(&[1, 2, 3]))]);
    let of = |kind, shape| integers(map(1, &[("a", kind, shape)]), &record);
    let at = |defect| Err((Some(9), defect));
    let (found, wanted) = (Some(Kind::Int64), Kind::Float);
    assert_eq!(of(Kind::Float, VARYING), at(Defect::Kind { found, wanted }));
    let (found, wanted) = (3, 2);
    assert_eq!(
        of(Kind::Int64, fixed(2)),
        at(Defect::Count { found, wanted })
    );
    let of_two = of(Kind::Int64, FeatureShape::Varying { of: 2 });
    assert_eq!(of_two, at(Defect::Multiple { found, of: 2 }));
    let missing = integers(map(1, &[("b", Kind::Int64, fixed(1))]), &record);
    assert_eq!(missing, Err((None, Defect::Missing)));
    let none = example(&[entry("a", b"")]);
    let missing = integers(map(1, &[("a", Kind::Int64, fixed(1))]), &none);
    assert_eq!(missing, Err((None, Defect::Missing)));
}

#[test]
fn damaged_bytes_are_named() {
    let list = |content: &[u8]| example(&[entry("b", &field(2, content))]);
    for (bytes, malformed) in [
        (
            b"\x0a\x05abc".to_vec(),
            Malformed::Length {
                at: 1,
                length: 5,
                left: 3,
            },
        ),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec(),
            Malformed::Length {
                at: 1,
                length: u64::MAX,
                left: 0,
            },
        ),
        (b"\x0a\xff".to_vec(), Malformed::Truncated { at: 1 }),
        (vec![0xff; 11], Malformed::Varint { at: 0 }),
        (b"\x02\x01x".to_vec(), Malformed::Tag { at: 0 }),
        (b"\x0e".to_vec(), Malformed::Tag { at: 0 }),
        (b"\x0d\0\0\0".to_vec(), Malformed::Truncated { at: 1 }),
        (vec![0x0b; 200], Malformed::Tag { at: 100 }),
        (b"\x0b\x14".to_vec(), Malformed::Tag { at: 1 }),
        (
            list(b"\x0a\x03abc"),
            Malformed::Floats { at: 13, length: 3 },
        ),
    ] {
        let found = parsed(map(1, &[("b", Kind::Float, VARYING)]), &bytes);
        assert_eq!(
            found,
            Err((Some(malformed.at()), malformed.into())),
            "{bytes:?}"
        );
        assert!(!Defect::from(malformed).to_string().is_empty());
    }
}

fn frames(list: &[Vec<u8>]) -> Vec<u8> {
    let features: Vec<u8> = list.iter().flat_map(|f| field(1, f)).collect();
    field(2, &entry("x", &features))
}

#[test]
fn lists_of_frames() {
    let record = frames(&[unpacked(&[1, 2]), unpacked(&[3, 4])]);
    let uneven = frames(&[unpacked(&[1]), b"".to_vec(), unpacked(&[2, 3])]);
    let of = |shape: &FeatureShape, records: &[&[u8]]| {
        let maps = [map(1, &[]), map(2, &[("x", Kind::Int64, shape.clone())])];
        let (mut columns, failure) = parse(&maps, records);
        let column = columns.swap_remove(0);
        let Values::Int64(values) = column.values else {
            panic!()
        };
        (values, column.rows, column.frames, failure)
    };
    let failed = |row, frame, offset, defect| {
        Some(Failure {
            row,
            feature: Some(0),
            frame,
            offset,
            defect,
        })
    };
    let (count, none) = (Some(2), b"".as_slice());
    let optional = FeatureShape::Frames {
        count,
        required: false,
    };
    let required = FeatureShape::Frames {
        count,
        required: true,
    };
    let found = of(&optional, &[&record, none, &record]);
    assert_eq!(
        found,
        (vec![1, 2, 3, 4, 1, 2, 3, 4], vec![0, 2, 2, 4], vec![], None)
    );
    let found = of(&FRAMES, &[&record, none, &uneven]);
    assert_eq!(found.0, [1, 2, 3, 4, 1, 2, 3]);
    assert_eq!(
        (found.1, found.2),
        (vec![0, 2, 2, 5], vec![0, 2, 4, 5, 5, 7])
    );
    let missing = failed(1, None, None, Defect::MissingList);
    assert_eq!(
        of(&required, &[&record, none]),
        (vec![1, 2, 3, 4], vec![0, 2], vec![], missing)
    );
    let wrong = failed(
        1,
        Some(0),
        Some(11),
        Defect::Count {
            found: 1,
            wanted: 2,
        },
    );
    assert_eq!(of(&required, &[&record, &uneven]).3, wrong);
    let empty = frames(&[unpacked(&[1, 2]), b"".to_vec()]);
    let (found, wanted) = (None, Kind::Int64);
    let wrong = failed(0, Some(1), Some(19), Defect::Kind { found, wanted });
    assert_eq!(of(&required, &[&empty]), (vec![], vec![0], vec![], wrong));
    let damaged = frames(&[unpacked(&[1]), b"\x1a\x02\x08\xff".to_vec()]);
    let wrong = failed(1, Some(1), Some(20), Malformed::Truncated { at: 20 }.into());
    let found = of(&FRAMES, &[&uneven, &damaged]);
    assert_eq!(found, (vec![1, 2, 3], vec![0, 3], vec![0, 1, 1, 3], wrong));
}

fn mixed_maps() -> Vec<FeatureMap> {
    let default = Some(Default::Bytes(vec![b"none".to_vec()]));
    vec![
        map(
            1,
            &[
                ("a", Kind::Int64, VARYING),
                ("b", Kind::Float, FeatureShape::Varying { of: 2 }),
                ("c", Kind::Bytes, VARYING),
                ("d", Kind::Bytes, FeatureShape::Fixed { count: 1, default }),
            ],
        ),
        map(2, &[("x", Kind::Int64, FRAMES)]),
    ]
}

#[test]
fn many_records_are_parsed_alike_on_all_cores() {
    let long = example(&[entry("c", &field(1, &field(1, &[7; 3000])))]);
    let bad = b"\x0a\x7f".as_slice();
    let listed = [EXAMPLE, &frames(&[unpacked(&[1, 2]), unpacked(&[3])])].concat();
    let maps = mixed_maps();
    for failing in [None, Some(0), Some(700), Some(1199)] {
        let mut records: Vec<&[u8]> = [long.as_slice(), EXAMPLE, &listed].repeat(400);
        if let Some(row) = failing {
            records[row] = bad;
        }
        let (columns, failure) = parse(&maps, &records);
        assert_eq!(failure.map(|f| f.row), failing);
        let rows = failing.unwrap_or(records.len());
        let mut expected: Vec<Column> = Vec::new();
        for record in &records[..rows] {
            let (columns, _) = parse(&maps, &[record]);
            match expected.as_mut_slice() {
                [] => expected = columns,
                all => assert!(all.iter_mut().zip(&columns).all(|(a, c)| a.append(c))),
            }
        }
        if rows > 0 {
            assert!(columns == expected);
        }
    }
}

#[test]
fn mutated_records_end_in_columns_or_a_failure_within_them() {
    let lists = frames(&[unpacked(&[1, 2]), field(3, &field(1, &[0xff, 0xff, 0x7f]))]);
    let record = [EXAMPLE, &lists].concat();
    let maps = mixed_maps();
    for round in 0..20_000u64 {
        let mut bytes = record.clone();
        for change in 0..1 + mix64(round, 0) % 3 {
            let at = (mix64(round, 3 * change + 1) % bytes.len() as u64) as usize;
            let byte = mix64(round, 3 * change + 2) as u8;
            match mix64(round, 3 * change + 3) % 4 {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, byte),
            }
        }
        let (columns, failure) = parse(&maps, &[&record, &bytes, &record]);
        let rows = 3 - 2 * usize::from(failure.is_some());
        for column in columns.iter().take(3) {
            assert_eq!(column.rows.len(), rows + 1);
        }
        if let Some(failure) = failure {
            assert_eq!(failure.row, 1);
            assert!(failure.offset.is_none_or(|at| at <= bytes.len()));
        }
    }
}

#[test]
fn what_does_not_fit_in_memory_is_refused() {
    let huge = map(1, &[("a", Kind::Int64, fixed(usize::MAX / 8))]);
    let (columns, failure) = parse(std::slice::from_ref(&huge), &[EXAMPLE, EXAMPLE]);
    assert!(columns.is_empty());
    assert_eq!(failure.unwrap().defect, Defect::Memory);
}

#[test]
fn a_cursor_counts_from_the_record() {
    let mut cursor = Cursor::new(EXAMPLE);
    assert_eq!((cursor.varint(), cursor.at()), (Ok(10), 1));
    assert_eq!(cursor.delimited().unwrap().at(), 2);
    assert!(cursor.is_done());
}
