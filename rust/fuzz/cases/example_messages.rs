//! `Example` and `SequenceExample`: whatever a record is, its columns fit it, or it has a failure.

use _core::formats::examples::column::{Column, Values};
use _core::formats::examples::owned::parse;
use _core::formats::examples::parse::FeatureMap;
use _core::formats::examples::schema::{Default, Feature, FeatureShape, Kind, Schema};
use std::sync::LazyLock;

const NO_RECORD: &[u8] = b"\x0a\x01";

static LENIENT: LazyLock<[FeatureMap; 2]> = LazyLock::new(|| {
    let default = Some(Default::Int64(vec![1, 2]));
    let context = [
        ("a", Kind::Int64, FeatureShape::Varying { of: 1 }),
        ("b", Kind::Float, FeatureShape::Varying { of: 2 }),
        ("c", Kind::Bytes, FeatureShape::Varying { of: 1 }),
        ("d", Kind::Int64, FeatureShape::Fixed { count: 2, default }),
    ];
    let any = || FeatureShape::Frames {
        count: None,
        required: false,
    };
    let lists = [("x", Kind::Int64, any()), ("y", Kind::Bytes, any())];
    [map(1, &context), map(2, &lists)]
});

static STRICT: LazyLock<[FeatureMap; 2]> = LazyLock::new(|| {
    let fixed = |count| FeatureShape::Fixed {
        count,
        default: None,
    };
    let frames = FeatureShape::Frames {
        count: Some(2),
        required: true,
    };
    let context = [
        ("a", Kind::Int64, fixed(2)),
        ("b", Kind::Float, fixed(2)),
        ("c", Kind::Bytes, fixed(2)),
    ];
    [map(1, &context), map(2, &[("x", Kind::Int64, frames)])]
});

fn map(field: u64, features: &[(&str, Kind, FeatureShape)]) -> FeatureMap {
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

pub fn run(record: &[u8]) {
    for maps in [&*LENIENT, &*STRICT] {
        let (alone, failure) = parse(maps, &[record]);
        let offset = failure.as_ref().and_then(|failure| failure.offset);
        assert!(offset.is_none_or(|at| at <= record.len()));
        check(maps, &alone, usize::from(failure.is_none()));
        // What was remembered of one record changes nothing in the next.
        let (again, last) = parse(maps, &[record, record, NO_RECORD]);
        let rows = if failure.is_some() { 0 } else { 2 };
        assert_eq!(last.map(|failure| failure.row), Some(rows));
        check(maps, &again, rows);
        if rows == 2 {
            for (twice, once) in again.iter().zip(&alone) {
                let mut joined = once.clone();
                assert!(joined.append(once) && same(&joined, twice));
            }
        }
    }
}

fn check(maps: &[FeatureMap], columns: &[Column], rows: usize) {
    let features = maps.iter().flat_map(|map| map.schema.features());
    for (feature, column) in features.zip(columns) {
        let items = column.rows.last().map_or(0, |&end| end as usize);
        let values = match feature.shape {
            FeatureShape::Fixed { count, .. } => rows * count,
            FeatureShape::Varying { of } => items * of,
            FeatureShape::Frames { count: Some(n), .. } => items * n,
            FeatureShape::Frames { count: None, .. } => {
                assert_eq!(column.frames.len(), items + 1);
                column.frames[items] as usize
            }
        };
        assert_eq!(column.values.len(), values);
        let is_fixed = matches!(feature.shape, FeatureShape::Fixed { .. });
        assert_eq!(column.rows.len(), if is_fixed { 0 } else { rows + 1 });
        assert!(column.rows.is_sorted() && column.frames.is_sorted());
    }
}

/// Equal, where a float that is no number equals itself.
fn same(a: &Column, b: &Column) -> bool {
    let values = match (&a.values, &b.values) {
        (Values::Float(a), Values::Float(b)) => a
            .iter()
            .map(|v| v.to_bits())
            .eq(b.iter().map(|v| v.to_bits())),
        (a, b) => a == b,
    };
    values && a.rows == b.rows && a.frames == b.frames
}
