//! Lanes as arrays, for any processor.

use super::Lanes;

#[derive(Clone, Copy)]
pub struct Plain([i32; 8]);

// Loops, not closures of `array::from_fn`, which are not inlined in every build.
impl Lanes for Plain {
    type Pairs = [[i16; 2]; 8];

    #[inline(always)]
    fn pairs(coefficients: &[i16; 16], factors: &[i16; 16]) -> Self::Pairs {
        let mut pairs = [[0; 2]; 8];
        for i in 0..16 {
            pairs[i / 2][i % 2] = coefficients[i].wrapping_mul(factors[i]);
        }
        pairs
    }

    #[inline(always)]
    fn weighted(pairs: Self::Pairs, weights: [i16; 2]) -> Self {
        let mut sums = [0; 8];
        for i in 0..8 {
            let [a, b] = pairs[i].map(i32::from);
            let [first, second] = weights.map(i32::from);
            sums[i] = (a * first).wrapping_add(b * second);
        }
        Self(sums)
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for i in 0..8 {
            self.0[i] = self.0[i].wrapping_add(other.0[i]);
        }
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for i in 0..8 {
            self.0[i] = self.0[i].wrapping_sub(other.0[i]);
        }
        self
    }

    #[inline(always)]
    fn raised(mut self, by: i32) -> Self {
        for lane in &mut self.0 {
            *lane = lane.wrapping_add(by);
        }
        self
    }

    #[inline(always)]
    fn shifted<const BITS: i32>(mut self) -> Self {
        for lane in &mut self.0 {
            *lane >>= BITS;
        }
        self
    }

    #[inline(always)]
    fn turned(rows: [Self; 8]) -> [Self::Pairs; 4] {
        const COLUMNS: [[usize; 2]; 4] = [[0, 4], [2, 6], [1, 3], [5, 7]];
        let mut turned = [[[0; 2]; 8]; 4];
        for (pairs, columns) in turned.iter_mut().zip(COLUMNS) {
            for (pair, row) in pairs.iter_mut().zip(&rows) {
                *pair = columns.map(|column| narrowed(row.0[column]));
            }
        }
        turned
    }

    #[inline(always)]
    unsafe fn write_eight(columns: [Self; 8], start: *mut u8, stride: usize) {
        for (i, row) in rows(columns).into_iter().enumerate() {
            start.add(i * stride).cast::<[u8; 8]>().write_unaligned(row);
        }
    }

    #[inline(always)]
    fn rows_of_four(columns: [Self; 4]) -> [[u8; 4]; 8] {
        rows(columns)
    }
}

#[inline(always)]
fn narrowed(value: i32) -> i16 {
    value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

#[inline(always)]
fn rows<const COLUMNS: usize>(columns: [Plain; COLUMNS]) -> [[u8; COLUMNS]; 8] {
    let mut rows = [[0; COLUMNS]; 8];
    for (i, row) in rows.iter_mut().enumerate() {
        for (sample, column) in row.iter_mut().zip(&columns) {
            *sample = column.0[i].clamp(0, 255) as u8;
        }
    }
    rows
}
