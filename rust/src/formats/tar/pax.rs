//! Pax headers: records `length key=value`, each ended by a line feed.

use super::defect::Defect;

/// What a pax header says of the member after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pax {
    pub path: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub sparse: bool,
}

/// Reads the content of a pax header.
pub fn parse(mut rest: &[u8]) -> Result<Pax, Defect> {
    let mut pax = Pax::default();
    while !rest.is_empty() {
        let space = memchr::memchr(b' ', rest).ok_or(Defect::Pax)?;
        let length = decimal(&rest[..space]).ok_or(Defect::Pax)? as usize;
        let record = rest.get(space + 1..length).ok_or(Defect::Pax)?;
        let record = record.strip_suffix(b"\n").ok_or(Defect::Pax)?;
        let equals = memchr::memchr(b'=', record).ok_or(Defect::Pax)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => pax.path = Some(value.to_vec()),
            b"size" => {
                let size = decimal(value).ok_or(Defect::Number { field: "pax size" })?;
                pax.size = Some(size);
            }
            _ => pax.sparse |= key.starts_with(b"GNU.sparse."),
        }
        rest = &rest[length..];
    }
    Ok(pax)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}
