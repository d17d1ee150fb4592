//! BMP without compression: 8, 24 or 32 bits for each pixel, as TensorFlow reads them.

use super::defect::Defect;
use super::image::{Image, Limits};

/// The pixels of a file; `channels` is 0 or what it has: 1, 3 or 4.
pub fn decode(bytes: &[u8], channels: usize, limits: &Limits) -> Result<Image, Defect> {
    if !bytes.starts_with(b"BM") {
        return Err(Defect::damaged(0, "not a BMP: it does not begin with BM"));
    }
    let start = number(bytes, 10)?;
    let (width, height) = (number(bytes, 18)?, number(bytes, 22)?);
    let depth = number(bytes, 26)? >> 16;
    let compression = number(bytes, 30)?;
    if compression != 0 || !matches!(depth, 8 | 24 | 32) {
        return Err(Defect::unsupported(format!(
            "BMP of {depth} bits and compression {compression}; 8, 24 and 32 without are supported"
        )));
    }
    let own = (depth / 8) as usize;
    if channels != 0 && channels != own {
        return Err(Defect::request(format!(
            "channels is {channels}, but the BMP has {own}; pass 0 or {own}"
        )));
    }
    let (Ok(start), Ok(width)) = (usize::try_from(start), usize::try_from(width)) else {
        return Err(Defect::damaged(10, "the BMP header has negative numbers"));
    };
    let (rows, downwards) = (height.unsigned_abs() as usize, height < 0);
    if width == 0 || rows == 0 {
        return Err(Defect::damaged(18, "the BMP header gives no size"));
    }
    limits.check(1, [rows, width, own], 1, bytes.len())?;
    let stride = (own * width).div_ceil(4) * 4;
    let pixels = bytes
        .get(start..)
        .and_then(|rest| rest.get(..stride * rows));
    let pixels =
        pixels.ok_or_else(|| Defect::truncated(bytes.len(), "the BMP data end too early"))?;
    let mut image = Image {
        height: rows,
        width,
        channels: own,
        data: vec![0; rows * width * own],
    };
    for (y, row) in image.data.chunks_exact_mut(width * own).enumerate() {
        let from = if downwards { y } else { rows - 1 - y };
        row.copy_from_slice(&pixels[from * stride..][..width * own]);
        if own > 1 {
            row.chunks_exact_mut(own).for_each(|pixel| pixel.swap(0, 2));
        }
    }
    Ok(image)
}

fn number(bytes: &[u8], at: usize) -> Result<i32, Defect> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let four = four.ok_or_else(|| Defect::truncated(bytes.len(), "the BMP header is too short"))?;
    Ok(i32::from_le_bytes(*four))
}
