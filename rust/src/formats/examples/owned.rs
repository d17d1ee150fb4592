//! Parsing into memory of its own.

use super::column::{Column, Values};
use super::defect::Failure;
use super::parse::{no_memory, parse_into, FeatureMap};
use super::schema::{Feature, FeatureShape, Kind};
use super::target::{Numbers, Target};

/// The columns of all features of all maps, with the records before the first that failed.
pub fn parse<'a>(
    maps: &'a [FeatureMap],
    records: &[&'a [u8]],
) -> (Vec<Column<'a>>, Option<Failure>) {
    let features = || maps.iter().flat_map(|map| map.schema.features());
    let owned = features().map(|feature| Owned::new(feature, records.len()));
    let Some(mut owned) = owned.collect::<Option<Vec<_>>>() else {
        return (Vec::new(), Some(no_memory()));
    };
    let targets = owned.iter_mut().map(Owned::target).collect();
    let (mut columns, failure) = parse_into(maps, records, targets);
    let rows = failure.as_ref().map_or(records.len(), |failed| failed.row);
    for (column, owned) in columns.iter_mut().zip(owned) {
        if let Some(values) = owned.values(rows) {
            column.values = values;
        }
    }
    (columns, failure)
}

/// Memory for the numbers of a feature, if every record has as many.
enum Owned {
    Float(Vec<f32>, usize),
    Int64(Vec<i64>, usize),
    Nothing,
}

impl Owned {
    /// None if they do not fit in memory.
    fn new(feature: &Feature, records: usize) -> Option<Self> {
        let FeatureShape::Fixed { count, .. } = feature.shape else {
            return Some(Self::Nothing);
        };
        let size = records.checked_mul(count)?;
        match feature.kind {
            Kind::Bytes => Some(Self::Nothing),
            Kind::Float => zeros(size).map(|numbers| Self::Float(numbers, count)),
            Kind::Int64 => zeros(size).map(|numbers| Self::Int64(numbers, count)),
        }
    }

    fn target(&mut self) -> Option<Target<'_>> {
        let (numbers, count) = match self {
            Self::Float(numbers, count) => (Numbers::Float(numbers), *count),
            Self::Int64(numbers, count) => (Numbers::Int64(numbers), *count),
            Self::Nothing => return None,
        };
        Some(Target { numbers, count })
    }

    /// Those of the first `rows` records.
    fn values(self, rows: usize) -> Option<Values<'static>> {
        match self {
            Self::Float(mut numbers, count) => {
                numbers.truncate(rows * count);
                Some(Values::Float(numbers))
            }
            Self::Int64(mut numbers, count) => {
                numbers.truncate(rows * count);
                Some(Values::Int64(numbers))
            }
            Self::Nothing => None,
        }
    }
}

fn zeros<T: Clone + Default>(size: usize) -> Option<Vec<T>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(size).ok()?;
    numbers.resize(size, T::default());
    Some(numbers)
}
