//! The values of one feature in many records.

use super::schema::{Default, Feature, FeatureShape, Kind};

/// Values of one kind; bytes stay where they are in the records.
#[derive(Clone, Debug, PartialEq)]
pub enum Values<'a> {
    Bytes(Vec<&'a [u8]>),
    Float(Vec<f32>),
    Int64(Vec<i64>),
}

impl<'a> Values<'a> {
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Bytes => Self::Bytes(Vec::new()),
            Kind::Float => Self::Float(Vec::new()),
            Kind::Int64 => Self::Int64(Vec::new()),
        }
    }

    #[inline(always)]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Bytes(_) => Kind::Bytes,
            Self::Float(_) => Kind::Float,
            Self::Int64(_) => Kind::Int64,
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Int64(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room; false if there is no memory.
    fn reserve(&mut self, further: usize) -> bool {
        match self {
            Self::Bytes(values) => values.try_reserve_exact(further),
            Self::Float(values) => values.try_reserve_exact(further),
            Self::Int64(values) => values.try_reserve_exact(further),
        }
        .is_ok()
    }

    pub fn truncate(&mut self, length: usize) {
        match self {
            Self::Bytes(values) => values.truncate(length),
            Self::Float(values) => values.truncate(length),
            Self::Int64(values) => values.truncate(length),
        }
    }

    fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Bytes(values), Self::Bytes(further)) => values.extend_from_slice(further),
            (Self::Float(values), Self::Float(further)) => values.extend_from_slice(further),
            (Self::Int64(values), Self::Int64(further)) => values.extend_from_slice(further),
            _ => unreachable!("columns of one feature have one kind"),
        }
    }

    /// Appends what a missing feature is taken for; false if it is of another kind.
    pub fn append_default(&mut self, default: &'a Default) -> bool {
        match (self, default) {
            (Self::Bytes(values), Default::Bytes(further)) => {
                values.extend(further.iter().map(Vec::as_slice));
            }
            (Self::Float(values), Default::Float(further)) => values.extend_from_slice(further),
            (Self::Int64(values), Default::Int64(further)) => values.extend_from_slice(further),
            _ => return false,
        }
        true
    }
}

/// A feature's values in record after record, and where those of each begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Column<'a> {
    pub values: Values<'a>,
    /// From 0: where the items (or frames) of each record end; empty if the number is fixed.
    pub rows: Vec<i64>,
    /// From 0: where the values of each frame end; empty if there are no frames of any length.
    pub frames: Vec<i64>,
}

impl<'a> Column<'a> {
    /// For so many records, of whose values those of `held` are in the column at once; None if they
    /// do not fit in memory.
    pub fn new(feature: &Feature, records: usize, held: usize) -> Option<Self> {
        let mut values = Values::new(feature.kind);
        let (mut rows, mut frames) = (Vec::new(), Vec::new());
        match feature.shape {
            FeatureShape::Fixed { count, .. } => {
                if !values.reserve(held.checked_mul(count)?) {
                    return None;
                }
            }
            FeatureShape::Varying { .. } | FeatureShape::Frames { .. } => {
                rows.reserve(records + 1);
                rows.push(0);
            }
        }
        if matches!(feature.shape, FeatureShape::Frames { count: None, .. }) {
            frames.push(0);
        }
        Some(Self {
            values,
            rows,
            frames,
        })
    }

    /// Takes back what was appended after so many records.
    pub fn truncate(&mut self, records: usize, shape: &FeatureShape) {
        if let FeatureShape::Fixed { count, .. } = shape {
            return self.values.truncate(records * count);
        }
        self.rows.truncate(records + 1);
        let items = self.rows.last().map_or(0, |&end| end as usize);
        match shape {
            FeatureShape::Varying { of } => self.values.truncate(items * of),
            FeatureShape::Frames { count: Some(n), .. } => self.values.truncate(items * n),
            _ => {
                self.frames.truncate(items + 1);
                let end = self.frames.last().map_or(0, |&end| end as usize);
                self.values.truncate(end);
            }
        }
    }

    /// Appends the records of another column of the feature; false if there is no memory.
    pub fn append(&mut self, other: &Self) -> bool {
        if !self.values.reserve(other.values.len()) {
            return false;
        }
        self.values.append(&other.values);
        append_splits(&mut self.rows, &other.rows);
        append_splits(&mut self.frames, &other.frames);
        true
    }
}

fn append_splits(splits: &mut Vec<i64>, further: &[i64]) {
    if let (Some(&end), Some(more)) = (splits.last(), further.get(1..)) {
        splits.extend(more.iter().map(|split| split + end));
    }
}
