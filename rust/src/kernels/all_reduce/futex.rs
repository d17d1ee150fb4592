//! Sleeping until a word of shared memory changes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, until it is woken, for at most `time`; may return early.
#[cfg(target_os = "linux")]
pub fn wait(word: &AtomicU32, expected: u32, time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as _,
    };
    // SAFETY: the word and the time outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &time,
        );
    }
}

/// Wakes all that sleep on `word`, in every process.
#[cfg(target_os = "linux")]
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        );
    }
}

#[cfg(not(target_os = "linux"))]
pub fn wait(_word: &AtomicU32, _expected: u32, time: Duration) {
    std::thread::sleep(time.min(Duration::from_micros(50)));
}

#[cfg(not(target_os = "linux"))]
pub fn wake_all(_word: &AtomicU32) {}
