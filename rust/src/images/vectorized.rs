//! Compiling a function twice: for any processor, and for those with AVX2.

/// Whether the functions compiled for AVX2 can run here.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2")
}

/// A function whose plain loops are compiled again for AVX2, which is used where there is it.
///
/// The arithmetic is the same: rustc neither reorders nor fuses floating-point operations.
macro_rules! vectorized {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident $([$($generic:tt)*] [$($passed:tt)*])? (
        $($argument:ident: $kind:ty),* $(,)?
    ) $(-> $result:ty)? $body:block) => {
        $(#[$attribute])*
        $visibility fn $name $(<$($generic)*>)? ($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn work $(<$($generic)*>)? ($($argument: $kind),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2")]
                unsafe fn wide $(<$($generic)*>)? ($($argument: $kind),*) $(-> $result)? {
                    work $(::<$($passed)*>)? ($($argument),*)
                }
                if $crate::images::vectorized::has_avx2() {
                    // SAFETY: the processor has these instructions.
                    return unsafe { wide $(::<$($passed)*>)? ($($argument),*) };
                }
            }
            work $(::<$($passed)*>)? ($($argument),*)
        }
    };
}
pub(crate) use vectorized;
