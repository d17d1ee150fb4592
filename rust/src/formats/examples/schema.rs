//! What the caller wants to have from each record.

use std::collections::HashMap;

/// The kinds of values that features hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bytes,
    Float,
    Int64,
}

impl Kind {
    /// The kind that a field of the message `Feature` holds.
    #[inline(always)]
    pub fn of_field(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Bytes),
            2 => Some(Self::Float),
            3 => Some(Self::Int64),
            _ => None,
        }
    }

    /// The name of the dtype.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "string",
            Self::Float => "float32",
            Self::Int64 => "int64",
        }
    }
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    Bytes(Vec<Vec<u8>>),
    Float(Vec<f32>),
    Int64(Vec<i64>),
}

/// How many values a feature has in a record.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureShape {
    /// Always `count`; `default` where the feature is missing.
    Fixed {
        count: usize,
        default: Option<Default>,
    },
    /// Any multiple of `of`; none where it is missing.
    Varying { of: usize },
    /// A list of frames with `count` values each, or any number; `required` to be there.
    Frames {
        count: Option<usize>,
        required: bool,
    },
}

/// One of the wanted features.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    pub key: Vec<u8>,
    pub kind: Kind,
    pub shape: FeatureShape,
}

/// Features, and the slots of their keys: features with one key share a slot.
pub struct Schema {
    features: Vec<Feature>,
    feature_slots: Vec<usize>,
    by_key: HashMap<Vec<u8>, usize>,
}

impl Schema {
    pub fn new(features: Vec<Feature>) -> Self {
        let mut by_key = HashMap::new();
        let mut feature_slots = Vec::new();
        for feature in &features {
            let next = by_key.len();
            feature_slots.push(*by_key.entry(feature.key.clone()).or_insert(next));
        }
        Self {
            features,
            feature_slots,
            by_key,
        }
    }

    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Whether features have one key; otherwise slots are the features' positions.
    pub fn shares_keys(&self) -> bool {
        self.by_key.len() < self.features.len()
    }

    /// How many keys there are.
    pub fn slots(&self) -> usize {
        self.by_key.len()
    }

    /// The slot of a feature's key.
    #[inline(always)]
    pub fn slot_of(&self, feature: usize) -> usize {
        self.feature_slots[feature]
    }

    /// The slot of this key.
    pub fn slot(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }
}
