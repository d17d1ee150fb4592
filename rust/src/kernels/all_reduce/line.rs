//! How far a rank has come on a channel: two counts in shared memory.

use super::futex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How often a rank looks before it sleeps.
const SPINS: usize = 300;

/// What one rank counts, and the others wait for.
///
/// - `filled`: the pieces that lie in its slots.
/// - `read`: the pieces that it has read from the slots of all.
#[repr(C, align(64))]
pub struct Line {
    pub filled: Count,
    pub read: Count,
}

/// A number that grows, and begins again after 2^32, and how many sleep until it does.
#[repr(C)]
pub struct Count {
    number: AtomicU32,
    sleeping: AtomicU32,
}

impl Count {
    pub fn get(&self) -> u32 {
        self.number.load(SeqCst)
    }

    /// Lets all know the new number.
    pub fn set(&self, number: u32) {
        self.number.store(number, SeqCst);
        if self.sleeping.load(SeqCst) > 0 {
            futex::wake_all(&self.number);
        }
    }

    /// Whether the number is `least` or more.
    pub fn has(&self, least: u32) -> bool {
        self.get().wrapping_sub(least) < u32::MAX / 2
    }

    /// As `has`, after waiting for it for at most `time`.
    pub fn wait(&self, least: u32, time: Duration) -> bool {
        for _ in 0..SPINS {
            if self.has(least) {
                return true;
            }
            std::hint::spin_loop();
        }
        let until = Instant::now() + time;
        self.sleeping.fetch_add(1, SeqCst);
        loop {
            let (seen, left) = (self.get(), until.saturating_duration_since(Instant::now()));
            if self.has(least) || left.is_zero() {
                break;
            }
            futex::wait(&self.number, seen, left);
        }
        self.sleeping.fetch_sub(1, SeqCst);
        self.has(least)
    }
}
