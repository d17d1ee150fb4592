//! Samples at the resolution of the output, to the bits of libjpeg-turbo's `jdsample.c`.

use super::super::vectorized::vectorized;
use super::plane::Plane;
use std::ops::Range;

/// Memory for one row.
#[derive(Default)]
pub struct Scratch {
    sums: Vec<u16>,
    row: Vec<u8>,
}

/// The samples of row `y` of the output, for some of its columns.
pub fn row<'a>(
    plane: &'a Plane,
    y: usize,
    columns: &Range<usize>,
    smooth: bool,
    scratch: &'a mut Scratch,
) -> &'a [u8] {
    let (near, far) = neighbours(plane, y);
    let skip = (columns.start / plane.across) - plane.first();
    let wide = plane.width > 2;
    match (plane.across, plane.down) {
        (1, 1) => return &near[skip..][..columns.len()],
        (1, 2) if smooth => {
            scratch.row.resize(columns.len(), 0);
            let bias = 1 + (y % 2) as u16;
            thirds(&near[skip..], &far[skip..], bias, &mut scratch.row);
            return &scratch.row;
        }
        (2, 1) if smooth && wide => scratch.double::<1, 2, 2>(near, widen),
        (2, 2) if smooth && wide => {
            scratch.double::<8, 7, 4>(near, |near, sums| blend(near, far, sums));
        }
        (across, _) => {
            scratch.row.clear();
            let repeated = near.iter().flat_map(|&v| std::iter::repeat_n(v, across));
            scratch.row.extend(repeated);
        }
    }
    &scratch.row[columns.start - plane.first() * plane.across..][..columns.len()]
}

/// The samples of a row of output, and of the row beside it that counts for a quarter.
fn neighbours(plane: &Plane, y: usize) -> (&[u8], &[u8]) {
    let source = (y / plane.down) as isize;
    let beside = if y % 2 == 0 { source - 1 } else { source + 1 };
    let held = (plane.width - plane.first()).min(plane.stride);
    let far = if plane.down == 1 { source } else { beside };
    (&plane.row(source)[..held], &plane.row(far)[..held])
}

impl Scratch {
    #[inline(always)]
    fn double<const LEFT: u16, const RIGHT: u16, const SHIFT: u16>(
        &mut self,
        samples: &[u8],
        sum: impl FnOnce(&[u8], &mut [u16]),
    ) {
        let count = samples.len();
        self.sums.resize(count + 2, 0);
        sum(samples, &mut self.sums[1..=count]);
        self.sums[0] = self.sums[1];
        self.sums[count + 1] = self.sums[count];
        self.row.resize(2 * count, 0);
        double::<LEFT, RIGHT, SHIFT>(&self.sums, &mut self.row);
    }
}

vectorized! {
    fn thirds(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
        for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
            *out = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
        }
    }
}

vectorized! {
    fn widen(samples: &[u8], out: &mut [u16]) {
        for (out, &sample) in out.iter_mut().zip(samples) {
            *out = u16::from(sample);
        }
    }
}

vectorized! {
    fn blend(near: &[u8], far: &[u8], out: &mut [u16]) {
        for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
            *out = 3 * u16::from(near) + u16::from(far);
        }
    }
}

vectorized! {
    /// Two values between each sum and its neighbours; there is one sum more at either end.
    fn double[const LEFT: u16, const RIGHT: u16, const SHIFT: u16][LEFT, RIGHT, SHIFT](sums: &[u16], out: &mut [u8]) {
        let count = out.len() / 2;
        let (before, here, after) = (&sums[..count], &sums[1..][..count], &sums[2..][..count]);
        for (i, pair) in out.chunks_exact_mut(2).enumerate() {
            let three = 3 * here[i];
            pair[0] = ((three + before[i] + LEFT) >> SHIFT) as u8;
            pair[1] = ((three + after[i] + RIGHT) >> SHIFT) as u8;
        }
    }
}
