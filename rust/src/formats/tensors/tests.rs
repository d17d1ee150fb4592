//! Messages as TensorFlow 2.21 writes them, and damaged ones.

use super::kind::Kind;
use super::parse::{parse, Defect};
use super::write;

fn kind(number: u64) -> Kind {
    Kind::of(number).unwrap()
}

fn values(bytes: &[u8], number: u64) -> Result<(Vec<i64>, Vec<u8>), Defect> {
    let tensor = parse(bytes, kind(number))?;
    let mut out = Vec::new();
    tensor.write(&mut out);
    Ok((tensor.dims.clone(), out))
}

#[test]
fn content_and_lists_of_values() {
    let content = b"\x08\x05\x12\x04\x12\x02\x08\x03\"\x06\x01\x00\x00\x00\x02\x00";
    let wanted = (vec![3], vec![1, 0, 0, 0, 2, 0]);
    assert_eq!(values(content, 5).unwrap(), wanted);
    for listed in [
        &b"\x08\x05\x12\x04\x12\x02\x08\x03:\x03\x01\x00\x02"[..],
        b"\x08\x05\x12\x04\x12\x02\x08\x038\x018\x008\x02",
        b"\x08\x05\x12\x04\x12\x02\x08\x038\x01:\x02\x00\x02",
    ] {
        assert_eq!(values(listed, 5).unwrap(), wanted);
    }
    let filled = b"\x08\x05\x12\x04\x12\x02\x08\x03:\x02\x01\x02";
    assert_eq!(
        values(filled, 5).unwrap(),
        (vec![3], vec![1, 0, 2, 0, 2, 0])
    );
    let nothing = b"\x08\x05\x12\x04\x12\x02\x08\x02";
    assert_eq!(values(nothing, 5).unwrap(), (vec![2], vec![0; 4]));
    let negative = b"\x08\x06\x12\x00:\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(values(negative, 6).unwrap(), (vec![], vec![255]));
}

#[test]
fn strings() {
    let bytes = b"\x08\x07\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02B\x02abB\x01c";
    let tensor = parse(bytes, kind(7)).unwrap();
    assert_eq!(tensor.dims, [1, 2]);
    let items: Vec<_> = tensor.strings().collect();
    assert_eq!(items, [&b"ab"[..], b"c"]);
    assert_eq!(write::strings(&[1, 2], items.into_iter()), bytes);
    let packed = b"\x08\x07\x12\x04\x12\x02\x08\x02\"\x05\x02\x01abc";
    let tensor = parse(packed, kind(7)).unwrap();
    assert_eq!(tensor.strings().collect::<Vec<_>>(), [&b"ab"[..], b"c"]);
}

#[test]
fn every_cut_and_every_changed_byte_is_an_answer() {
    let whole: [&[u8]; 3] = [
        b"\x08\x05\x12\x04\x12\x02\x08\x03\"\x06\x01\x00\x00\x00\x02\x00",
        b"\x08\x07\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02B\x02abB\x01c",
        b"\x08\x12\x12\x04\x12\x02\x08\x01b\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00\x00",
    ];
    for bytes in whole {
        for number in [5, 7, 18] {
            for cut in 0..bytes.len() {
                let _ = values(&bytes[..cut], number);
                for value in 0..=255 {
                    let mut changed = bytes.to_vec();
                    changed[cut] = value;
                    if let Ok(tensor) = parse(&changed, kind(number)) {
                        let mut out = Vec::new();
                        tensor.write(&mut out);
                        assert_eq!(out.len(), tensor.size());
                        assert!(tensor.strings().take(100).count() <= 100);
                    }
                }
            }
        }
    }
}

#[test]
fn claims_of_any_size() {
    let huge = b"\x08\x01\x12\x0c\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x3f";
    assert_eq!(values(huge, 1), Err(Defect::Shape));
    let large = b"\x08\x01\x12\x07\x12\x05\x08\x80\x80\x80\x40-\x00\x00\x80?";
    assert_eq!(values(large, 1), Err(Defect::Filled(4 << 27)));
    let negative = b"\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(values(negative, 1), Err(Defect::Shape));
    let short = b"\x08\x01\x12\x04\x12\x02\x08\x04\"\x041234";
    assert_eq!(values(short, 1), Err(Defect::Content(4, 16)));
    assert_eq!(values(short, 2), Err(Defect::Kind(1)));
}

#[test]
fn numbers_are_written() {
    let written = |number, dims: &[i64], items: &[u8]| {
        let before = write::before_numbers(kind(number), dims, items.len());
        [&before, items].concat()
    };
    assert_eq!(written(3, &[0], &[]), b"\x08\x03\x12\x02\x12\x00");
    let wanted = b"\x08\t\x12\x00\"\x08\x03\x00\x00\x00\x00\x00\x00\x00";
    assert_eq!(written(9, &[], &3i64.to_le_bytes()), wanted);
    let (dims, items) = values(&written(4, &[300], &[7; 300]), 4).unwrap();
    assert_eq!((dims, items), (vec![300], vec![7; 300]));
}
