//! Messages from their parts.

use super::column::Values;

/// A field of bytes, or of a message.
pub fn field(number: u32, content: &[u8], to: &mut Vec<u8>) {
    head(number, content.len(), to);
    to.extend_from_slice(content);
}

/// An entry of the map of features of an `Example`: a key with its values.
pub fn entry(key: &[u8], values: &Values<'_>, to: &mut Vec<u8>) {
    let kind = match values {
        Values::Bytes(_) => 1,
        Values::Float(_) => 2,
        Values::Int64(_) => 3,
    };
    let list = list_length(values);
    let feature = field_length(list);
    head(1, field_length(key.len()) + field_length(feature), to);
    field(1, key, to);
    head(2, feature, to);
    head(kind, list, to);
    write_list(values, to);
}

/// The message `BytesList`, `FloatList` or `Int64List`.
pub fn list(values: &Values<'_>) -> Vec<u8> {
    let mut list = Vec::with_capacity(list_length(values));
    write_list(values, &mut list);
    list
}

fn write_list(values: &Values<'_>, to: &mut Vec<u8>) {
    match values {
        Values::Bytes(values) => values.iter().for_each(|value| field(1, value, to)),
        _ if values.is_empty() => {}
        Values::Float(values) => {
            head(1, 4 * values.len(), to);
            values
                .iter()
                .for_each(|value| to.extend_from_slice(&value.to_le_bytes()));
        }
        Values::Int64(values) => {
            head(1, varints_length(values), to);
            values.iter().for_each(|&value| varint(value as u64, to));
        }
    }
}

fn list_length(values: &Values<'_>) -> usize {
    match values {
        Values::Bytes(values) => values.iter().map(|value| field_length(value.len())).sum(),
        _ if values.is_empty() => 0,
        Values::Float(values) => field_length(4 * values.len()),
        Values::Int64(values) => field_length(varints_length(values)),
    }
}

fn varints_length(values: &[i64]) -> usize {
    values
        .iter()
        .map(|&value| varint_length(value as u64))
        .sum()
}

/// How many bytes a field of so many has.
fn field_length(content: usize) -> usize {
    1 + varint_length(content as u64) + content
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// What comes before the content of a field of bytes, or of a message.
fn head(number: u32, length: usize, to: &mut Vec<u8>) {
    varint(u64::from(number << 3 | 2), to);
    varint(length as u64, to);
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
