//! Results of a CPU program written where the caller wants them.
//!
//! XLA allocates the memory of its results itself, in the thread that calls the program. While a
//! thread has named places, its allocations of just their sizes are given these instead of memory of
//! the allocator's, so that nothing has to be copied out of XLA's memory afterwards. Who asks must
//! look where each result lies: XLA may have used a place for something else, or none at all.

use libc::{c_void, size_t};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// XLA has vectors of 64 bytes in mind, whatever alignment it asks for.
const ALIGNMENT: usize = 64;

/// Smaller allocations are not looked at: there are many of them, and copying is as quick.
const SMALLEST: usize = 16 << 10;

/// How many places may be in XLA's hands at once, of all threads.
const MOST: usize = 256;

#[derive(Clone, Copy)]
pub struct Place {
    pub address: usize,
    pub bytes: usize,
}

thread_local! {
    static WANTED: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// The addresses that XLA has been given and not freed yet; zero where there is none.
static GIVEN: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// How many of them there are, or a few more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Has this thread's next allocations of these sizes lie there, the first of a size first, and
/// forgets what was wanted before.
pub fn want(places: impl Iterator<Item = Place>) {
    WANTED.with_borrow_mut(|wanted| {
        wanted.clear();
        wanted.extend(
            places.filter(|place| place.bytes >= SMALLEST && place.address % ALIGNMENT == 0),
        );
    });
}

/// A place for an allocation, if this thread wants one of this size.
pub fn take(alignment: usize, size: size_t) -> Option<*mut c_void> {
    if size < SMALLEST || alignment > ALIGNMENT {
        return None;
    }
    // Allocations at a thread's end, when its variables are gone, are the allocator's.
    let found = WANTED.try_with(|wanted| {
        let mut wanted = wanted.try_borrow_mut().ok()?;
        let position = wanted.iter().position(|place| place.bytes == size)?;
        note(wanted[position].address).then(|| wanted.remove(position).address)
    });
    found.ok().flatten().map(|address| address as *mut c_void)
}

/// Notes that XLA will free this address; false if there are too many already.
fn note(address: usize) -> bool {
    COUNT.fetch_add(1, Ordering::AcqRel);
    let free = GIVEN.iter().any(|slot| {
        slot.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    if !free {
        COUNT.fetch_sub(1, Ordering::AcqRel);
    }
    free
}

/// Takes note that XLA frees a place; false if it is none.
pub fn free(buffer: *mut c_void) -> bool {
    let address = buffer as usize;
    if address == 0 || address % ALIGNMENT != 0 || COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let found = GIVEN.iter().any(|slot| {
        slot.compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    if found {
        COUNT.fetch_sub(1, Ordering::AcqRel);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_once_and_to_its_thread_alone() {
        let base = 1 << 40;
        let place = |start: usize, bytes| Place {
            address: base + start,
            bytes,
        };
        let size = 2 * SMALLEST;
        let address = |start: usize| Some((base + start) as *mut c_void);
        want(
            [
                place(0, size),
                place(size, size),
                place(32, 3 * size),
                place(0, 64),
            ]
            .into_iter(),
        );
        assert_eq!(take(64, size + 64), None);
        assert_eq!(take(64, 3 * size), None, "it is not aligned");
        assert_eq!(take(64, 64), None, "it is small");
        assert_eq!(take(128, size), None);
        assert!(std::thread::spawn(move || take(64, size).is_none())
            .join()
            .unwrap());
        assert_eq!(take(64, size), address(0));
        assert_eq!(take(16, size), address(size));
        assert_eq!(take(64, size), None);
        assert!(free(address(size).unwrap()) && free(address(0).unwrap()));
        assert!(!free(address(0).unwrap()) && !free(std::ptr::null_mut()));
        want(std::iter::once(place(0, size)));
        want(std::iter::empty());
        assert_eq!(take(64, size), None);
    }

    #[test]
    fn a_place_may_be_given_again_before_it_was_freed() {
        let address = 3 << 41;
        for _ in 0..2 {
            want(std::iter::once(Place {
                address,
                bytes: SMALLEST,
            }));
            assert_eq!(take(64, SMALLEST), Some(address as *mut c_void));
        }
        let buffer = address as *mut c_void;
        assert!(free(buffer) && free(buffer) && !free(buffer));
    }
}
