//! `Example` and `SequenceExample`: whatever a record is, its columns fit it, or it has a failure.

use _core::formats::examples::column::{Column, Values};
use _core::formats::examples::owned::parse;
use _core::formats::examples::parse::Part;
use _core::formats::examples::schema::{Default, Feature, Form, Kind, Schema};
use std::sync::LazyLock;

const NO_RECORD: &[u8] = b"\x0a\x01";

static LENIENT: LazyLock<[Part; 2]> = LazyLock::new(|| {
    let default = Some(Default::Int64(vec![1, 2]));
    let context = [
        ("a", Kind::Int64, Form::Varying { of: 1 }),
        ("b", Kind::Float, Form::Varying { of: 2 }),
        ("c", Kind::Bytes, Form::Varying { of: 1 }),
        ("d", Kind::Int64, Form::Fixed { count: 2, default }),
    ];
    let any = || Form::Frames {
        count: None,
        required: false,
    };
    let lists = [("x", Kind::Int64, any()), ("y", Kind::Bytes, any())];
    [part(1, &context), part(2, &lists)]
});

static STRICT: LazyLock<[Part; 2]> = LazyLock::new(|| {
    let fixed = |count| Form::Fixed {
        count,
        default: None,
    };
    let frames = Form::Frames {
        count: Some(2),
        required: true,
    };
    let context = [
        ("a", Kind::Int64, fixed(2)),
        ("b", Kind::Float, fixed(2)),
        ("c", Kind::Bytes, fixed(2)),
    ];
    [part(1, &context), part(2, &[("x", Kind::Int64, frames)])]
});

fn part(field: u64, features: &[(&str, Kind, Form)]) -> Part {
    let features = features.iter().map(|(key, kind, form)| Feature {
        key: key.as_bytes().to_vec(),
        kind: *kind,
        form: form.clone(),
    });
    Part {
        field,
        schema: Schema::new(features.collect()),
    }
}

pub fn run(record: &[u8]) {
    for parts in [&*LENIENT, &*STRICT] {
        let (alone, failure) = parse(parts, &[record]);
        let offset = failure.as_ref().and_then(|failure| failure.offset);
        assert!(offset.is_none_or(|at| at <= record.len()));
        check(parts, &alone, usize::from(failure.is_none()));
        // What was remembered of one record changes nothing in the next.
        let (again, last) = parse(parts, &[record, record, NO_RECORD]);
        let rows = if failure.is_some() { 0 } else { 2 };
        assert_eq!(last.map(|failure| failure.row), Some(rows));
        check(parts, &again, rows);
        if rows == 2 {
            for (twice, once) in again.iter().zip(&alone) {
                let mut joined = once.clone();
                assert!(joined.append(once) && same(&joined, twice));
            }
        }
    }
}

fn check(parts: &[Part], columns: &[Column], rows: usize) {
    let features = parts.iter().flat_map(|part| part.schema.features());
    for (feature, column) in features.zip(columns) {
        let items = column.rows.last().map_or(0, |&end| end as usize);
        let values = match feature.form {
            Form::Fixed { count, .. } => rows * count,
            Form::Varying { of } => items * of,
            Form::Frames { count: Some(n), .. } => items * n,
            Form::Frames { count: None, .. } => {
                assert_eq!(column.frames.len(), items + 1);
                column.frames[items] as usize
            }
        };
        assert_eq!(column.values.len(), values);
        let is_fixed = matches!(feature.form, Form::Fixed { .. });
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
