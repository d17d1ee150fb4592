//! Large buffers that another shared library allocates: cached for its next call, in huge pages.
//!
//! XLA takes the temporary memory of a CPU program afresh at every call and gives it back after it:
//! for ResNet-50 at batch 16, 2 GB at every step. glibc returns such a buffer to the kernel at once,
//! so that every step faults it in again, in 4 KiB pages where the kernel gives huge pages only to
//! memory that asks for them. Here the library's calls of the allocator are routed through
//! functions that keep freed buffers for a while and ask for huge pages.
//!
//! Every buffer is glibc's, so memory that crosses to code whose calls are not routed is freed
//! as ever; but for what a caller has placed itself (`placed`), which it keeps.

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod cache;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod elf;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod placed;

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod routed {
    use super::{cache, elf, placed};
    use libc::{c_int, c_void, size_t};

    pub fn install(library: &str) -> usize {
        let functions = [
            (c"posix_memalign", posix_memalign as *const () as usize),
            (c"aligned_alloc", aligned_alloc as *const () as usize),
            (c"malloc", malloc as *const () as usize),
            (c"free", free as *const () as usize),
        ];
        let redirected = elf::redirect(library, &functions);
        if redirected > 0 {
            cache::start();
        }
        redirected
    }

    pub fn stop() {
        cache::stop();
    }

    pub fn want(places: impl Iterator<Item = placed::Place>) {
        placed::want(places.filter(|_| cache::is_active()));
    }

    unsafe extern "C" fn posix_memalign(
        out: *mut *mut c_void,
        alignment: size_t,
        size: size_t,
    ) -> c_int {
        if let Some(buffer) = placed::take(alignment, size).or_else(|| cache::take(alignment, size))
        {
            *out = buffer;
            return 0;
        }
        let status = libc::posix_memalign(out, alignment, size);
        if status == libc::ENOMEM && cache::release_all() {
            return libc::posix_memalign(out, alignment, size);
        }
        if status == 0 {
            cache::add(*out, size);
        }
        status
    }

    unsafe extern "C" fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
        if let Some(buffer) = placed::take(alignment, size).or_else(|| cache::take(alignment, size))
        {
            return buffer;
        }
        let mut buffer = libc::aligned_alloc(alignment, size);
        if buffer.is_null() && cache::release_all() {
            buffer = libc::aligned_alloc(alignment, size);
        }
        cache::add(buffer, size);
        buffer
    }

    unsafe extern "C" fn malloc(size: size_t) -> *mut c_void {
        let alignment = 2 * size_of::<usize>();
        if let Some(buffer) = placed::take(alignment, size).or_else(|| cache::take(alignment, size))
        {
            return buffer;
        }
        let mut buffer = libc::malloc(size);
        if buffer.is_null() && cache::release_all() {
            buffer = libc::malloc(size);
        }
        cache::add(buffer, size);
        buffer
    }

    unsafe extern "C" fn free(buffer: *mut c_void) {
        // First: what is behind a place is none of the allocator's notes on a buffer.
        if !placed::free(buffer) && !cache::put(buffer) {
            libc::free(buffer);
        }
    }
}

/// Routes the large allocations of a loaded library through the store of cached buffers.
///
/// `library` is the end of its path. Returns how many of its imports were redirected: 0 if no such
/// library is loaded, it allocates otherwise, or the platform is not 64-bit Linux with glibc.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub fn install(library: &str) -> usize {
    routed::install(library)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub fn install(_library: &str) -> usize {
    0
}

/// Stops caching buffers, and frees those that are cached. The imports stay redirected, to
/// functions that hand every call on.
pub fn uninstall() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    routed::stop();
}

/// Has the next allocations of this thread that are of these sizes lie at these addresses, if the
/// library that asks is one whose allocations are routed; replaces what was wanted before.
///
/// The memory must be writable, and stay so until the library has freed what it was given.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub fn want_results_at(places: &[(usize, usize)]) {
    routed::want(
        places
            .iter()
            .map(|&(address, bytes)| placed::Place { address, bytes }),
    );
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub fn want_results_at(_places: &[(usize, usize)]) {}

#[cfg(all(
    test,
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64"
))]
mod tests {
    #[test]
    fn a_library_that_is_not_loaded_is_left_alone() {
        assert_eq!(super::install("no-such-library.so"), 0);
    }
}
