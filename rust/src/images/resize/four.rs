//! Four numbers at once, which compilers make of plain loops in some places only.

/// The sums of numbers and others, each multiplied with a weight.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn blended(a: &[f32; 4], b: &[f32; 4], weights: &[f32; 2]) -> [f32; 4] {
    use std::arch::x86_64::{_mm_add_ps, _mm_loadu_ps, _mm_mul_ps, _mm_set1_ps, _mm_storeu_ps};
    let mut sums = [0.0; 4];
    // SAFETY: all processors of the kind have the instructions; four numbers are read and written.
    unsafe {
        let a = _mm_mul_ps(_mm_loadu_ps(a.as_ptr()), _mm_set1_ps(weights[0]));
        let b = _mm_mul_ps(_mm_loadu_ps(b.as_ptr()), _mm_set1_ps(weights[1]));
        _mm_storeu_ps(sums.as_mut_ptr(), _mm_add_ps(a, b));
    }
    sums
}

/// As for x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn blended(a: &[f32; 4], b: &[f32; 4], weights: &[f32; 2]) -> [f32; 4] {
    let mut sums = [0.0; 4];
    for i in 0..4 {
        sums[i] = a[i] * weights[0] + b[i] * weights[1];
    }
    sums
}
