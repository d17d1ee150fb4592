//! Messages from their parts.

use super::column::Values;

/// A field of bytes, or of a message.
pub fn field(number: u32, content: &[u8], to: &mut Vec<u8>) {
    varint(u64::from(number << 3 | 2), to);
    varint(content.len() as u64, to);
    to.extend_from_slice(content);
}

/// The message `BytesList`, `FloatList` or `Int64List`.
pub fn list(values: &Values<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    match values {
        Values::Bytes(values) => values.iter().for_each(|value| field(1, value, &mut list)),
        Values::Float(values) => {
            packed(
                values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                &mut list,
            );
        }
        Values::Int64(values) => {
            let mut bytes = Vec::with_capacity(values.len());
            values
                .iter()
                .for_each(|&value| varint(value as u64, &mut bytes));
            packed(bytes, &mut list);
        }
    }
    list
}

fn packed(values: Vec<u8>, to: &mut Vec<u8>) {
    if !values.is_empty() {
        field(1, &values, to);
    }
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
