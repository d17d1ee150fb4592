//! The types of numbers that can be summed.

use crate::kernels::xla::c_api as types;
use std::ffi::c_int;

/// Numbers added at a time, while their sums stay in the processor's nearest cache.
const BLOCK: usize = 512;

/// A type of numbers by XLA's name for it, and how it is summed.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    dtype: c_int,
    pub bytes: usize,
    sum: unsafe fn(*mut u8, &[*const u8], usize),
}

impl Kind {
    /// None for a type that cannot be summed here.
    pub fn of(dtype: c_int) -> Option<Self> {
        Some(match dtype {
            types::S32 => Self::new::<i32>(dtype),
            types::S64 => Self::new::<i64>(dtype),
            types::F16 => Self::new::<Half>(dtype),
            types::F32 => Self::new::<f32>(dtype),
            types::F64 => Self::new::<f64>(dtype),
            types::BF16 => Self::new::<Brain>(dtype),
            _ => return None,
        })
    }

    pub fn code(&self) -> u64 {
        self.dtype as u64
    }

    /// Puts the sums of what lies at `sources`, added in their order, to `out`.
    ///
    /// # Safety
    /// At each address there are `bytes` bytes of such numbers, aligned to their size. `out` is one
    /// of the sources or overlaps none; no thread writes to any of them meanwhile.
    pub unsafe fn sum(&self, out: *mut u8, sources: &[*const u8], bytes: usize) {
        (self.sum)(out, sources, bytes / self.bytes);
    }

    fn new<T: Number>(dtype: c_int) -> Self {
        Self {
            dtype,
            bytes: size_of::<T>(),
            sum: sum::<T>,
        }
    }
}

trait Number: Copy {
    /// In which sums are formed.
    type Wide: Copy + Default;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

unsafe fn sum<T: Number>(out: *mut u8, sources: &[*const u8], count: usize) {
    let mut sums = [T::Wide::default(); BLOCK];
    for start in (0..count).step_by(BLOCK) {
        let length = BLOCK.min(count - start);
        let sums = &mut sums[..length];
        for (rank, source) in sources.iter().enumerate() {
            let numbers = std::slice::from_raw_parts(source.cast::<T>().add(start), length);
            if rank == 0 {
                sums.iter_mut()
                    .zip(numbers)
                    .for_each(|(s, n)| *s = n.widen());
            } else {
                sums.iter_mut()
                    .zip(numbers)
                    .for_each(|(s, n)| *s = T::add(*s, n.widen()));
            }
        }
        let out = std::slice::from_raw_parts_mut(out.cast::<T>().add(start), length);
        out.iter_mut()
            .zip(sums)
            .for_each(|(o, s)| *o = T::narrow(*s));
    }
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl Number for $number {
            type Wide = Self;
            fn widen(self) -> Self {
                self
            }
            fn narrow(wide: Self) -> Self {
                wide
            }
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
        }
    )*};
}

macro_rules! float {
    ($($number:ty),*) => {$(
        impl Number for $number {
            type Wide = Self;
            fn widen(self) -> Self {
                self
            }
            fn narrow(wide: Self) -> Self {
                wide
            }
            fn add(a: Self, b: Self) -> Self {
                a + b
            }
        }
    )*};
}

whole!(i32, i64);
float!(f32, f64);

/// bfloat16: the upper half of a float32.
#[derive(Clone, Copy)]
struct Brain(u16);

impl Number for Brain {
    type Wide = f32;

    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        if wide.is_nan() {
            return Self((bits >> 16) as u16 | 0x40);
        }
        Self(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }

    fn add(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// float16.
#[derive(Clone, Copy)]
struct Half(u16);

impl Number for Half {
    type Wide = f32;

    fn widen(self) -> f32 {
        let (sign, rest) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let size = match rest {
            0..0x400 => (rest as f32 * f32::from_bits(0x3380_0000)).to_bits(),
            0x400..0x7c00 => (rest << 13) + (112 << 23),
            _ => rest << 13 | 0x7f80_0000,
        };
        f32::from_bits(sign | size)
    }

    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let (sign, size) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        let half = match size {
            0..0x3880_0000 => {
                // Adding a half moves the last bit of a denormal float16 to the end of the float32.
                (f32::from_bits(size) + 0.5).to_bits() - 0.5f32.to_bits()
            }
            0x3880_0000..0x4780_0000 => {
                let rounded = size + 0xfff + (size >> 13 & 1);
                (rounded >> 13) - (112 << 10)
            }
            0x4780_0000..=0x7f80_0000 => 0x7c00,
            _ => 0x7e00,
        };
        Self(sign | half as u16)
    }

    fn add(a: f32, b: f32) -> f32 {
        a + b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_is_widened_exactly_and_back() {
        for bits in 0..=u16::MAX {
            let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
            let size = match exponent {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
            };
            let wide = Half(bits).widen();
            if size.is_nan() {
                assert!(wide.is_nan() && Half::narrow(wide).0 & 0x7c00 == 0x7c00);
                continue;
            }
            assert_eq!(f64::from(wide.abs()), size);
            assert_eq!(wide.is_sign_negative(), bits >= 0x8000);
            assert_eq!(Half::narrow(wide).0, bits);
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_and_to_even() {
        let halves = [
            (2049.0, 2048.0),
            (2051.0, 2052.0),
            (65519.0, 65504.0),
            (65520.0, f32::INFINITY),
            (2f32.powi(-25), 0.0),
            (1.5 * 2f32.powi(-24), 2f32.powi(-23)),
        ];
        for (wide, expected) in halves {
            assert_eq!(Half::narrow(wide).widen(), expected, "{wide}");
        }
        let brains = [(257.0, 256.0), (259.0, 260.0), (f32::MAX, f32::INFINITY)];
        for (wide, expected) in brains {
            assert_eq!(Brain::narrow(wide).widen(), expected, "{wide}");
        }
        assert!(Brain::narrow(f32::NAN).widen().is_nan());
    }

    #[test]
    fn integers_wrap_as_those_of_xla() {
        let numbers = [i32::MAX, 1];
        let sources = numbers.each_ref().map(|n| (n as *const i32).cast::<u8>());
        let mut out = 0i32;
        let kind = Kind::of(types::S32).unwrap();
        unsafe { kind.sum((&raw mut out).cast(), &sources, 4) };
        assert_eq!(out, i32::MIN);
    }
}
