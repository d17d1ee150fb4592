//! Files of records: whatever the bytes are, reading ends, and positions only grow.

use _core::formats::records::format::Format;
use _core::formats::records::inflate::inflated;
use _core::formats::records::reader::Reader;
use _core::formats::records::Compression;
use std::io::Cursor;

const MOST_ROOM: usize = 64 << 20;

pub fn run(bytes: &[u8]) {
    let [form, packing, chunk, file @ ..] = bytes else {
        return;
    };
    let format = match form % 3 {
        0 => Format::TfRecord,
        1 => Format::Lines,
        _ => Format::Fixed {
            record: 1 + usize::from(form / 3),
            header: usize::from(packing / 3),
            footer: usize::from(form / 64),
        },
    };
    let compression = match packing % 3 {
        0 => Compression::None,
        1 => Compression::Gzip,
        _ => Compression::Zlib,
    };
    let chunk = usize::from(*chunk);
    let input = inflated(Cursor::new(file.to_vec()), compression, chunk);
    read(Reader::new(input, format, chunk, 0, 0));
}

fn read(mut reader: Reader) {
    let mut before = (0, 0);
    loop {
        let records = reader.next(5, 0);
        for place in &records.places {
            let _ = reader.record(place).len();
        }
        let after = reader.position();
        assert!(after >= before && reader.room() <= MOST_ROOM);
        assert_eq!(after.1 - before.1, records.places.len() as u64);
        before = after;
        if records.failure.is_some() || records.places.is_empty() {
            assert!(reader.next(5, 0).places.is_empty());
            return;
        }
    }
}
