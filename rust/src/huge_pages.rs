//! Huge pages for the large buffers that another shared library allocates.
//!
//! XLA takes the temporary memory of a CPU program afresh at every call: for ResNet-50 at batch 16,
//! 2 GB in 4 KiB pages, each a fault. Where the kernel gives huge pages only to memory that asks
//! (`madvise`, the default of several distributions), nobody asks. numpy does for its own arrays.
//! Here the library's calls of the allocator are routed through a function that allocates as
//! before and then advises the kernel. The advice changes no content, and freeing is unaffected.

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod elf;

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod advice {
    use super::elf;
    use libc::{c_int, c_void, size_t};

    /// Buffers of this many bytes and more are advised: where numpy draws the line, too.
    const LARGE: usize = 4 << 20;

    pub fn install(library: &str) -> usize {
        let allocators = [
            (c"posix_memalign", posix_memalign as *const () as usize),
            (c"aligned_alloc", aligned_alloc as *const () as usize),
        ];
        elf::redirect(library, &allocators)
    }

    unsafe extern "C" fn posix_memalign(
        out: *mut *mut c_void,
        alignment: size_t,
        size: size_t,
    ) -> c_int {
        let status = libc::posix_memalign(out, alignment, size);
        if status == 0 {
            advise(*out, size);
        }
        status
    }

    unsafe extern "C" fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
        let buffer = libc::aligned_alloc(alignment, size);
        advise(buffer, size);
        buffer
    }

    fn advise(buffer: *mut c_void, size: usize) {
        if buffer.is_null() || size < LARGE {
            return;
        }
        let page = elf::page_size();
        let start = (buffer as usize).next_multiple_of(page);
        let end = (buffer as usize + size) & !(page - 1);
        // SAFETY: whole pages inside a live allocation; the advice leaves their content alone.
        // A kernel without huge pages refuses, and the memory works as it is: nothing to report.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Routes the aligned allocations of a loaded library through the advice.
///
/// `library` is the end of its path. Returns how many of its imports were redirected: 0 if no such
/// library is loaded, it allocates otherwise, or the platform is not 64-bit Linux with glibc.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
pub fn install(library: &str) -> usize {
    advice::install(library)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
pub fn install(_library: &str) -> usize {
    0
}

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
