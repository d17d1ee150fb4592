//! Pixels to files.

use super::defect::Defect;
use jpeg_encoder::{
    rgb_to_ycbcr, ColorType, Density, Encoder, ImageBuffer, JpegColorType, SamplingFactor,
};

/// How a JPEG file is written.
pub struct Jpeg<'a> {
    pub quality: u8,
    pub progressive: bool,
    pub optimize: bool,
    pub downsample: bool,
    /// Pixels along and down an inch or a centimeter.
    pub density: (bool, u16, u16),
    pub xmp: &'a [u8],
}

/// What marks XMP in a JPEG file.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// The bytes of a JPEG file of gray values or colors.
pub fn jpeg(
    pixels: &[u8],
    (height, width, channels): (usize, usize, usize),
    how: &Jpeg,
) -> Result<Vec<u8>, Defect> {
    let size = |n: usize| {
        u16::try_from(n).ok().filter(|&n| n > 0).ok_or_else(|| {
            Defect::request(format!(
                "{height} x {width} pixels; JPEG has 1 to 65535 each way"
            ))
        })
    };
    let color = match channels {
        1 => ColorType::Luma,
        3 => ColorType::Rgb,
        _ => {
            return Err(Defect::request(format!(
                "{channels} channels; JPEG has 1 or 3"
            )))
        }
    };
    let (height, width) = (size(height)?, size(width)?);
    let failed = |error| Defect::request(format!("the JPEG cannot be written ({error})"));
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, how.quality);
    encoder.set_progressive(how.progressive);
    encoder.set_optimized_huffman_tables(how.optimize);
    encoder.set_sampling_factor(if how.downsample {
        SamplingFactor::F_2_2
    } else {
        SamplingFactor::F_1_1
    });
    let (inch, x, y) = how.density;
    encoder.set_density(if inch {
        Density::Inch { x, y }
    } else {
        Density::Centimeter { x, y }
    });
    if !how.xmp.is_empty() {
        encoder
            .add_app_segment(1, &[XMP, how.xmp].concat())
            .map_err(failed)?;
    }
    if how.downsample && channels == 3 {
        let colors = Averaged {
            pixels,
            height,
            width,
        };
        encoder.encode_image(colors).map_err(failed)?;
    } else {
        encoder
            .encode(pixels, width, height, color)
            .map_err(failed)?;
    }
    Ok(out)
}

/// Colors that are the same for two by two pixels, their mean: the encoder takes one of four.
struct Averaged<'a> {
    pixels: &'a [u8],
    height: u16,
    width: u16,
}

impl Averaged<'_> {
    fn at(&self, y: u16, x: u16) -> (u8, u8, u8) {
        let (y, x) = (y.min(self.height - 1), x.min(self.width - 1));
        let place = (usize::from(y) * usize::from(self.width) + usize::from(x)) * 3;
        let [r, g, b] = [0, 1, 2].map(|channel| self.pixels[place + channel]);
        rgb_to_ycbcr(r, g, b)
    }
}

impl ImageBuffer for Averaged<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.width
    }

    fn height(&self) -> u16 {
        self.height
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let top = y & !1;
        for left in (0..self.width).step_by(2) {
            // As libjpeg's `jcsample.c`, whose rounding alternates.
            let bias = 1 + (left / 2 % 2);
            let (mut cb, mut cr) = (bias, bias);
            for (down, along) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (_, b, r) = self.at(top.saturating_add(down), left.saturating_add(along));
                cb += u16::from(b);
                cr += u16::from(r);
            }
            for x in left..left.saturating_add(2).min(self.width) {
                buffers[0].push(self.at(y, x).0);
                buffers[1].push((cb >> 2) as u8);
                buffers[2].push((cr >> 2) as u8);
            }
        }
    }
}

/// The bytes of a PNG file; of 16 bits for each channel, if `wide`, in the machine's order.
pub fn png(
    pixels: &[u8],
    (height, width, channels): (usize, usize, usize),
    wide: bool,
    level: i32,
) -> Result<Vec<u8>, Defect> {
    let color = match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        _ => {
            return Err(Defect::request(format!(
                "{channels} channels; PNG has 1 to 4"
            )))
        }
    };
    let (Ok(h), Ok(w)) = (u32::try_from(height), u32::try_from(width)) else {
        return Err(Defect::request(format!(
            "{height} x {width} pixels are too many for PNG"
        )));
    };
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, w, h);
    encoder.set_color(color);
    encoder.set_compression(match level {
        0 => png::Compression::NoCompression,
        1..=3 => png::Compression::Fast,
        7.. => png::Compression::High,
        _ => png::Compression::Balanced,
    });
    let failed = |error| Defect::request(format!("the PNG cannot be written ({error})"));
    let swapped: Vec<u8>;
    let mut data = pixels;
    if wide {
        encoder.set_depth(png::BitDepth::Sixteen);
        let words = pixels
            .chunks_exact(2)
            .map(|pair| u16::from_ne_bytes([pair[0], pair[1]]));
        swapped = words.flat_map(u16::to_be_bytes).collect();
        data = &swapped;
    }
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(data).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}
