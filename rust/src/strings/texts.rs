//! Strings concatenated in one piece of memory.

/// Strings that were made, to be handed on together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Appends the string that `write` appends to the bytes it is given.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a string.
    pub fn push(&mut self, text: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(text));
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets all strings from the `count`-th on.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }
}

/// All strings concatenated, and where each begins; the last ends at the end.
pub fn concat(strings: &[&[u8]]) -> (Vec<u8>, Vec<i64>) {
    let mut edges = Vec::with_capacity(strings.len() + 1);
    let mut values = Vec::with_capacity(strings.iter().map(|string| string.len()).sum());
    edges.push(0);
    for string in strings {
        values.extend_from_slice(string);
        edges.push(values.len() as i64);
    }
    (values, edges)
}

/// Strings cut, or filled up with zeros, to `width` bytes each.
///
/// None if these are more than memory has.
pub fn padded(strings: &[&[u8]], width: usize) -> Option<Vec<u8>> {
    let size = strings.len().checked_mul(width)?;
    let mut values = Vec::new();
    values.try_reserve_exact(size).ok()?;
    for string in strings {
        let taken = string.len().min(width);
        values.extend_from_slice(&string[..taken]);
        values.resize(values.len() + width - taken, 0);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_any_length() {
        let strings: [&[u8]; 3] = [b"ab", b"", b"cde"];
        assert_eq!(concat(&strings), (b"abcde".to_vec(), vec![0, 2, 2, 5]));
        assert_eq!(padded(&strings, 2).unwrap(), b"ab\0\0cd");
        assert_eq!(padded(&strings, 0).unwrap(), b"");
        assert_eq!(padded(&strings, usize::MAX), None);
        assert_eq!(concat(&[]), (vec![], vec![0]));
    }
}
