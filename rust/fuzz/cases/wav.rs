//! WAV files: whatever the bytes are, samples within them, or a defect.

use _core::formats::wav::{parse, samples};

pub fn run(bytes: &[u8]) {
    let wav = match parse(bytes) {
        Ok(wav) => wav,
        Err(defect) => return assert!(defect.at <= bytes.len() && !defect.to_string().is_empty()),
    };
    assert!(wav.data.end <= bytes.len() && wav.data.len() % (2 * wav.channels) == 0);
    let count = wav.data.len() / (2 * wav.channels);
    let whole = samples(bytes, &wav, count, wav.channels);
    assert!(whole.iter().all(|value| (-1.0..1.0).contains(value)));
    let more = samples(bytes, &wav, count + 2, wav.channels + 1);
    assert_eq!(more.len(), (count + 2) * (wav.channels + 1));
    for (row, frame) in more
        .chunks_exact(wav.channels + 1)
        .zip(whole.chunks_exact(wav.channels))
    {
        assert_eq!(row[..wav.channels], *frame);
    }
}
