use super::encoder::Encoder;
use super::format::Format;
use super::inflate::inflated;
use super::reader::{skip, Reader};
use super::Compression;
use crate::blocks::rng::mix64;
use std::io::{self, Cursor, Read};

const FORMATS: [Format; 4] = [
    Format::TfRecord,
    Format::Lines,
    Format::Fixed {
        record: 3,
        header: 2,
        footer: 1,
    },
    Format::Fixed {
        record: usize::MAX,
        header: usize::MAX,
        footer: usize::MAX,
    },
];
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

/// All records, and the message, byte and record of a failure.
type All = (Vec<Vec<u8>>, Option<(String, u64, u64)>);

fn read(bytes: &[u8], format: Format, compression: Compression, chunk: usize) -> All {
    let input = inflated(Cursor::new(bytes.to_vec()), compression, chunk);
    all(&mut Reader::new(input, format, chunk, 0, 0))
}

fn all(reader: &mut Reader) -> All {
    let mut found = Vec::new();
    loop {
        let records = reader.next(7, 0);
        found.extend(records.places.iter().map(|p| reader.record(p).into_owned()));
        if let Some(failure) = records.failure {
            assert!(reader.next(1, 0).places.is_empty());
            let message = match failure.cause {
                super::defect::Cause::Defect(defect) => defect.to_string(),
                super::defect::Cause::Io(error) => error.to_string(),
            };
            return (found, Some((message, failure.offset, failure.number)));
        }
        if records.places.is_empty() {
            return (found, None);
        }
    }
}

fn encoded(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut encoder = Encoder::new(compression, 6);
    for record in records {
        encoder.add(record).unwrap();
    }
    encoder.finish().unwrap();
    encoder.take()
}

fn some_records() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 300, 7, 5000, 0, 64];
    let filled = |(i, n): (usize, &usize)| vec![i as u8; *n];
    lengths.iter().enumerate().map(filled).collect()
}

#[test]
fn bytes_are_tensorflows() {
    let written = encoded(&[b"hello".to_vec()], Compression::None);
    assert_eq!(
        written,
        b"\x05\0\0\0\0\0\0\0\xea\xb2\x04>hello\xbb\x1f\x1c\x19"
    );
}

#[test]
fn records_come_back_whatever_the_chunks() {
    let records = some_records();
    for compression in COMPRESSIONS {
        let file = encoded(&records, compression);
        for chunk in [1, 5, 64, 1 << 16] {
            let expected = (records.clone(), None);
            assert_eq!(read(&file, Format::TfRecord, compression, chunk), expected);
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    let records = some_records();
    for compression in COMPRESSIONS {
        let file = encoded(&records, compression);
        for end in (1..file.len()).step_by(if file.len() > 1000 { 37 } else { 1 }) {
            let (found, failure) = read(&file[..end], Format::TfRecord, compression, 256);
            assert_eq!(found, records[..found.len()]);
            let whole: usize = found.iter().map(|r| r.len() + 16).sum();
            let between = compression == Compression::None && whole == end;
            assert_eq!(failure.is_none(), between, "{compression:?} cut at {end}");
        }
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let records = vec![b"abc".to_vec(), Vec::new(), b"defg".to_vec()];
    let file = encoded(&records, Compression::None);
    for place in 0..file.len() {
        let mut changed = file.clone();
        changed[place] ^= 0x10;
        let (found, failure) = read(&changed, Format::TfRecord, Compression::None, 1 << 12);
        let (_, offset, number) = failure.unwrap();
        assert_eq!(found, records[..found.len()]);
        assert_eq!(number, found.len() as u64);
        assert!(offset <= place as u64);
    }
}

#[test]
fn absurd_lengths_take_no_memory() {
    let length = (1u64 << 31).to_le_bytes();
    let mut file = length.to_vec();
    file.extend(super::format::masked_crc(&length).to_le_bytes());
    file.extend([7; 100]);
    let input = Box::new(Cursor::new(file));
    let mut reader = Reader::new(input, Format::TfRecord, 64, 0, 0);
    let (found, failure) = all(&mut reader);
    assert_eq!((found.len(), failure.map(|f| f.1)), (0, Some(0)));
    assert!(reader.room() < 1024);
}

#[test]
fn lines_and_fixed_records() {
    let lines = |text: &[u8]| read(text, Format::Lines, Compression::None, 2);
    let expected = [&b"a"[..], b"", b"bc", b"last"]
        .map(<[u8]>::to_vec)
        .to_vec();
    assert_eq!(lines(b"a\r\n\nb\rc\nlast\r"), (expected, None));
    assert_eq!(lines(b""), (Vec::new(), None));
    assert_eq!(lines(b"\n").0, [b""]);
    let fixed = |bytes: &[u8]| read(bytes, FORMATS[2], Compression::None, 1);
    let expected = vec![b"aaa".to_vec(), b"bbb".to_vec()];
    assert_eq!(fixed(b"HHaaabbbF"), (expected, None));
    assert_eq!(fixed(b"HHF"), (Vec::new(), None));
    let (found, failure) = fixed(b"HHaaabF");
    assert_eq!(
        (found.len(), failure.map(|f| (f.1, f.2))),
        (1, Some((5, 1)))
    );
    assert!(fixed(b"H").1.unwrap().0.contains("fewer than its header"));
}

#[test]
fn reading_goes_on_at_a_position() {
    let records = some_records();
    for compression in COMPRESSIONS {
        let file = encoded(&records, compression);
        let open = || inflated(Cursor::new(file.clone()), compression, 32);
        let mut reader = Reader::new(open(), Format::TfRecord, 32, 0, 0);
        for number in 0..records.len() {
            let (offset, before) = reader.position();
            assert_eq!(before, number as u64);
            let mut input = open();
            skip(&mut input, offset).unwrap();
            let mut again = Reader::new(input, Format::TfRecord, 32, offset, before);
            assert_eq!(all(&mut again), (records[number..].to_vec(), None));
            reader.next(1, 0);
        }
    }
}

#[test]
fn members_of_gzip_follow_one_another_but_not_streams_of_zlib() {
    let records = some_records();
    let twice = |compression| encoded(&records, compression).repeat(2);
    let (found, failure) = read(
        &twice(Compression::Gzip),
        Format::TfRecord,
        Compression::Gzip,
        99,
    );
    assert_eq!((found.len(), failure), (14, None));
    let (found, failure) = read(
        &twice(Compression::Zlib),
        Format::TfRecord,
        Compression::Zlib,
        99,
    );
    assert_eq!(found.len(), 7);
    assert!(failure.unwrap().0.contains("follow the end"));
}

/// Gives at most one byte a time, and now and then says that it was interrupted.
struct Halting(Cursor<Vec<u8>>, bool);

impl Read for Halting {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = to.len().min(1);
        self.0.read(&mut to[..most])
    }
}

#[test]
fn short_and_interrupted_reads_change_nothing() {
    let records = some_records();
    let input = Halting(Cursor::new(encoded(&records, Compression::None)), false);
    let mut reader = Reader::new(Box::new(input), Format::TfRecord, 512, 0, 0);
    assert_eq!(all(&mut reader), (records, None));
}

/// Files of pseudo-random bytes, some of them valid ones with bytes changed, cut off or put in.
fn damaged(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut random = |n: usize| {
        state = mix64(state, 1);
        (state >> 33) as usize % n
    };
    let mut file = if random(3) == 0 {
        (0..random(400)).map(|_| random(256) as u8).collect()
    } else {
        encoded(&some_records()[..4], COMPRESSIONS[random(3)])
    };
    for _ in 0..random(4) {
        let place = random(file.len() + 1);
        match random(3) {
            0 => file.truncate(place),
            1 => file.insert(place, random(256) as u8),
            _ if place < file.len() => file[place] = random(256) as u8,
            _ => {}
        }
    }
    file
}

#[test]
fn any_bytes_end_in_records_or_a_failure() {
    for seed in 0..3000 {
        let file = damaged(seed);
        for format in FORMATS {
            for compression in COMPRESSIONS {
                let input = inflated(Cursor::new(file.clone()), compression, 64);
                let mut reader = Reader::new(input, format, 64, 0, 0);
                let (found, _) = all(&mut reader);
                assert!(found.len() <= 1 + 100 * file.len());
                assert!(reader.room() <= 256 + 4000 * file.len());
            }
        }
    }
}

#[test]
fn records_stay_where_they_are_while_more_are_read() {
    let records: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8; i % 90]).collect();
    let file = encoded(&records, Compression::None);
    for (chunk, limit, nbytes) in [(1, 7, 0), (64, 7, 300), (100, 500, 2_000), (1 << 16, 3, 50)] {
        let input = inflated(Cursor::new(file.clone()), Compression::None, chunk);
        let mut reader = Reader::new(input, Format::TfRecord, chunk, 0, 0);
        let mut found = Vec::new();
        loop {
            let given = reader.next(limit, nbytes);
            assert!(given.failure.is_none() && given.places.len() <= limit);
            if given.places.is_empty() {
                break;
            }
            let size = given.places.last().unwrap().end;
            let ended = reader.position().1 == records.len() as u64;
            assert!(given.places.len() == limit || size + 4 >= nbytes || ended);
            // Every other one is let go, so that its memory is used again.
            let shared = (found.len() % 2 == 0).then(|| reader.shared());
            let now: Vec<_> = given
                .places
                .iter()
                .map(|p| reader.record(p).into_owned())
                .collect();
            found.push((shared, given.places, now));
        }
        let all: Vec<_> = found.iter().flat_map(|(_, _, now)| now.clone()).collect();
        assert_eq!(all, records);
        for (shared, places, now) in found {
            let Some((memory, start)) = shared else {
                continue;
            };
            let later = places
                .iter()
                .map(|p| memory[start + p.start..start + p.end].to_vec());
            assert_eq!(later.collect::<Vec<_>>(), now);
        }
    }
}
