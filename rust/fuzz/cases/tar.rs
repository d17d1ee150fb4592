//! Tar archives: whatever the bytes are, reading ends, and positions only grow.

use _core::formats::tar::archive::Archive;
use _core::formats::tar::samples::{first_extensions, SampleSpec, Samples};
use std::io::Cursor;

pub fn run(bytes: &[u8]) {
    let [others, file @ ..] = bytes else {
        return;
    };
    let archive = || Archive::new(Box::new(Cursor::new(file.to_vec())), 0);
    let extensions = first_extensions(&mut archive()).unwrap_or_default();
    let wanted = SampleSpec {
        defaults: vec![None; extensions.len()],
        extensions,
        others: others % 2 == 0,
        most: 1 << 20,
    };
    let mut samples = Samples::new(archive(), wanted, 0);
    let mut before = samples.position();
    while let Some(sample) = samples.next_sample() {
        let after = samples.position();
        assert!(after >= before && after.0 <= file.len() as u64);
        before = after;
        drop(sample);
    }
    assert!(samples.next_sample().is_none());
}
