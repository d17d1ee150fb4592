//! Records of files.

use _core::formats::records::defect::{Cause, Failure};
use _core::formats::records::encoder::Encoder;
use _core::formats::records::format::masked_crc;
use _core::formats::records::format::Format;
use _core::formats::records::inflate::inflated;
use _core::formats::records::reader::Reader;
use _core::formats::records::Compression;
use std::io::Cursor;

fn read(bytes: Vec<u8>, compression: Compression) -> (Vec<Vec<u8>>, Option<Failure>) {
    let input = inflated(Cursor::new(bytes), compression, 16);
    let mut reader = Reader::new(input, Format::TfRecord, 16, 0, 0);
    let mut found = Vec::new();
    loop {
        let records = reader.next(3, 0);
        found.extend(records.places.iter().map(|p| reader.record(p).into_owned()));
        if records.failure.is_some() || records.places.is_empty() {
            return (found, records.failure);
        }
    }
}

#[test]
fn what_is_flushed_can_be_read_before_the_end() {
    for name in ["", "GZIP", "ZLIB"] {
        let compression = Compression::named(name).unwrap();
        let mut encoder = Encoder::new(compression, 6);
        for record in [&b"one"[..], b"", b"three"] {
            encoder.add(record).unwrap();
        }
        encoder.flush().unwrap();
        let flushed = encoder.take();
        let (found, failure) = read(flushed.clone(), compression);
        assert_eq!(found, [&b"one"[..], b"", b"three"]);
        assert_eq!(failure.is_some(), !name.is_empty());
        encoder.finish().unwrap();
        let (found, failure) = read([flushed, encoder.take()].concat(), compression);
        assert!(found.len() == 3 && failure.is_none());
    }
    assert!(Compression::named("zip").is_none());
}

#[test]
fn a_record_that_says_to_be_too_long_is_refused_at_once() {
    let length = ((1u64 << 31) + 1).to_le_bytes();
    let bytes = [&length[..], &masked_crc(&length).to_le_bytes(), &[0; 99]].concat();
    let (found, failure) = read(bytes, Compression::None);
    let Some(Failure {
        cause: Cause::Defect(defect),
        offset: 0,
        number: 0,
    }) = failure
    else {
        panic!("the first record is too long");
    };
    assert!(found.is_empty());
    assert_eq!(
        defect.to_string(),
        "a record of 2147483649 bytes or more; the limit is 2147483648"
    );
}
