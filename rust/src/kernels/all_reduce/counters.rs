//! How long the sums of this process took, and how long they waited, while they are counted.
//!
//! Sums run at the same time, on several channels and for several replicas: what is counted is the
//! time in which there was one at least.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::{Duration, Instant};

static COUNTED: AtomicBool = AtomicBool::new(false);
static SUMS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static SUMMING: Occupied = Occupied::new();
static WAITING: Occupied = Occupied::new();

/// Counts from now on, or counts no more; what was counted stays.
pub fn count(on: bool) {
    COUNTED.store(on, Relaxed);
}

/// What was counted since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub sums: u64,
    pub bytes: u64,
    pub summing: Duration,
    pub waiting: Duration,
}

pub fn counters() -> Counters {
    Counters {
        sums: SUMS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        summing: SUMMING.total(),
        waiting: WAITING.total(),
    }
}

/// A sum of so many bytes, under way until it is dropped; none if sums are not counted.
pub fn sum(bytes: usize) -> Option<Under> {
    let under = SUMMING.enter()?;
    SUMS.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
    Some(under)
}

/// A wait for other ranks, until it is dropped; none if sums are not counted.
pub fn wait() -> Option<Under> {
    WAITING.enter()
}

/// The time in which at least one thread is in it.
struct Occupied(Mutex<Occupation>);

struct Occupation {
    threads: usize,
    since: Option<Instant>,
    total: Duration,
}

impl Occupied {
    const fn new() -> Self {
        Self(Mutex::new(Occupation {
            threads: 0,
            since: None,
            total: Duration::ZERO,
        }))
    }

    fn enter(&'static self) -> Option<Under> {
        if !COUNTED.load(Relaxed) {
            return None;
        }
        let mut inside = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        inside.threads += 1;
        inside.since.get_or_insert_with(Instant::now);
        Some(Under(self))
    }

    fn leave(&self) {
        let mut inside = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        inside.threads -= 1;
        if inside.threads == 0 {
            if let Some(since) = inside.since.take() {
                inside.total += since.elapsed();
            }
        }
    }

    fn total(&self) -> Duration {
        let inside = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        inside.total + inside.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// One thread in an `Occupied`.
pub struct Under(&'static Occupied);

impl Drop for Under {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ALONE: Occupied = Occupied::new();

    #[test]
    fn time_in_which_two_are_inside_counts_once() {
        count(true);
        let began = Instant::now();
        let first = ALONE.enter();
        let second = ALONE.enter();
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        std::thread::sleep(Duration::from_millis(20));
        drop(second);
        let passed = began.elapsed();
        let total = ALONE.total();
        assert!(
            total >= Duration::from_millis(40) && total <= passed,
            "{total:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(ALONE.total(), total);
    }
}
