//! GIF: frames on top of one another, as TensorFlow puts them.

use super::defect::Defect;
use super::image::Limits;
use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError, Frame, MemoryLimit};
use std::io::Cursor;
use std::num::NonZeroU64;

/// Frames of colors, in order.
pub struct Animation {
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    pub data: Vec<u8>,
}

/// The frames of a file, or the first alone.
pub fn decode(bytes: &[u8], first_only: bool, limits: &Limits) -> Result<Animation, Defect> {
    let mut animation = measure(bytes, first_only)?;
    let shape = [animation.height, animation.width, 3];
    limits.check(animation.frames as u64, shape, 1, bytes.len())?;
    let mut cursor = Cursor::new(bytes);
    let drawn = draw(&mut cursor, &mut animation, limits);
    drawn.map_err(|failure| located(failure, cursor.position()))?;
    Ok(animation)
}

enum Failure {
    Color,
    Decoding(DecodingError),
}

impl From<DecodingError> for Failure {
    fn from(error: DecodingError) -> Self {
        Self::Decoding(error)
    }
}

fn located(failure: Failure, position: u64) -> Defect {
    let what = match failure {
        Failure::Color => "the GIF has a pixel of a color that is not in its palette".to_string(),
        Failure::Decoding(error) => format!("the GIF cannot be decoded ({error})"),
    };
    Defect::damaged(position as usize, what)
}

/// The number of frames, and the largest height and width of one.
fn measure(bytes: &[u8], first_only: bool) -> Result<Animation, Defect> {
    let mut cursor = Cursor::new(bytes);
    let mut found = Animation {
        frames: 0,
        height: 0,
        width: 0,
        data: Vec::new(),
    };
    let counted = count(&mut cursor, &mut found);
    counted.map_err(|error| located(error.into(), cursor.position()))?;
    if found.height * found.width == 0 {
        return Err(Defect::damaged(
            bytes.len(),
            "the GIF has no frame with pixels",
        ));
    }
    if first_only {
        found.frames = 1;
    }
    Ok(found)
}

fn count(cursor: &mut Cursor<&[u8]>, found: &mut Animation) -> Result<(), DecodingError> {
    let mut options = DecodeOptions::new();
    options.skip_frame_decoding(true);
    let mut decoder = options.read_info(cursor)?;
    while let Some(frame) = decoder.next_frame_info()? {
        found.frames += 1;
        found.height = found.height.max(usize::from(frame.height));
        found.width = found.width.max(usize::from(frame.width));
    }
    Ok(())
}

fn draw(
    cursor: &mut Cursor<&[u8]>,
    animation: &mut Animation,
    limits: &Limits,
) -> Result<(), Failure> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    if let Some(bytes) = NonZeroU64::new(limits.bytes) {
        options.set_memory_limit(MemoryLimit::Bytes(bytes));
    }
    let mut decoder = options.read_info(cursor)?;
    let size = animation.height * animation.width * 3;
    animation.data = vec![0; animation.frames * size];
    let global = decoder
        .global_palette()
        .map(<[u8]>::to_vec)
        .unwrap_or_default();
    for number in 0..animation.frames {
        let (before, rest) = animation.data.split_at_mut(number * size);
        let canvas = &mut rest[..size];
        if let Some(last) = before.len().checked_sub(size) {
            canvas.copy_from_slice(&before[last..]);
        }
        let Some(frame) = next(&mut decoder)? else {
            return Err(Failure::Color);
        };
        let palette = frame.palette.as_deref().unwrap_or(&global);
        paint(frame, palette, animation.width, canvas).ok_or(Failure::Color)?;
    }
    Ok(())
}

fn next<'a>(
    decoder: &'a mut Decoder<&mut Cursor<&[u8]>>,
) -> Result<Option<&'a Frame<'static>>, DecodingError> {
    decoder.read_next_frame()
}

/// Draws a frame over what is there.
fn paint(frame: &Frame, palette: &[u8], width: usize, canvas: &mut [u8]) -> Option<()> {
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let own = usize::from(frame.width).max(1);
    let visible = own.min(width.saturating_sub(left));
    let rows = canvas.chunks_exact_mut(width * 3).skip(top);
    for (row, indices) in rows.zip(frame.buffer.chunks_exact(own)) {
        let pixels = row.chunks_exact_mut(3).skip(left);
        for (pixel, &index) in pixels.zip(&indices[..visible]) {
            if frame.transparent != Some(index) {
                pixel.copy_from_slice(palette.get(usize::from(index) * 3..)?.get(..3)?);
            }
        }
    }
    Some(())
}
