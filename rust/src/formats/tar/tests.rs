use super::archive::Archive;
use super::samples::{first_extensions, FailureCause, Sample, SampleSpec, Samples};
use crate::blocks::rng::mix64;
use std::io::{self, Cursor, Read};

/// A header as POSIX describes it, with its checksum.
fn header(name: &[u8], size: &[u8], kind: u8, prefix: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name);
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[345..345 + prefix.len()].copy_from_slice(prefix);
    signed(block)
}

fn signed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn member(name: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
    let size = format!("{:011o}", content.len());
    let mut bytes = header(name, size.as_bytes(), kind, b"");
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), vec![0; 1024]].concat()
}

fn samples(bytes: &[u8], most: u64) -> Samples {
    let wanted = SampleSpec {
        extensions: vec![b"a".to_vec(), b"b".to_vec()],
        defaults: vec![None, Some(b"?".to_vec())],
        others: false,
        most,
    };
    let input = Box::new(Cursor::new(bytes.to_vec()));
    Samples::new(Archive::new(input, 0), wanted, 0)
}

/// The samples, with the messages of failures in their places.
fn all(mut samples: Samples) -> Vec<Result<Sample, String>> {
    let mut found = Vec::new();
    while let Some(item) = samples.next_sample() {
        found.push(item.map_err(|failure| match failure.cause {
            FailureCause::Archive(super::defect::Cause::Defect(defect)) => defect.to_string(),
            FailureCause::Archive(super::defect::Cause::Io(error)) => error.to_string(),
            FailureCause::Sample(wrong) => wrong.to_string(),
        }));
    }
    assert!(samples.next_sample().is_none());
    found
}

fn sample(key: &[u8], a: &[u8], b: &[u8]) -> Result<Sample, String> {
    Ok(Sample {
        key: key.to_vec(),
        values: vec![a.to_vec(), b.to_vec()],
    })
}

fn refused(members: &[Vec<u8>]) -> String {
    let found = all(samples(&archive(members), 1 << 20));
    found.into_iter().find_map(Result::err).unwrap()
}

#[test]
fn names_come_from_all_places() {
    let prefixed = [header(b"x.a", b"00000000000", b'0', b"far/away")].concat();
    let pax = |records: &[u8]| member(b"pax", b'x', records);
    let members = [
        member(b"plain.A", b'0', b"1"),
        member(b"plain.b", 0, b"2"),
        prefixed,
        member(b"long", b'L', b"gnu/long.a\0"),
        member(b"link", b'K', b"somewhere\0"),
        member(b"short.a", b'0', b"3"),
        pax(b"14 path=pax.a\n11 mtime=1\n"),
        member(b"all", b'g', b"15 comment=all\n"),
        member(b"short.a", b'7', b"4"),
        member(b"folder.a", b'5', b""),
        member(b"link.a", b'2', b""),
        pax(b"9 size=2\n"),
        [
            header(b"big.a", b"00000000000", b'0', b""),
            [b"56".to_vec(), vec![0; 510]].concat(),
        ]
        .concat(),
    ];
    let found = all(samples(&archive(&members), 1 << 20));
    let wanted = [
        sample(b"plain", b"1", b"2"),
        sample(b"far/away/x", b"", b"?"),
        sample(b"gnu/long", b"3", b"?"),
        sample(b"pax", b"4", b"?"),
        sample(b"big", b"56", b"?"),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn sizes_may_be_binary_and_checksums_signed() {
    let mut size = [0u8; 12];
    (size[0], size[11]) = (0x80, 3);
    let mut binary = header(b"x.a", &size, b'0', b"");
    binary.extend(b"123");
    binary.resize(1024, 0);
    assert_eq!(
        all(samples(&archive(&[binary]), 9)),
        [sample(b"x", b"123", b"?")]
    );
    let mut block = header(b"\xe9.a", b"00000000000", b'0', b"");
    block[148..156].fill(b' ');
    let sum: i32 = block.iter().map(|&byte| i32::from(byte as i8)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(
        all(samples(&archive(&[block]), 9)),
        [sample(b"\xe9", b"", b"?")]
    );
}

#[test]
fn what_is_damaged_is_named() {
    let x = || member(b"x.a", b'0', b"");
    let named = |records: &[u8]| refused(&[member(b"p", b'x', records), x()]);
    for records in [
        "", "x", "5 a=b", "99 a=b\n", "6 ab\n\n", "7 a=b\nc", "1 ", " a=b\n", "0 a",
    ] {
        let found = all(samples(
            &archive(&[member(b"p", b'x', records.as_bytes()), x()]),
            9,
        ));
        assert_eq!(found[0].is_err(), !records.is_empty(), "{records}");
    }
    assert_eq!(named(b"10 size=x\n"), "a member's pax size is no number");
    assert!(named(b"22 GNU.sparse.major=1\n").contains("x.a is a sparse file"));
    assert!(refused(&[member(b"x.a", b'S', b"")]).contains("sparse"));
    assert!(refused(&[header(b"x.a", b"99", b'0', b"")]).contains("size is no number"));
    let huge = [0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(refused(&[header(b"x.a", &huge, b'0', b"")]).contains("size is no number"));
    let long = header(b"L", b"77777777777", b'L', b"");
    assert!(refused(&[long]).contains("a name or pax header of 8589934591 bytes"));
    let mut endless = [0xff; 12];
    endless[0] = 0x80;
    endless[1..4].fill(0);
    let endless = header(b"x.a", &endless, b'0', b"");
    assert!(refused(&[endless]).contains("a sample of 18446744073709551615 bytes"));
    let mut binary = header(b"x.a", b"", b'0', b"");
    binary[148] = 0x80;
    assert!(refused(&[binary]).contains("the checksum of a member's header"));
    let both = [member(b"y.a", b'0', b"123"), member(b"y.b", b'0', b"45")];
    assert!(all(samples(&archive(&both), 4))[0].is_err());
    assert_eq!(
        all(samples(&archive(&both), 5)),
        [sample(b"y", b"123", b"45")]
    );
}

#[test]
fn samples_that_are_wrong_are_passed_over() {
    let names: [&[u8]; 7] = [b"x.b", b"y.a", b"y.c", b"z.a", b"z.a", b"0.a", b"nodot"];
    let members: Vec<_> = names.iter().map(|name| member(name, b'0', b"")).collect();
    let found = all(samples(&archive(&members), 9));
    assert_eq!(found.len(), 4);
    let texts = [
        "\"x\" has no \"a\"",
        "\"y\" has also \"c\"",
        "\"z\" has \"a\" more",
    ];
    for (item, text) in found.iter().zip(texts) {
        assert!(item.as_ref().unwrap_err().contains(text), "{item:?}");
    }
    assert_eq!(found[3], sample(b"0", b"", b"?"));
}

#[test]
fn the_first_sample_tells_the_extensions() {
    let names: [&[u8]; 5] = [b"__x__", b"f/x.B", b"f/x.a.c", b"f/x.b", b"f/y.d"];
    let members: Vec<_> = names.iter().map(|name| member(name, b'0', b"7")).collect();
    let mut archive = Archive::new(Box::new(Cursor::new(archive(&members))), 0);
    assert_eq!(
        first_extensions(&mut archive).unwrap(),
        [b"b".to_vec(), b"a.c".to_vec()]
    );
}

/// Gives a few bytes at a time and is interrupted now and then; fails at its end.
struct Poor(Cursor<Vec<u8>>, u64);

impl Read for Poor {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if mix64(self.1, 1) % 5 == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = to.len().min(1 + (mix64(self.1, 2) % 300) as usize);
        match self.0.read(&mut to[..most])? {
            0 => Err(io::Error::other("the line is down")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_source_may_give_little_and_fail() {
    let bytes = archive(&[member(b"x.a", b'0', &[7; 700]), member(b"y.a", b'0', b"8")]);
    let wanted = samples(b"", 1 << 20);
    assert!(all(wanted).is_empty());
    let input = Box::new(Poor(Cursor::new(bytes), 0));
    let wanted = SampleSpec {
        extensions: vec![b"a".to_vec()],
        defaults: vec![None],
        others: true,
        most: 1 << 20,
    };
    let found = all(Samples::new(Archive::new(input, 0), wanted, 0));
    assert_eq!(found[0].as_ref().unwrap().values, [vec![7; 700]]);
    assert_eq!(found[1], Err("the line is down".to_string()));
}

#[test]
fn whatever_the_bytes_are_reading_ends() {
    let whole = archive(&[
        member(b"L", b'L', b"long.a\0"),
        member(b"x.a", b'0', &[1; 600]),
        member(b"p", b'x', b"14 path=pax.a\n"),
        member(b"x.a", b'0', b"2"),
    ]);
    for seed in 0..2_000u64 {
        let mut bytes = whole.clone();
        for change in 0..1 + seed % 3 {
            let place = mix64(seed, 2 * change) as usize % bytes.len();
            bytes[place] = mix64(seed, 2 * change + 1) as u8;
            let block = place / 512 * 512;
            if seed % 2 == 0 && block + 512 <= bytes.len() && bytes[block] != 0 {
                let mended = signed(bytes[block..block + 512].to_vec());
                bytes[block..block + 512].copy_from_slice(&mended);
            }
        }
        if seed % 7 == 0 {
            bytes.truncate(mix64(seed, 99) as usize % bytes.len());
        }
        assert!(all(samples(&bytes, 1 << 20)).len() < 99);
    }
}

#[test]
fn reading_goes_on_at_any_position() {
    let names: [&[u8]; 5] = [b"0.a", b"0.b", b"1.a", b"dir", b"2.a"];
    let members: Vec<_> = names
        .iter()
        .map(|name| member(name, b'0', b"content"))
        .collect();
    let bytes = archive(&members);
    let wanted = all(samples(&bytes, 99));
    let mut reader = samples(&bytes, 99);
    for at in 0..=wanted.len() {
        let (offset, number) = reader.position();
        assert_eq!(number, at as u64);
        let rest = samples(&bytes[offset as usize..], 99);
        assert_eq!(all(rest), wanted[at..]);
        let _ = reader.next_sample();
    }
}
