//! Inverse cosine transforms to blocks of 8, 4, 2 and 1 samples a side: the "accurate integer" ones
//! of libjpeg, to the bits of libjpeg-turbo, which computes with 16 and 32 bits; and the order of a
//! block's coefficients in memory.

#[cfg(target_arch = "x86_64")]
use super::super::vectorized::has_avx2;

mod plain;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use plain::Plain;
#[cfg(target_arch = "x86_64")]
pub use wide::Wide;

/// Eight numbers of 32 bits that are computed on at once. Overflow wraps: damaged files cause it.
pub trait Lanes: Copy {
    /// Eight pairs of numbers of 16 bits.
    type Pairs: Copy;

    /// Pairs of coefficients, multiplied with factors to 16 bits.
    fn pairs(coefficients: &[i16; 16], factors: &[i16; 16]) -> Self::Pairs;

    /// The first of each pair times a weight plus the second times another.
    fn weighted(pairs: Self::Pairs, weights: [i16; 2]) -> Self;

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn raised(self, by: i32) -> Self;

    fn shifted<const BITS: i32>(self) -> Self;

    /// Of eight rows of numbers, limited to 16 bits, the pairs of columns 0 and 4, 2 and 6, 1 and 3,
    /// 5 and 7.
    fn turned(rows: [Self; 8]) -> [Self::Pairs; 4];

    /// Writes the rows of eight columns, limited to samples, each a stride after the one before.
    ///
    /// # Safety
    /// There is room for them.
    unsafe fn write_eight(columns: [Self; 8], start: *mut u8, stride: usize);

    /// The rows of four columns, limited to samples.
    fn rows_of_four(columns: [Self; 4]) -> [[u8; 4]; 8];
}

/// Writes the samples, `size` a side, of coefficients that are multiplied with factors.
pub fn transform(block: &Block, factors: &Block, size: usize, samples: &mut [u8], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the instructions.
        return unsafe { wide::transform(block, factors, size, samples, stride) };
    }
    transform_by::<Plain>(block, factors, size, samples, stride);
}

/// As `transform`, by lanes for which the processor has the instructions.
#[inline(always)]
pub fn transform_by<L: Lanes>(
    block: &Block,
    factors: &Block,
    size: usize,
    samples: &mut [u8],
    stride: usize,
) {
    match size {
        1 => flat(block[0], factors, 1, samples, stride),
        2 => to_two::<L>(block, factors, samples, stride),
        4 => to_four::<L>(block, factors, samples, stride),
        _ => to_eight::<L>(block, factors, samples, stride),
    }
}

/// Writes the samples of a block of which only the first coefficient is not zero.
pub fn flat(dc: i16, factors: &Block, size: usize, samples: &mut [u8], stride: usize) {
    let dc = i32::from(dc.wrapping_mul(factors[0]));
    let value = (((dc + 4) >> 3) + 128).clamp(0, 255) as u8;
    match size {
        1 => samples[0] = value,
        2 => fill::<2>(value, samples, stride),
        4 => fill::<4>(value, samples, stride),
        _ => fill::<8>(value, samples, stride),
    }
}

#[inline(always)]
fn fill<const SIZE: usize>(value: u8, samples: &mut [u8], stride: usize) {
    for row in samples.chunks_mut(stride).take(SIZE) {
        *row.first_chunk_mut().expect("a row of a block") = [value; SIZE];
    }
}

/// Bits of a weight behind the point.
const BITS: i32 = 13;
/// More bits kept between the passes.
const PASS: i32 = 2;
/// A sample of no light, at the end of the second pass.
const MIDDLE: i32 = 128;

/// Half of what the last `bits` bits can count.
const fn half(bits: i32) -> i32 {
    1 << (bits - 1)
}

#[inline(always)]
fn loaded<L: Lanes>(block: &Block, factors: &Block) -> [L::Pairs; 4] {
    [
        quarter::<L>(block, factors, 0),
        quarter::<L>(block, factors, 16),
        quarter::<L>(block, factors, 32),
        quarter::<L>(block, factors, 48),
    ]
}

#[inline(always)]
fn quarter<L: Lanes>(block: &Block, factors: &Block, from: usize) -> L::Pairs {
    let (block, factors) = (&block[from..], &factors[from..]);
    let block = block.first_chunk().expect("16 coefficients");
    L::pairs(block, factors.first_chunk().expect("16 factors"))
}

/// The weights of coefficients 1 and 3, and 5 and 7, in the odd part of each of four samples.
const ODD: [[[i16; 2]; 2]; 4] = [
    [[11363, 9633], [6437, 2260]],
    [[9633, -2259], [-11362, -6436]],
    [[6437, -11362], [2261, 9633]],
    [[2260, -6436], [9633, -11363]],
];

#[inline(always)]
fn eight<L: Lanes, const DOWN: i32>(x: [L::Pairs; 4], rounding: i32) -> [L; 8] {
    let t0 = L::weighted(x[0], [1 << BITS, 1 << BITS]).raised(rounding);
    let t1 = L::weighted(x[0], [1 << BITS, -(1 << BITS)]).raised(rounding);
    let t2 = L::weighted(x[1], [4433, -10704]);
    let t3 = L::weighted(x[1], [10703, 4433]);
    let even = [t0.add(t3), t1.add(t2), t1.sub(t2), t0.sub(t3)];
    let mut out = [t0; 8];
    for i in 0..4 {
        let odd = L::weighted(x[2], ODD[i][0]).add(L::weighted(x[3], ODD[i][1]));
        out[i] = even[i].add(odd).shifted::<DOWN>();
        out[7 - i] = even[i].sub(odd).shifted::<DOWN>();
    }
    out
}

#[inline(always)]
fn to_eight<L: Lanes>(block: &Block, factors: &Block, samples: &mut [u8], stride: usize) {
    const FIRST: i32 = BITS - PASS;
    const SECOND: i32 = BITS + PASS + 3;
    let rows = eight::<L, FIRST>(loaded::<L>(block, factors), half(FIRST));
    let columns = eight::<L, SECOND>(L::turned(rows), half(SECOND) + (MIDDLE << SECOND));
    let start = room(8, 8, samples, stride);
    // SAFETY: there is the room.
    unsafe { L::write_eight(columns, start, stride) };
}

/// Where rows of samples go, each a stride after the one before, if there is room for them.
#[inline(always)]
fn room(rows: usize, columns: usize, samples: &mut [u8], stride: usize) -> *mut u8 {
    let end = stride
        .checked_mul(rows - 1)
        .and_then(|last| last.checked_add(columns));
    assert!(end.is_some_and(|end| end <= samples.len()));
    samples.as_mut_ptr()
}

/// Four samples, for which the fifth coefficient counts nothing.
#[inline(always)]
fn four<L: Lanes, const DOWN: i32>(x: [L::Pairs; 4], rounding: i32) -> [L; 4] {
    let t0 = L::weighted(x[0], [1 << (BITS + 1), 0]).raised(rounding);
    let t2 = L::weighted(x[1], [15137, -6270]);
    let (outer, inner) = (t0.add(t2), t0.sub(t2));
    let most = L::weighted(x[2], [20995, 7373]).add(L::weighted(x[3], [-4926, -4176]));
    let less = L::weighted(x[2], [8697, -17799]).add(L::weighted(x[3], [11893, -1730]));
    [
        outer.add(most).shifted::<DOWN>(),
        inner.add(less).shifted::<DOWN>(),
        inner.sub(less).shifted::<DOWN>(),
        outer.sub(most).shifted::<DOWN>(),
    ]
}

#[inline(always)]
fn to_four<L: Lanes>(block: &Block, factors: &Block, samples: &mut [u8], stride: usize) {
    const FIRST: i32 = BITS - PASS + 1;
    const SECOND: i32 = BITS + PASS + 3 + 1;
    let [a, b, c, d] = four::<L, FIRST>(loaded::<L>(block, factors), half(FIRST));
    let turned = L::turned([a, b, c, d, a, b, c, d]); // Half of which is not used.
    let columns = four::<L, SECOND>(turned, half(SECOND) + (MIDDLE << SECOND));
    let start = room(4, 4, samples, stride);
    for (i, row) in L::rows_of_four(columns)[..4].iter().enumerate() {
        // SAFETY: there is the room.
        unsafe {
            start
                .add(i * stride)
                .cast::<[u8; 4]>()
                .write_unaligned(*row)
        };
    }
}

/// Two samples, for which the coefficients 2, 4 and 6 count nothing.
#[inline(always)]
fn two<L: Lanes, const DOWN: i32>(x: [L::Pairs; 4], rounding: i32) -> [L; 2] {
    let part = L::weighted(x[0], [1 << (BITS + 1), 0]);
    let even = part.add(part).raised(rounding);
    let odd = L::weighted(x[2], [29692, -10426]).add(L::weighted(x[3], [6967, -5906]));
    [
        even.add(odd).shifted::<DOWN>(),
        even.sub(odd).shifted::<DOWN>(),
    ]
}

#[inline(always)]
fn to_two<L: Lanes>(block: &Block, factors: &Block, samples: &mut [u8], stride: usize) {
    const FIRST: i32 = BITS - PASS + 2;
    const SECOND: i32 = BITS + PASS + 3 + 2;
    let [a, b] = two::<L, FIRST>(loaded::<L>(block, factors), half(FIRST));
    let turned = L::turned([a, b, a, b, a, b, a, b]);
    let [left, right] = two::<L, SECOND>(turned, half(SECOND) + (MIDDLE << SECOND));
    let rows = L::rows_of_four([left, right, left, right]);
    let start = room(2, 2, samples, stride);
    for (i, &[left, right, ..]) in rows[..2].iter().enumerate() {
        let row = start.wrapping_add(i * stride).cast::<[u8; 2]>();
        // SAFETY: there is the room.
        unsafe { row.write_unaligned([left, right]) };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{transform_by, wide, Block, Plain};
    use crate::images::vectorized::has_avx2;

    /// Numbers of any size, and blocks as files have them.
    fn block(seed: u64, spread: u32) -> Block {
        let mut state = seed;
        std::array::from_fn(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            ((state >> 48) as i16) >> spread
        })
    }

    #[test]
    fn vectors_give_the_bits_of_plain_numbers() {
        if !has_avx2() {
            return;
        }
        for seed in 0..400 {
            let coefficients = block(seed, (seed % 12) as u32);
            let factors = block(seed + 1000, 4 + (seed % 9) as u32);
            for size in [8, 4, 2, 1] {
                let (mut plain, mut vector) = ([0; 64], [0; 64]);
                transform_by::<Plain>(&coefficients, &factors, size, &mut plain, size);
                // SAFETY: the processor has the instructions.
                unsafe { wide::transform(&coefficients, &factors, size, &mut vector, size) };
                assert_eq!(plain, vector, "seed {seed}, size {size}");
            }
        }
    }
}

/// Where a coefficient is put that lies beyond the last.
pub const NOWHERE: u8 = 64;

/// The place of each coefficient of the file's zigzag order, and `NOWHERE` beyond: there are as many
/// as a count below 64 and a byte can say.
///
/// Rows come in pairs, 0 and 4, 2 and 6, 1 and 3, 5 and 7, of which columns alternate: so the sums of
/// two products in which transforms consist are one instruction for many columns.
pub const PLACES: [u8; 512] = {
    let mut places = [NOWHERE; 512];
    let mut k = 0;
    while k < 64 {
        let natural = ZIGZAG[k] as usize;
        places[k] = PAIRED[natural / 8] + 2 * (natural % 8) as u8;
        k += 1;
    }
    places
};

/// The place of the first coefficient of each row.
const PAIRED: [u8; 8] = [0, 32, 16, 33, 1, 48, 17, 49];

/// The coefficients in zigzag order, counted row by row.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Coefficients, or what each is multiplied with, in the order of `PLACES`.
pub type Block = [i16; 64];

/// The factors of a quantization table, which is in zigzag order.
pub fn factors(table: &[u16; 64]) -> Block {
    let mut factors = [0; 64];
    for (&place, &value) in PLACES.iter().zip(table) {
        factors[usize::from(place)] = value as i16;
    }
    factors
}
