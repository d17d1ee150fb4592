//! From the components of a file to the channels of the result.

use super::super::defect::Defect;
use super::super::interleave::{self, by_chunks, Chunk, PIXELS};
#[cfg(target_arch = "x86_64")]
use super::super::vectorized::has_avx2;
use super::markers::Headers;

#[cfg(target_arch = "x86_64")]
mod wide;

/// What the components of a file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Gray,
    YCbCr,
    Rgb,
    Cmyk { inverted: bool },
    Ycck { inverted: bool },
}

impl Color {
    /// As libjpeg's `default_decompress_parms` decides.
    pub fn of(headers: &Headers, ids: &[u8]) -> Self {
        let inverted = headers.adobe.is_some();
        match (ids, headers.adobe) {
            ([_], _) => Self::Gray,
            (&[_, _, _], _) if headers.jfif => Self::YCbCr,
            (&[_, _, _], Some(0)) | (b"RGB", None) => Self::Rgb,
            (&[_, _, _], _) => Self::YCbCr,
            (_, None | Some(0)) => Self::Cmyk { inverted },
            _ => Self::Ycck { inverted },
        }
    }

    /// How many components matter for this many channels.
    ///
    /// # Errors
    /// There is no way from the one to the other.
    pub fn components(self, channels: usize) -> Result<usize, Defect> {
        match (self, channels) {
            (Self::Gray, _) | (Self::YCbCr, 1) => Ok(1),
            (Self::YCbCr | Self::Rgb, _) => Ok(3),
            (_, 1) => Err(Defect::request(
                "a CMYK JPEG has no gray values; decode it with channels=3",
            )),
            _ => Ok(4),
        }
    }

    /// Writes a row of `channels` from as many rows of components as `components` says.
    pub fn convert(self, rows: &[&[u8]], channels: usize, out: &mut [u8]) {
        match (self, rows, channels) {
            (Self::Gray | Self::YCbCr, [y], 1) => out.copy_from_slice(y),
            (Self::Gray, [y], _) => merge(y, y, y, out),
            (Self::YCbCr, [y, cb, cr], _) => from_ycbcr(y, cb, cr, out),
            (Self::Rgb, [r, g, b], 1) => to_gray(r, g, b, out),
            (Self::Rgb, [r, g, b], _) => merge(r, g, b, out),
            (Self::Cmyk { inverted }, [c, m, y, k], _) => {
                merge(c, m, y, out);
                ink(k, inverted, out);
            }
            (Self::Ycck { inverted }, [y, cb, cr, k], _) => {
                from_ycbcr(y, cb, cr, out);
                for value in out.iter_mut() {
                    *value = 255 - *value;
                }
                ink(k, inverted, out);
            }
            _ => unreachable!("rows are as many as `components` says"),
        }
    }
}

/// Colors of C, M, Y in place, as TensorFlow computes them.
fn ink(black: &[u8], inverted: bool, out: &mut [u8]) {
    for (pixel, &k) in out.chunks_exact_mut(3).zip(black) {
        for value in pixel {
            let (ink, k) = (u16::from(*value), u16::from(k));
            *value = (if inverted {
                k * ink
            } else {
                (255 - k) * (255 - ink)
            } / 255) as u8;
        }
    }
}

fn to_gray(r: &[u8], g: &[u8], b: &[u8], out: &mut [u8]) {
    for (i, value) in out.iter_mut().enumerate() {
        let [r, g, b] = [r[i], g[i], b[i]].map(u32::from);
        *value = ((19595 * r + 38470 * g + 7471 * b + (1 << 15)) >> 16) as u8;
    }
}

fn from_ycbcr(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the instructions.
        return unsafe { wide::from_ycbcr([y, cb, cr], out) };
    }
    by_chunks([y, cb, cr], out, |planes, out| {
        let [r, g, b] = colors(planes);
        interleave::portable([&r, &g, &b], out);
    });
}

#[inline(always)]
fn colors([y, cb, cr]: [&Chunk; 3]) -> [Chunk; 3] {
    let mut rgb = [[0; PIXELS]; 3];
    let [r, g, b] = &mut rgb;
    for i in 0..PIXELS {
        let (y, cb, cr) = (
            i32::from(y[i]),
            i32::from(cb[i]) - 128,
            i32::from(cr[i]) - 128,
        );
        r[i] = (y + ((91881 * cr + 32768) >> 16)).clamp(0, 255) as u8;
        g[i] = (y + ((-22554 * cb - 46802 * cr + 32768) >> 16)).clamp(0, 255) as u8;
        b[i] = (y + ((116130 * cb + 32768) >> 16)).clamp(0, 255) as u8;
    }
    rgb
}

fn merge(r: &[u8], g: &[u8], b: &[u8], out: &mut [u8]) {
    by_chunks([r, g, b], out, interleave::portable);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{by_chunks, colors, has_avx2, interleave, wide};

    #[test]
    fn vectors_give_the_bits_of_plain_numbers() {
        if !has_avx2() {
            return;
        }
        let every: Vec<u8> = (0..=255).collect();
        for cr in &every {
            for y in [0, 100, 255] {
                let (y, cr) = ([y; 256], [*cr; 256]);
                let (mut plain, mut vector) = ([0; 768], [0; 768]);
                by_chunks([&y, &every, &cr], &mut plain, |planes, out| {
                    let [r, g, b] = colors(planes);
                    interleave::portable([&r, &g, &b], out);
                });
                // SAFETY: the processor has the instructions.
                unsafe { wide::from_ycbcr([&y, &every, &cr], &mut vector) };
                assert_eq!(plain, vector);
            }
        }
    }
}
