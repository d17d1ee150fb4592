//! The cache of freed buffers.

use libc::{c_void, size_t};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Buffers of this many bytes and more are cached and advised: numpy advises from here on, too.
const LARGE: usize = 4 << 20;

/// What the store may hold, as a share of the machine's memory.
const SHARE: usize = 2;

/// How many buffers the store may hold.
const MOST: usize = 256;

struct CachedBuffer {
    address: usize,
    bytes: usize,
}

struct Store {
    /// Freed buffers, the oldest first.
    buffers: Vec<CachedBuffer>,
    /// The addresses of those in use that came from here. What else is freed may have come from a
    /// function that is not routed, and would fill the store with buffers that are never requested.
    used: BTreeSet<usize>,
}

static STORE: Mutex<Store> = Mutex::new(Store {
    buffers: Vec::new(),
    used: BTreeSet::new(),
});

/// Whether buffers are cached and advised now; a library's imports stay routed once they are.
static ACTIVE: AtomicBool = AtomicBool::new(false);

pub fn start() {
    ACTIVE.store(true, Ordering::Release);
}

/// Stops caching, and frees the cached buffers.
pub fn stop() {
    ACTIVE.store(false, Ordering::Release);
    release_all();
}

pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cached buffer of at least `size` bytes, and at most an eighth more, at a multiple of `alignment`.
pub fn take(alignment: usize, size: usize) -> Option<*mut c_void> {
    if size < LARGE || !is_active() {
        return None;
    }
    let mut store = store();
    let fits = |buffer: &CachedBuffer| {
        buffer.bytes >= size && buffer.bytes - size <= size / 8 && buffer.address % alignment == 0
    };
    // Of equals the last, which is likelier to be in the caches.
    let candidates = store.buffers.iter().enumerate().rev();
    let fitting = candidates.filter(|(_, buffer)| fits(buffer));
    let (position, _) = fitting.min_by_key(|(_, buffer)| buffer.bytes)?;
    let address = store.buffers.remove(position).address;
    store.used.insert(address);
    Some(address as *mut c_void)
}

/// Notes a new buffer that was not in the store, if it is large, and asks for huge pages for it.
///
/// # Safety
/// `buffer` is null or an allocation of `size` bytes.
pub unsafe fn add(buffer: *mut c_void, size: usize) {
    if buffer.is_null() || size < LARGE || !is_active() {
        return;
    }
    let page = super::elf::page_size();
    let start = (buffer as usize).next_multiple_of(page);
    let end = (buffer as usize + size) & !(page - 1);
    // A kernel without huge pages refuses, and the memory works as it is: nothing to report.
    libc::madvise(start as *mut c_void, end - start, libc::MADV_HUGEPAGE);
    store().used.insert(buffer as usize);
}

/// Takes over a buffer that is being freed, if it is one of those; says whether it did.
///
/// # Safety
/// `buffer` is null or a live allocation of this process's allocator, which is not used any more.
pub unsafe fn put(buffer: *mut c_void) -> bool {
    if buffer.is_null() {
        return false;
    }
    let bytes: size_t = libc::malloc_usable_size(buffer);
    if bytes < LARGE {
        return false;
    }
    let address = buffer as usize;
    let mut evicted = Vec::new();
    {
        let mut store = store();
        if !store.used.remove(&address) || bytes > budget() || !is_active() {
            return false;
        }
        store.buffers.push(CachedBuffer { address, bytes });
        let mut total: usize = store.buffers.iter().map(|buffer| buffer.bytes).sum();
        while total > budget() || store.buffers.len() > MOST {
            let oldest = store.buffers.remove(0);
            total -= oldest.bytes;
            evicted.push(oldest.address);
        }
    }
    for address in evicted {
        libc::free(address as *mut c_void);
    }
    true
}

/// Frees all cached buffers; says whether there was anything.
pub fn release_all() -> bool {
    let buffers = std::mem::take(&mut store().buffers);
    for buffer in &buffers {
        // SAFETY: the store owned it, and no longer does.
        unsafe { libc::free(buffer.address as *mut c_void) };
    }
    !buffers.is_empty()
}

/// Bytes that the store may hold.
fn budget() -> usize {
    static BUDGET: OnceLock<usize> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        // SAFETY: a query without arguments in memory; -1, where it is unknown, caches nothing.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        usize::try_from(pages).unwrap_or(0) / SHARE * super::elf::page_size()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the store is the process's.
    #[test]
    fn cached_buffers_fit() {
        start();
        let allocate = |bytes| {
            let mut out = std::ptr::null_mut();
            // SAFETY: `out` is writable, and the alignment a power of two.
            assert_eq!(unsafe { libc::posix_memalign(&mut out, 64, bytes) }, 0);
            out
        };
        // SAFETY (all of them): every buffer is allocated here and used by the store alone.
        unsafe {
            let (small, foreign) = (allocate(1 << 20), allocate(8 << 20));
            add(small, 1 << 20);
            assert!(!put(small) && !put(foreign) && !put(std::ptr::null_mut()));
            libc::free(small);
            libc::free(foreign);
            let (first, second) = (allocate(8 << 20), allocate(16 << 20));
            add(first, 8 << 20);
            add(second, 16 << 20);
            assert!(put(first) && put(second));
            assert_eq!(take(64, 1 << 20), None);
            assert_eq!(take(64, 12 << 20), None, "16 MiB is too much for 12");
            assert_eq!(take(64, (8 << 20) - 100), Some(first));
            assert_eq!(take(64, 8 << 20), None, "it is in use");
            assert!(put(first));
            assert!(release_all() && !release_all());
            let (held, used) = (allocate(8 << 20), allocate(16 << 20));
            add(held, 8 << 20);
            add(used, 16 << 20);
            assert!(put(held));
            stop();
            assert_eq!(take(64, 8 << 20), None, "it was freed");
            assert!(!put(used) && !release_all());
            libc::free(used);
            let other = allocate(8 << 20);
            add(other, 8 << 20);
            start();
            assert!(!put(other), "it was allocated while the cache was off");
            libc::free(other);
        }
    }
}
