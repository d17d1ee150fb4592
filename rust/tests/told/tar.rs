//! Headers of tar archives that only speak of other members.

use _core::formats::tar::archive::Archive;
use _core::formats::tar::defect::Cause;
use _core::formats::tar::samples::{FailureCause, SampleSpec, Samples};
use std::io::Cursor;

fn header(size: u64, kind: u8) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..3].copy_from_slice(b"a.x");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = kind;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn told(size: u64, content: &[u8]) -> String {
    let mut bytes = [header(size, b'x'), content.to_vec()].concat();
    bytes.resize(4 * 512, 0);
    let archive = Archive::new(Box::new(Cursor::new(bytes)), 0);
    let wanted = SampleSpec {
        extensions: vec![b"x".to_vec()],
        defaults: vec![None],
        others: false,
        most: 1 << 20,
    };
    let mut samples = Samples::new(archive, wanted, 0);
    assert_eq!(samples.width(), 1);
    let failure = samples.next_sample().expect("a failure").unwrap_err();
    match failure.cause {
        FailureCause::Archive(Cause::Defect(defect)) => defect.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pax_headers_that_are_wrong() {
    assert_eq!(told(9, b"9 a=b no."), "a pax header is damaged");
    assert_eq!(
        told(12, b"12 size=1x2\n"),
        "a member's pax size is no number"
    );
    assert_eq!(told(2 << 20, b""), "a name or pax header of 2097152 bytes");
}
