//! PNG: any color type and depth, to the channels that are asked for, as TensorFlow does.

use super::defect::Defect;
use super::image::{Image, Limits};
use png::{BitDepth, ColorType, Decoder, DecodingError, Info, Transformations};
use std::io::Cursor;

/// Decoded pixels of 8 or 16 bits for each channel.
pub enum Pixels {
    Bytes(Image<u8>),
    Words(Image<u16>),
}

/// The pixels of a file; `channels` is 0 for those that it has, or 1 to 4.
pub fn decode(
    bytes: &[u8],
    channels: usize,
    wide: bool,
    limits: &Limits,
) -> Result<Pixels, Defect> {
    let mut cursor = Cursor::new(bytes);
    let result = read(&mut cursor, bytes.len(), channels, wide, limits);
    result.map_err(|failure| match failure {
        Failure::Defect(defect) => defect,
        Failure::Damaged(why) => {
            let at = cursor.position() as usize;
            Defect::damaged(at, format!("the PNG cannot be decoded ({why})"))
        }
    })
}

enum Failure {
    Defect(Defect),
    /// Up to where it was read.
    Damaged(String),
}

impl From<DecodingError> for Failure {
    fn from(error: DecodingError) -> Self {
        Self::Damaged(error.to_string())
    }
}

fn read(
    cursor: &mut Cursor<&[u8]>,
    length: usize,
    channels: usize,
    wide: bool,
    limits: &Limits,
) -> Result<Pixels, Failure> {
    let mut decoder = Decoder::new(cursor);
    decoder.set_limits(png::Limits {
        bytes: usize::try_from(limits.bytes).unwrap_or(usize::MAX),
    });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let info = decoder.read_header_info()?;
    let (height, width) = (info.height as usize, info.width as usize);
    let widest = [height, width, channels.max(4)];
    limits
        .check(1, widest, 1 + u64::from(wide), length)
        .map_err(Failure::Defect)?;
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info()?;
    check_palette(reader.info())?;
    let own = match reader.info().color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => 3 + usize::from(reader.info().trns.is_some()),
    };
    let wanted = if channels == 0 { own } else { channels };
    let (color, depth) = reader.output_color_type();
    let size = reader.output_buffer_size().unwrap_or(usize::MAX);
    if size as u64 > limits.bytes.saturating_mul(2) {
        let what = format!("the decoded image takes {size} bytes; limits.max_bytes forbids that");
        return Err(Failure::Defect(Defect::too_large(what)));
    }
    let mut buffer = vec![0; size];
    reader.next_frame(&mut buffer)?;
    let from = color.samples();
    let shape = (height, width, wanted);
    Ok(match (depth, wide) {
        (BitDepth::Sixteen, _) => {
            let words = buffer
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let words: Vec<u16> = words.collect();
            let words = recolored(words, from, wanted, u16::MAX, |rgb| {
                gray(rgb, 1 << 14) as u16
            });
            if wide {
                Pixels::Words(made(shape, words))
            } else {
                let bytes = words.into_iter().map(|word| (word >> 8) as u8);
                Pixels::Bytes(made(shape, bytes.collect()))
            }
        }
        (_, wide) => {
            let bytes = recolored(buffer, from, wanted, u8::MAX, |rgb| gray(rgb, 0) as u8);
            if wide {
                let words = bytes.into_iter().map(|byte| u16::from(byte) * 257);
                Pixels::Words(made(shape, words.collect()))
            } else {
                Pixels::Bytes(made(shape, bytes))
            }
        }
    })
}

/// As libpng; the decoder panics at a part of a color.
fn check_palette(info: &Info) -> Result<(), Failure> {
    let length = info.palette.as_ref().map_or(0, |palette| palette.len());
    if length % 3 == 0 || info.color_type != ColorType::Indexed {
        return Ok(());
    }
    let why = format!("a palette of {length} bytes, not of whole colors");
    Err(Failure::Damaged(why))
}

fn made<T>((height, width, channels): (usize, usize, usize), data: Vec<T>) -> Image<T> {
    Image {
        height,
        width,
        channels,
        data,
    }
}

/// With the weights that TensorFlow gives to libpng.
fn gray<T: Copy + Into<u32>>([r, g, b]: [T; 3], rounding: u32) -> u32 {
    let [r, g, b] = [r, g, b].map(Into::into);
    if r == g && g == b {
        return r;
    }
    (9798 * r + 19234 * g + 3736 * b + rounding) >> 15
}

fn recolored<T: Copy>(
    values: Vec<T>,
    from: usize,
    to: usize,
    opaque: T,
    gray: impl Fn([T; 3]) -> T,
) -> Vec<T> {
    if from == to {
        return values;
    }
    let mut out = Vec::with_capacity(values.len() / from * to);
    for pixel in values.chunks_exact(from) {
        let alpha = if from % 2 == 0 {
            pixel[from - 1]
        } else {
            opaque
        };
        match (from > 2, to > 2) {
            (false, false) => out.push(pixel[0]),
            (false, true) => out.extend([pixel[0]; 3]),
            (true, false) => out.push(gray([pixel[0], pixel[1], pixel[2]])),
            (true, true) => out.extend_from_slice(&pixel[..3]),
        }
        if to % 2 == 0 {
            out.push(alpha);
        }
    }
    out
}
