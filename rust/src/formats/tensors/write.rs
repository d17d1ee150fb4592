//! From a tensor to a `TensorProto`, byte for byte as TensorFlow writes it.

use super::kind::{Kind, STRING};

/// What comes before the values: type and shape.
fn header(kind: Kind, dims: &[i64]) -> Vec<u8> {
    let mut out = vec![0x08];
    varint(kind.number, &mut out);
    let mut shape = Vec::new();
    for &dim in dims {
        let mut size = Vec::new();
        if dim != 0 {
            size.push(0x08);
            varint(dim as u64, &mut size);
        }
        field(2, &size, &mut shape);
    }
    field(2, &shape, &mut out);
    out
}

/// What comes before the bytes of all items of a tensor of numbers, `size` of them.
pub fn before_numbers(kind: Kind, dims: &[i64], size: usize) -> Vec<u8> {
    let mut out = header(kind, dims);
    if size > 0 {
        start(4, size, &mut out);
    }
    out
}

/// A tensor of strings.
pub fn strings<'a>(dims: &[i64], items: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let kind = Kind::of(STRING).expect("strings are among the kinds");
    let mut out = header(kind, dims);
    for item in items {
        field(kind.field, item, &mut out);
    }
    out
}

fn field(number: u64, content: &[u8], out: &mut Vec<u8>) {
    start(number, content.len(), out);
    out.extend(content);
}

fn start(number: u64, length: usize, out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(length as u64, out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
