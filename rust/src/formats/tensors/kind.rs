//! What tensors hold, as `TensorProto` numbers it.

/// The type of a tensor's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number in `DataType`.
    pub number: u64,
    /// Bytes of an item; 0 for strings.
    pub width: usize,
    /// The field that lists values one by one.
    pub field: u64,
    /// How it lists them.
    pub list: List,
}

/// How values stand in their field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Varints,
    /// Of so many bytes each; a complex number takes two.
    Fixed(usize),
    Strings,
}

pub const STRING: u64 = 7;
pub const BOOL: u64 = 10;

const KINDS: [Kind; 16] = [
    kind(1, 4, 5, List::Fixed(4)),
    kind(2, 8, 6, List::Fixed(8)),
    kind(3, 4, 7, List::Varints),
    kind(4, 1, 7, List::Varints),
    kind(5, 2, 7, List::Varints),
    kind(6, 1, 7, List::Varints),
    kind(STRING, 0, 8, List::Strings),
    kind(8, 8, 9, List::Fixed(4)),
    kind(9, 8, 10, List::Varints),
    kind(BOOL, 1, 11, List::Varints),
    kind(14, 2, 13, List::Varints),
    kind(17, 2, 7, List::Varints),
    kind(18, 16, 12, List::Fixed(8)),
    kind(19, 2, 13, List::Varints),
    kind(22, 4, 16, List::Varints),
    kind(23, 8, 17, List::Varints),
];

const fn kind(number: u64, width: usize, field: u64, list: List) -> Kind {
    Kind {
        number,
        width,
        field,
        list,
    }
}

impl Kind {
    /// The type of a number, if columns can hold it.
    pub fn of(number: u64) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.number == number)
    }
}
