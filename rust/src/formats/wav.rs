//! WAV files of 16-bit samples.

use std::fmt;
use std::ops::Range;

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Wav {
    pub channels: usize,
    pub rate: u32,
    /// Where the samples are, channel after channel of each moment.
    pub data: Range<usize>,
}

/// What is wrong with a file, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub struct Defect {
    pub at: usize,
    pub what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub enum What {
    NoWav,
    Truncated { missing: usize },
    Format { length: usize },
    Coding { code: u16 },
    Bits { bits: u16 },
    Channels,
    Partial { bytes: usize, frame: usize },
    NoFormat,
    NoData,
    Twice { chunk: &'static str },
}

impl fmt::Display for Defect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "at byte {}: ", self.at)?;
        match &self.what {
            What::NoWav => write!(to, "no WAV file: it does not begin with RIFF and WAVE"),
            What::Truncated { missing } => write!(to, "{missing} or more bytes are missing"),
            What::Format { length } => {
                write!(to, "a format of {length} bytes; it has 16, 18 or 40")
            }
            What::Coding { code } => write!(
                to,
                "samples are coded by format {code}; only 1, integers (PCM), can be read"
            ),
            What::Bits { bits } => write!(to, "samples have {bits} bits; only 16 can be read"),
            What::Channels => write!(to, "there are no channels"),
            What::Partial { bytes, frame } => write!(
                to,
                "{bytes} bytes of samples do not divide by {frame}, those of one moment"
            ),
            What::NoFormat => write!(to, "samples without a format before them"),
            What::NoData => write!(to, "the file has no samples (no chunk \"data\")"),
            What::Twice { chunk } => write!(to, "a second chunk {chunk:?}"),
        }
    }
}

const CHUNK: usize = 8;

/// Reads a file's headers.
pub fn parse(bytes: &[u8]) -> Result<Wav, Defect> {
    if bytes.len() < 12 || &bytes[..4] != b"RIFF" || &bytes[8..12] != b"WAVE" {
        return Err(wrong(0, What::NoWav));
    }
    let mut at = 12;
    let mut format = None;
    let mut found: Option<Wav> = None;
    while let Some(name) = bytes.get(at..at + 4) {
        let Some(size) = bytes.get(at + 4..at + CHUNK) else {
            let missing = at + CHUNK - bytes.len();
            return Err(wrong(at, What::Truncated { missing }));
        };
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let content = at + CHUNK..at + CHUNK + size;
        if content.end > bytes.len() {
            let missing = content.end - bytes.len();
            return Err(wrong(at, What::Truncated { missing }));
        }
        match name {
            b"fmt " if format.is_some() => {
                return Err(wrong(at, What::Twice { chunk: "fmt " }));
            }
            b"fmt " => {
                let read = format_of(&bytes[content.clone()]);
                format = Some(read.map_err(|what| wrong(at, what))?);
            }
            b"data" if found.is_some() => {
                return Err(wrong(at, What::Twice { chunk: "data" }));
            }
            b"data" => {
                let (channels, rate) = format.ok_or(wrong(at, What::NoFormat))?;
                let (bytes, frame) = (size, 2 * channels);
                if size % frame != 0 {
                    return Err(wrong(at, What::Partial { bytes, frame }));
                }
                let data = content.clone();
                found = Some(Wav {
                    channels,
                    rate,
                    data,
                });
            }
            _ => {}
        }
        // A chunk of odd length is padded by a zero, which some writers leave out.
        let padded = size % 2 == 1 && bytes.get(content.end) == Some(&0);
        at = content.end + usize::from(padded);
    }
    found.ok_or(wrong(at, What::NoData))
}

/// Channels and samples a second.
fn format_of(bytes: &[u8]) -> Result<(usize, u32), What> {
    let length = bytes.len();
    if !matches!(length, 16 | 18 | 40) {
        return Err(What::Format { length });
    }
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let extensible = short(0) == 0xfffe && length == 40;
    let code = if extensible { short(24) } else { short(0) };
    if code != 1 {
        return Err(What::Coding { code });
    }
    match (short(2), short(14)) {
        (0, _) => Err(What::Channels),
        (channels, 16) => Ok((
            usize::from(channels),
            u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        )),
        (_, bits) => Err(What::Bits { bits }),
    }
}

fn wrong(at: usize, what: What) -> Defect {
    Defect { at, what }
}

/// Samples from -1 to 1, for `channels` channels: further ones are as the last that the file has,
/// and zeros follow the file's samples up to `samples`.
pub fn samples(bytes: &[u8], wav: &Wav, samples: usize, channels: usize) -> Vec<f32> {
    let mut out = vec![0.0; samples * channels];
    if channels == 0 {
        return out;
    }
    let frames = bytes[wav.data.clone()].chunks_exact(2 * wav.channels);
    for (row, frame) in out.chunks_exact_mut(channels).zip(frames) {
        for (channel, value) in row.iter_mut().enumerate() {
            let place = 2 * channel.min(wav.channels - 1);
            let sample = i16::from_le_bytes([frame[place], frame[place + 1]]);
            *value = f32::from(sample) / 32768.0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{parse, samples, What};
    use crate::blocks::rng::mix64;

    fn chunk(name: &[u8], content: &[u8]) -> Vec<u8> {
        let size = (content.len() as u32).to_le_bytes();
        [name, &size, content].concat()
    }

    fn format(code: u16, channels: u16, bits: u16) -> Vec<u8> {
        let mut bytes = [code.to_le_bytes(), channels.to_le_bytes()].concat();
        bytes.extend(8000u32.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(bits.to_le_bytes());
        chunk(b"fmt ", &bytes)
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        let content = [b"WAVE".to_vec(), chunks.concat()].concat();
        chunk(b"RIFF", &content)
    }

    #[test]
    fn samples_are_fractions_and_channels_are_repeated() {
        let odd = [chunk(b"LIST", b"abc"), vec![0]].concat();
        let data = chunk(b"data", &[0, 0x40, 0, 0x80, 1, 0, 2, 0]);
        for chunks in [
            vec![format(1, 2, 16), data.clone()],
            vec![format(1, 2, 16), odd, chunk(b"x   ", b"abc"), data],
        ] {
            let bytes = file(&chunks);
            let wav = parse(&bytes).unwrap();
            assert_eq!((wav.channels, wav.rate), (2, 8000));
            let found = samples(&bytes, &wav, 3, 3);
            let tiny = 1.0 / 32768.0;
            let second = [tiny, 2.0 * tiny, 2.0 * tiny, 0.0, 0.0, 0.0];
            assert_eq!(found[..3], [0.5, -1.0, -1.0]);
            assert_eq!(found[3..], second);
            assert!(samples(&bytes, &wav, 3, 0).is_empty());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = || format(1, 1, 16);
        let data = || chunk(b"data", b"1234");
        let cases = [
            (file(&[good(), data()])[1..].to_vec(), What::NoWav),
            (file(&[good()]), What::NoData),
            (file(&[data()]), What::NoFormat),
            (file(&[good(), good()]), What::Twice { chunk: "fmt " }),
            (
                file(&[good(), data(), data()]),
                What::Twice { chunk: "data" },
            ),
            (file(&[format(3, 1, 16), data()]), What::Coding { code: 3 }),
            (file(&[format(1, 1, 24), data()]), What::Bits { bits: 24 }),
            (file(&[format(1, 0, 16), data()]), What::Channels),
            (file(&[chunk(b"fmt ", b"1")]), What::Format { length: 1 }),
        ];
        for (bytes, what) in cases {
            let defect = parse(&bytes).unwrap_err();
            assert!(!defect.to_string().is_empty());
            assert_eq!(defect.what, what);
        }
        let partial = parse(&file(&[format(1, 3, 16), data()])).unwrap_err();
        assert_eq!(
            partial.to_string(),
            "at byte 36: 4 bytes of samples do not divide by 6, those of one moment"
        );
        let whole = file(&[good(), data()]);
        let cut = parse(&whole[..whole.len() - 1]).unwrap_err();
        assert_eq!(cut.what, What::Truncated { missing: 1 });
        let cut = parse(&whole[..41]).unwrap_err();
        assert_eq!(cut.what, What::Truncated { missing: 3 });
    }

    #[test]
    fn whatever_the_bytes_are_it_ends() {
        let whole = file(&[
            format(1, 2, 16),
            chunk(b"LIST", b"abc"),
            chunk(b"data", &[7; 40]),
        ]);
        for seed in 0..5_000 {
            let mut bytes = whole.clone();
            let place = mix64(seed, 0) as usize % bytes.len();
            bytes[place] = mix64(seed, 1) as u8;
            bytes.truncate(mix64(seed, 2) as usize % (2 * whole.len()));
            if let Ok(wav) = parse(&bytes) {
                assert_eq!(samples(&bytes, &wav, 9, 2).len(), 18);
            }
        }
    }
}
