//! Memory of the caller's for numbers of which every record has as many.

use super::column::Values;

/// Numbers of record after record, `count` of each.
pub struct Target<'o> {
    pub numbers: Numbers<'o>,
    pub count: usize,
}

pub enum Numbers<'o> {
    Float(&'o mut [f32]),
    Int64(&'o mut [i64]),
}

impl<'o> Target<'o> {
    /// The first `records` records, and the others.
    pub fn split(self, records: usize) -> (Self, Self) {
        let (count, at) = (self.count, self.count * records);
        let (first, rest) = match self.numbers {
            Numbers::Float(numbers) => {
                let (first, rest) = numbers.split_at_mut(at);
                (Numbers::Float(first), Numbers::Float(rest))
            }
            Numbers::Int64(numbers) => {
                let (first, rest) = numbers.split_at_mut(at);
                (Numbers::Int64(first), Numbers::Int64(rest))
            }
        };
        let of = |numbers| Self { numbers, count };
        (of(first), of(rest))
    }

    /// Sets the numbers of a record to `values`, of which there are as many.
    pub fn put(&mut self, record: usize, values: &Values) {
        let range = record * self.count..(record + 1) * self.count;
        match (&mut self.numbers, values) {
            (Numbers::Float(to), Values::Float(from)) => to[range].copy_from_slice(from),
            (Numbers::Int64(to), Values::Int64(from)) => to[range].copy_from_slice(from),
            _ => unreachable!("a feature's numbers and memory are of one kind"),
        }
    }
}
