//! Transforms to blocks of 4 x 4 and 2 x 2 samples, of libjpeg's `jidctred.c`, to the same bits.

use super::super::vectorized::vectorized;
use super::idct::Lanes;

const BITS: u32 = 13;
const PASS: u32 = 2;

fn sum(terms: &[(i32, i32)]) -> i32 {
    terms.iter().fold(0, |all, &(value, factor)| {
        all.wrapping_add(value.wrapping_mul(factor))
    })
}

fn descaled(value: i32, by: u32) -> i32 {
    value.wrapping_add(1 << (by - 1)) >> by
}

fn sample(value: i32) -> u8 {
    value.wrapping_add(128).clamp(0, 255) as u8
}

/// Four values of eight coefficients, of which the fifth counts for nothing, in eight lanes.
#[inline(always)]
pub fn four(x: [Lanes; 8], by: u32) -> [Lanes; 4] {
    let t0 = x[0].shifted(BITS + 1);
    let t2 = x[2].mul(15137).sub(x[6].mul(6270));
    let (t10, t12) = (t0.add(t2), t0.sub(t2));
    let t0 = x[5]
        .mul(11893)
        .sub(x[7].mul(1730))
        .sub(x[3].mul(17799))
        .add(x[1].mul(8697));
    let t2 = x[3]
        .mul(7373)
        .sub(x[7].mul(4176))
        .sub(x[5].mul(4926))
        .add(x[1].mul(20995));
    [
        t10.add(t2).descaled(by),
        t12.add(t0).descaled(by),
        t12.sub(t0).descaled(by),
        t10.sub(t2).descaled(by),
    ]
}

/// Two values of eight coefficients, of which those at 2, 4 and 6 count for nothing.
fn two(x: [i32; 8], by: u32) -> [i32; 2] {
    let t10 = x[0] << (BITS + 2);
    let t0 = sum(&[(x[7], -5906), (x[5], 6967), (x[3], -10426), (x[1], 29692)]);
    [
        descaled(t10.wrapping_add(t0), by),
        descaled(t10.wrapping_sub(t0), by),
    ]
}

vectorized! {
    /// Writes the 4 x 4 samples of dequantized coefficients (in natural order).
    pub fn to_four(block: &[i32; 64], samples: &mut [u8], stride: usize) {
        let rows = std::array::from_fn(|i| Lanes::load(&block[8 * i..]));
        let rows = four(rows, BITS - PASS + 1).map(Lanes::values);
        // The lanes of the second pass are the four rows; half of them are empty.
        let columns = std::array::from_fn(|i| {
            Lanes::of([rows[0][i], rows[1][i], rows[2][i], rows[3][i], 0, 0, 0, 0])
        });
        let columns = four(columns, BITS + PASS + 3 + 1).map(Lanes::values);
        for (i, out) in samples.chunks_mut(stride).take(4).enumerate() {
            let row = [columns[0][i], columns[1][i], columns[2][i], columns[3][i]];
            out[..4].copy_from_slice(&row.map(sample));
        }
    }
}

/// Writes the 2 x 2 samples of dequantized coefficients (in natural order).
pub fn to_two(block: &[i32; 64], samples: &mut [u8], stride: usize) {
    let mut rows = [[0; 8]; 2];
    for column in [0, 1, 3, 5, 7] {
        let values = two(
            std::array::from_fn(|i| block[8 * i + column]),
            BITS - PASS + 2,
        );
        for (row, value) in rows.iter_mut().zip(values) {
            row[column] = value;
        }
    }
    for (row, out) in rows.into_iter().zip(samples.chunks_mut(stride)) {
        out[..2].copy_from_slice(&two(row, BITS + PASS + 3 + 2).map(sample));
    }
}
