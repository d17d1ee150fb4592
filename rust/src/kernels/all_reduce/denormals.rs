//! Sums treat denormal numbers as zeros, as XLA's own do, whatever thread computes them.

/// Until it is dropped, the thread flushes denormal numbers to zero.
pub struct Flushed(u64);

impl Flushed {
    pub fn new() -> Self {
        let before = control::get();
        control::set(before | control::FLUSH);
        Self(before)
    }
}

impl Default for Flushed {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Flushed {
    fn drop(&mut self) {
        control::set(self.0);
    }
}

#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// Denormal operands are zeros, and so are denormal results.
    pub const FLUSH: u64 = 1 << 6 | 1 << 15;

    pub fn get() -> u64 {
        let mut word = 0u32;
        // SAFETY: stores the register at that address.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack)) };
        word.into()
    }

    pub fn set(word: u64) {
        let word = word as u32;
        // SAFETY: loads what `get` stored, with two defined bits set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &word, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub const FLUSH: u64 = 1 << 24;

    pub fn get() -> u64 {
        let word: u64;
        // SAFETY: reads the register.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) };
        word
    }

    pub fn set(word: u64) {
        // SAFETY: writes what `get` has read, with a defined bit set.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub const FLUSH: u64 = 0;

    pub fn get() -> u64 {
        0
    }

    pub fn set(_word: u64) {}
}
