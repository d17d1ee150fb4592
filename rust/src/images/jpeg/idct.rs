//! The inverse cosine transform of libjpeg's `jidctint.c` ("accurate integer"), to the same bits.

#[cfg(target_arch = "x86_64")]
use super::super::vectorized::has_avx2;

/// Eight numbers that are computed on at once. Overflow wraps: damaged files may cause it.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Lanes([i32; 8]);

// Loops, not closures of `array::from_fn`, which are not inlined in every build.
impl Lanes {
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
    fn mul(mut self, factor: i32) -> Self {
        for lane in &mut self.0 {
            *lane = lane.wrapping_mul(factor);
        }
        self
    }

    #[inline(always)]
    fn scaled(mut self) -> Self {
        for lane in &mut self.0 {
            *lane <<= BITS;
        }
        self
    }

    #[inline(always)]
    fn descaled(mut self, by: u32) -> Self {
        for lane in &mut self.0 {
            *lane = lane.wrapping_add(1 << (by - 1)) >> by;
        }
        self
    }
}

/// Bits behind the point of the constants.
const BITS: u32 = 13;
/// More bits kept between the passes.
const PASS: u32 = 2;

/// One dimension of the transform, for eight columns at once.
#[inline(always)]
fn pass(x: [Lanes; 8], descale: u32) -> [Lanes; 8] {
    let z1 = x[2].add(x[6]).mul(4433);
    let t2 = z1.sub(x[6].mul(15137));
    let t3 = z1.add(x[2].mul(6270));
    let t0 = x[0].add(x[4]).scaled();
    let t1 = x[0].sub(x[4]).scaled();
    let even = [t0.add(t3), t1.add(t2), t1.sub(t2), t0.sub(t3)];

    let z1 = x[7].add(x[1]);
    let z2 = x[5].add(x[3]);
    let z3 = x[7].add(x[3]);
    let z4 = x[5].add(x[1]);
    let z5 = z3.add(z4).mul(9633);
    let z1 = z1.mul(-7373);
    let z2 = z2.mul(-20995);
    let z3 = z3.mul(-16069).add(z5);
    let z4 = z4.mul(-3196).add(z5);
    let odd = [
        x[1].mul(12299).add(z1).add(z4),
        x[3].mul(25172).add(z2).add(z3),
        x[5].mul(16819).add(z2).add(z4),
        x[7].mul(2446).add(z1).add(z3),
    ];
    let mut out = x;
    for i in 0..4 {
        out[i] = even[i].add(odd[i]).descaled(descale);
        out[7 - i] = even[i].sub(odd[i]).descaled(descale);
    }
    out
}

#[inline(always)]
fn transposed(x: [Lanes; 8]) -> [Lanes; 8] {
    std::array::from_fn(|i| Lanes(std::array::from_fn(|j| x[j].0[i])))
}

/// The first coefficients, in zigzag order, lie in the first four rows and columns.
pub const CORNER: usize = 10;

/// Writes the 8 x 8 samples of dequantized coefficients (in natural order).
#[inline]
pub fn full(block: &[i32; 64], samples: &mut [u8], stride: usize) {
    transform::<false>(block, samples, stride);
}

/// As `full`, if there are none but the `CORNER` first.
#[inline]
pub fn corner(block: &[i32; 64], samples: &mut [u8], stride: usize) {
    transform::<true>(block, samples, stride);
}

#[inline]
fn transform<const CORNER: bool>(block: &[i32; 64], samples: &mut [u8], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the instructions.
        return unsafe { wide::transform::<CORNER>(block, samples, stride) };
    }
    let columns = transposed(pass(known::<CORNER>(rows(block)), BITS - PASS));
    let rows = transposed(pass(known::<CORNER>(columns), BITS + PASS + 3));
    for (i, row) in rows.iter().enumerate() {
        samples[i * stride..][..8].copy_from_slice(&row.0.map(sample));
    }
}

/// The same, with zeros that the compiler sees where there are only zeros.
#[inline(always)]
fn known<const CORNER: bool>(x: [Lanes; 8]) -> [Lanes; 8] {
    let zeros = Lanes([0; 8]);
    match CORNER {
        true => [x[0], x[1], x[2], x[3], zeros, zeros, zeros, zeros],
        false => x,
    }
}

#[inline(always)]
fn rows(block: &[i32; 64]) -> [Lanes; 8] {
    let mut rows = [Lanes([0; 8]); 8];
    for (row, values) in rows.iter_mut().zip(block.chunks_exact(8)) {
        row.0.copy_from_slice(values);
    }
    rows
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{known, pass, rows, Lanes, BITS, PASS};
    use std::arch::x86_64::*;
    use std::mem::transmute;

    /// As `super::transform`.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn transform<const CORNER: bool>(
        block: &[i32; 64],
        samples: &mut [u8],
        stride: usize,
    ) {
        let columns = transposed(pass(known::<CORNER>(rows(block)), BITS - PASS));
        let columns = pass(known::<CORNER>(columns), BITS + PASS + 3);
        for (i, row) in packed(columns).iter().enumerate() {
            samples[i * stride..][..8].copy_from_slice(&row.to_ne_bytes());
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn transposed(x: [Lanes; 8]) -> [Lanes; 8] {
        let x: [__m256i; 8] = transmute(x);
        let mut pairs = x;
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
        }
        let mut fours = x;
        for i in 0..2 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                fours[4 * i + 2 * j] = _mm256_unpacklo_epi64(a, b);
                fours[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(a, b);
            }
        }
        let mut out = x;
        for i in 0..4 {
            out[i] = _mm256_permute2x128_si256::<0x20>(fours[i], fours[i + 4]);
            out[i + 4] = _mm256_permute2x128_si256::<0x31>(fours[i], fours[i + 4]);
        }
        transmute(out)
    }

    /// Rows of eight samples, of columns of eight values.
    #[target_feature(enable = "avx2")]
    unsafe fn packed(columns: [Lanes; 8]) -> [u64; 8] {
        let columns: [__m256i; 8] = transmute(columns);
        let raised = columns.map(|c| _mm256_add_epi32(c, _mm256_set1_epi32(128)));
        let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
        ));
        let four = |i: usize| {
            let low = _mm256_packs_epi32(raised[i], raised[i + 1]);
            let high = _mm256_packs_epi32(raised[i + 2], raised[i + 3]);
            _mm256_shuffle_epi8(_mm256_packus_epi16(low, high), order)
        };
        let (left, right) = (four(0), four(4));
        let (low, high) = (
            _mm256_unpacklo_epi32(left, right),
            _mm256_unpackhi_epi32(left, right),
        );
        let low: [u64; 4] = transmute(low);
        let high: [u64; 4] = transmute(high);
        [
            low[0], low[1], high[0], high[1], low[2], low[3], high[2], high[3],
        ]
    }
}

#[inline(always)]
fn sample(value: i32) -> u8 {
    value.wrapping_add(128).clamp(0, 255) as u8
}

/// Writes the samples of a block of which only the first coefficient is not zero.
pub fn flat(dc: i32, size: usize, samples: &mut [u8], stride: usize) {
    let value = sample(dc.wrapping_add(4) >> 3);
    for row in samples.chunks_mut(stride).take(size) {
        row[..size].fill(value);
    }
}
