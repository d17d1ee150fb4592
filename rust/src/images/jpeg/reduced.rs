//! Transforms to blocks of 4 x 4 and 2 x 2 samples, of libjpeg's `jidctred.c`, to the same bits.

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

/// Four values of eight coefficients, of which the fifth counts for nothing.
fn four(x: [i32; 8], by: u32) -> [i32; 4] {
    let t0 = x[0] << (BITS + 1);
    let t2 = sum(&[(x[2], 15137), (x[6], -6270)]);
    let (t10, t12) = (t0.wrapping_add(t2), t0.wrapping_sub(t2));
    let t0 = sum(&[(x[7], -1730), (x[5], 11893), (x[3], -17799), (x[1], 8697)]);
    let t2 = sum(&[(x[7], -4176), (x[5], -4926), (x[3], 7373), (x[1], 20995)]);
    [
        descaled(t10.wrapping_add(t2), by),
        descaled(t12.wrapping_add(t0), by),
        descaled(t12.wrapping_sub(t0), by),
        descaled(t10.wrapping_sub(t2), by),
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

/// Writes the 4 x 4 samples of dequantized coefficients (in natural order).
pub fn to_four(block: &[i32; 64], samples: &mut [u8], stride: usize) {
    let mut rows = [[0; 8]; 4];
    for column in [0, 1, 2, 3, 5, 6, 7] {
        let values = four(
            std::array::from_fn(|i| block[8 * i + column]),
            BITS - PASS + 1,
        );
        for (row, value) in rows.iter_mut().zip(values) {
            row[column] = value;
        }
    }
    for (row, out) in rows.into_iter().zip(samples.chunks_mut(stride)) {
        out[..4].copy_from_slice(&four(row, BITS + PASS + 3 + 1).map(sample));
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
