use super::column::{Column, Values};
use super::defect::Failure;
use super::owned::parse;
use super::parse::FeatureMap;
use super::schema::{Default, FeatureShape, Kind};
use super::tests::{entry, example, field, fixed, map, VARYING};
use crate::blocks::rng::mix64;

/// What a record gives among others that have the layout of the first.
fn after<'a>(
    maps: &'a [FeatureMap],
    first: &'a [u8],
    record: &'a [u8],
) -> (Vec<Column<'a>>, Option<Failure>) {
    let (mut columns, failure) = parse(maps, &[first, first, record]);
    let (before, _) = parse(maps, &[first, first]);
    for (column, before) in columns.iter_mut().zip(&before) {
        let first = before.values.len();
        column.values = match &column.values {
            Values::Bytes(values) => Values::Bytes(values[first..].to_vec()),
            Values::Float(values) => Values::Float(values[first..].to_vec()),
            Values::Int64(values) => Values::Int64(values[first..].to_vec()),
        };
        let start = before.rows.last().copied().unwrap_or(0);
        column.rows.drain(..before.rows.len().saturating_sub(1));
        column.rows.iter_mut().for_each(|end| *end -= start);
    }
    (columns, failure)
}

#[test]
fn the_layout_of_records_before_changes_nothing() {
    let default = Some(Default::Int64(vec![7]));
    let maps = [map(
        1,
        &[
            ("a", Kind::Int64, fixed(2)),
            ("b", Kind::Float, fixed(2)),
            ("c", Kind::Bytes, VARYING),
            ("d", Kind::Int64, FeatureShape::Fixed { count: 1, default }),
            (
                "a long key that is not compared at once",
                Kind::Int64,
                fixed(9),
            ),
        ],
    )];
    let packed = |values: &[u8]| field(3, &field(1, values));
    let long = entry(
        "a long key that is not compared at once",
        &packed(
            b"\x01\xff\x01\xff\xff\x7f\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x09",
        ),
    );
    let [a, b, c] = [
        entry("a", &packed(b"\x01\xac\x02")),
        entry("b", &field(2, &field(1, &[0; 8]))),
        entry("c", &field(1, &field(1, b"xy"))),
    ];
    let unknown = entry("e", b"");
    let first = example(&[a.clone(), unknown, b.clone(), c.clone(), long.clone()]);
    assert_eq!(parse(&maps, &[&first, &first]).1, None);
    let others = [
        example(&[a.clone(), b.clone(), c.clone(), long.clone()]),
        example(&[b, a.clone(), c.clone(), long.clone()]),
        [first.clone(), example(&[entry("d", &packed(b"\x03"))])].concat(),
        [first.clone(), example(&[a])].concat(),
        [first.clone(), b"\x20\x05".to_vec()].concat(),
    ];
    let mutated = (0..20_000u64).map(|round| {
        let mut bytes = first.clone();
        for change in 0..1 + mix64(round, 9) % 2 {
            let at = (mix64(round, 2 * change) % bytes.len() as u64) as usize;
            bytes[at] ^= 1 << (mix64(round, 2 * change + 1) % 8);
        }
        bytes
    });
    let (mut parsed, mut failed) = (0, 0);
    for record in others.into_iter().chain(mutated) {
        let (alone, failure) = parse(&maps, &[&record]);
        let (columns, later) = after(&maps, &first, &record);
        assert_eq!(later.as_ref().map(|f| f.row), failure.as_ref().map(|_| 2));
        assert_eq!(
            later.map(|f| (f.feature, f.offset, f.defect)),
            failure.as_ref().map(|f| (f.feature, f.offset, f.defect))
        );
        if failure.is_none() {
            assert_eq!(format!("{columns:?}"), format!("{alone:?}"));
            parsed += 1;
        } else {
            failed += 1;
        }
    }
    assert!(parsed > 3_000 && failed > 3_000);
}

#[test]
fn packed_integers_fill_as_many_places() {
    for round in 0..2_000u64 {
        let count = (mix64(round, 0) % 12) as usize;
        let mut bytes = Vec::new();
        let mut values = Vec::new();
        for i in 0..count as u64 {
            let value = mix64(round, i + 1) >> (mix64(round, i + 50) % 64);
            values.push(value as i64);
            let mut left = value;
            while left >= 0x80 {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
        }
        for places in 0..14 {
            let mut out = vec![0; places];
            assert_eq!(super::wire::fill(&bytes, &mut out), places == count);
            if places == count {
                assert_eq!(out, values);
            }
        }
        bytes.push(0x80);
        assert!(!super::wire::fill(&bytes, &mut vec![0; count + 1]));
    }
}
