//! Strings as one run of bytes.

/// All strings concatenated, and where each begins; the last ends at the end.
pub fn joined(strings: &[&[u8]]) -> (Vec<u8>, Vec<i64>) {
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
        let kept = string.len().min(width);
        values.extend_from_slice(&string[..kept]);
        values.resize(values.len() + width - kept, 0);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_any_length() {
        let strings: [&[u8]; 3] = [b"ab", b"", b"cde"];
        assert_eq!(joined(&strings), (b"abcde".to_vec(), vec![0, 2, 2, 5]));
        assert_eq!(padded(&strings, 2).unwrap(), b"ab\0\0cd");
        assert_eq!(padded(&strings, 0).unwrap(), b"");
        assert_eq!(padded(&strings, usize::MAX), None);
        assert_eq!(joined(&[]), (vec![], vec![0]));
    }
}
