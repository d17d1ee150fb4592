//! Buffers that a thread keeps between images: memory that was used before is faster.

use std::cell::RefCell;

/// Bytes that a thread keeps at most in one buffer, and buffers.
const LARGEST: usize = 8 << 20;
const COUNT: usize = 8;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// `length` bytes of any value, or more: what was there is neither cut off nor cleared.
pub fn take(length: usize) -> Vec<u8> {
    let kept = KEPT.with_borrow_mut(|kept| {
        let fits = kept.iter().position(|buffer| buffer.len() >= length);
        fits.map(|at| kept.swap_remove(at)).or_else(|| kept.pop())
    });
    let mut buffer = kept.unwrap_or_default();
    buffer.resize(length.max(buffer.len()), 0);
    buffer
}

/// Takes a buffer back.
pub fn give(buffer: Vec<u8>) {
    if buffer.capacity() > LARGEST || buffer.capacity() == 0 {
        return;
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < COUNT {
            kept.push(buffer);
        }
    });
}
