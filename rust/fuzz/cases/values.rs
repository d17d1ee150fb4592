//! Lists of values and the fields of any message: what can be read is written and read as the same.

use _core::formats::examples::column::Values;
use _core::formats::examples::decode;
use _core::formats::examples::encode;
use _core::formats::examples::schema::Kind;
use _core::formats::examples::wire::{Content, Cursor};

pub fn run(message: &[u8]) {
    for kind in [Kind::Bytes, Kind::Float, Kind::Int64] {
        let mut values = Values::new(kind);
        if let Err(found) = decode::list(Cursor::new(message), &mut values) {
            assert!(found.offset.is_none_or(|at| at <= message.len()));
            continue;
        }
        let written = encode::list(&values);
        let mut again = Values::new(kind);
        assert!(decode::list(Cursor::new(&written), &mut again).is_ok());
        assert_eq!(encode::list(&again), written);
    }
    fields(Cursor::new(message), message.len(), 0);
}

fn fields(mut message: Cursor<'_>, length: usize, depth: usize) {
    let mut before = message.at();
    loop {
        match message.field() {
            Ok(None) => return assert!(message.is_done()),
            Ok(Some((number, content))) => {
                assert!(number > 0 && message.at() > before && message.at() <= length);
                before = message.at();
                if let Content::Delimited(inner) = content {
                    if depth < 20 {
                        fields(inner, length, depth + 1);
                    }
                }
            }
            Err(malformed) => return assert!(malformed.at() <= length),
        }
    }
}
