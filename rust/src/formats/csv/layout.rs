//! What a file of comma-separated values holds.

/// A column that is read: the type of its values, and what stands for those that are missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Int32(Option<i32>),
    Int64(Option<i64>),
    Float32(Option<f32>),
    Float64(Option<f64>),
    Text(Option<Vec<u8>>),
}

/// Which of the file's columns are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    All,
    /// These, ascending.
    Only(Vec<usize>),
    /// All but these, ascending.
    Without(Vec<usize>),
}

/// How records are written and what is read of them.
#[derive(Clone, Debug)]
pub struct Layout {
    pub delimiter: u8,
    /// Whether fields may be quoted.
    pub quotes: bool,
    /// Text that stands for a missing value, as no text does.
    pub missing: Vec<u8>,
    pub fields: Vec<Field>,
    pub chosen: Chosen,
}

impl Layout {
    /// How many of the file's columns come before the one that is read as field `index`.
    pub fn column(&self, index: usize) -> usize {
        match &self.chosen {
            Chosen::All => index,
            Chosen::Only(columns) => columns.get(index).copied().unwrap_or(index),
            Chosen::Without(columns) => columns.iter().fold(index, |place, &without| {
                place + usize::from(without <= place)
            }),
        }
    }
}
