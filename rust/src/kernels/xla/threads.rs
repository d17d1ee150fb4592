//! Work shared out over the threads on which XLA runs its own operations.

use super::c_api::{Api, Context, Error, ErrorDestroy, NumThreads, Schedule};
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How often the caller looks whether the others are done before it sleeps.
const SPINS: usize = 2000;

/// Multiplications for which it is worth to wake a thread: some 10 microseconds of one.
const WORK_PER_THREAD: usize = 1 << 20;

/// XLA's threads for one call, and the caller's own.
pub struct Threads {
    pool: Option<(*const Api, *mut Context)>,
    count: usize,
}

impl Threads {
    /// The caller's thread alone.
    pub fn none() -> Self {
        Self {
            pool: None,
            count: 1,
        }
    }

    /// # Safety
    /// The functions and the context of a call of XLA's that lasts as long as the result.
    pub unsafe fn new(api: *const Api, context: *mut Context) -> Self {
        let mut count = 0;
        let mut query = NumThreads {
            struct_size: size_of::<NumThreads>(),
            extension: std::ptr::null_mut(),
            context,
            count: &mut count,
        };
        let error = ((*api).num_threads)(&mut query);
        if !error.is_null() {
            destroy(api, error);
            return Self::none();
        }
        Self {
            pool: Some((api, context)),
            count: count.max(1) as usize,
        }
    }

    /// As many of these threads as a number of multiplications keeps busy.
    pub fn for_work(&self, multiplications: usize) -> Self {
        Self {
            pool: self.pool,
            count: self.count.min(1 + multiplications / WORK_PER_THREAD),
        }
    }

    /// Calls `work` with each of `0..items`, on several threads, and returns when all have ended.
    ///
    /// Panics, in the caller's thread, if a call did.
    pub fn for_each<F: Fn(usize) + Sync>(&self, items: usize, work: F) {
        let call = |item: usize| work(item);
        let call: &(dyn Fn(usize) + Sync) = &call;
        // SAFETY: `work` is only called for items below `items`, all of which `finish` awaits.
        let call: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(call) };
        let shared = Arc::new(Shared {
            call,
            items,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            lock: Mutex::new(()),
            all_done: Condvar::new(),
        });
        if let Some((api, context)) = self.pool {
            for _ in 1..self.count.min(items) {
                // SAFETY: as `new` was promised.
                unsafe { schedule(api, context, Arc::clone(&shared)) };
            }
        }
        shared.work();
        shared.finish();
        assert!(!shared.panicked.load(Ordering::Relaxed), "an item panicked");
    }
}

struct Shared {
    call: &'static (dyn Fn(usize) + Sync),
    items: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    panicked: AtomicBool,
    lock: Mutex<()>,
    all_done: Condvar,
}

impl Shared {
    /// Takes items until none are left. A thread that comes when all are taken, even after the call
    /// has returned, touches nothing of the caller's.
    fn work(&self) {
        loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.items {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| (self.call)(item))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.items {
                let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.all_done.notify_all();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.items
    }

    fn finish(&self) {
        for _ in 0..SPINS {
            if self.is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_done() {
            guard = self
                .all_done
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

unsafe fn schedule(api: *const Api, context: *mut Context, shared: Arc<Shared>) {
    let data = Arc::into_raw(shared);
    let mut request = Schedule {
        struct_size: size_of::<Schedule>(),
        extension: std::ptr::null_mut(),
        context,
        task: help,
        data: data.cast_mut().cast(),
    };
    let error = ((*api).schedule)(&mut request);
    if !error.is_null() {
        destroy(api, error);
        drop(Arc::from_raw(data));
    }
}

unsafe extern "C" fn help(data: *mut c_void) {
    Arc::from_raw(data.cast::<Shared>().cast_const()).work();
}

unsafe fn destroy(api: *const Api, error: *mut Error) {
    let mut request = ErrorDestroy {
        struct_size: size_of::<ErrorDestroy>(),
        extension: std::ptr::null_mut(),
        error,
    };
    ((*api).error_destroy)(&mut request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_once_without_a_pool() {
        let counts: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        Threads::none().for_each(100, |i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        Threads::none().for_each(0, |_| unreachable!());
    }

    #[test]
    fn threads_that_help_share_the_items_and_latecomers_find_none() {
        let counts: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        let call = |i: usize| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        };
        let call: &(dyn Fn(usize) + Sync) = &call;
        // SAFETY: the threads are joined below.
        let call: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(call) };
        let shared = Arc::new(Shared {
            call,
            items: counts.len(),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            lock: Mutex::new(()),
            all_done: Condvar::new(),
        });
        let helpers: Vec<_> = (0..3)
            .map(|_| {
                let data = Arc::into_raw(Arc::clone(&shared)) as usize;
                std::thread::spawn(move || unsafe { help(data as *mut c_void) })
            })
            .collect();
        shared.work();
        shared.finish();
        assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        helpers.into_iter().for_each(|h| h.join().unwrap());
        shared.work();
        assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 1));
    }

    #[test]
    #[should_panic(expected = "an item panicked")]
    fn a_panic_reaches_the_caller() {
        Threads::none().for_each(3, |i| assert_ne!(i, 1));
    }
}
