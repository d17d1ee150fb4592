//! Copies chosen rows of one buffer to another.

use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Below this many bytes, waking other threads costs more than they save.
const PARALLEL_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// An index that names no row of the source.
#[derive(Debug, PartialEq, Eq)]
pub struct BadIndex {
    pub position: usize,
    pub value: i64,
}

/// `out[p] = src[idx[p]]` for `count` rows of `width` bytes.
pub struct Gather {
    pub src: *const u8,
    pub rows: usize,
    pub width: usize,
    pub idx: *const i64,
    pub count: usize,
    pub out: *mut u8,
}

// SAFETY: the pointers are only used by `run`, whose contract keeps the memory alive meanwhile, and
// threads write disjoint rows of `out`.
unsafe impl Sync for Gather {}

impl Gather {
    /// Copies the rows. `out` is untouched when an index is bad.
    ///
    /// # Safety
    /// `src` holds `rows * width` readable bytes, `idx` `count` readable, aligned integers and `out`
    /// `count * width` writable bytes that overlap neither. No other thread writes `out` meanwhile.
    pub unsafe fn run(&self) -> Result<(), BadIndex> {
        for position in 0..self.count {
            self.row(position)?;
        }
        if self.count * self.width < PARALLEL_BYTES || !pool_is_usable() {
            return self.copy(0..self.count);
        }
        let chunk = (CHUNK_BYTES / self.width).max(1);
        (0..self.count.div_ceil(chunk))
            .into_par_iter()
            .try_for_each(|i| self.copy(i * chunk..self.count.min((i + 1) * chunk)))
    }

    /// The row named at a position. Atomic and checked at each use: Python code in another thread
    /// may write the index array at any time, and must not get this one to read past the source.
    #[inline(always)]
    fn row(&self, position: usize) -> Result<usize, BadIndex> {
        debug_assert!(position < self.count);
        // SAFETY: `run` was promised `count` aligned integers.
        let value = unsafe { AtomicI64::from_ptr(self.idx.add(position).cast_mut()) }
            .load(Ordering::Relaxed);
        if (value as u64) < self.rows as u64 {
            Ok(value as usize)
        } else {
            Err(BadIndex { position, value })
        }
    }

    fn copy(&self, positions: Range<usize>) -> Result<(), BadIndex> {
        match self.width {
            0 => Ok(()),
            1 => self.copy_fixed::<1>(positions),
            2 => self.copy_fixed::<2>(positions),
            4 => self.copy_fixed::<4>(positions),
            8 => self.copy_fixed::<8>(positions),
            16 => self.copy_fixed::<16>(positions),
            width => self.copy_rows(positions, width),
        }
    }

    /// A width known to the compiler makes each copy a single load and store.
    fn copy_fixed<const WIDTH: usize>(&self, positions: Range<usize>) -> Result<(), BadIndex> {
        self.copy_rows(positions, WIDTH)
    }

    #[inline(always)]
    fn copy_rows(&self, positions: Range<usize>, width: usize) -> Result<(), BadIndex> {
        for position in positions {
            let row = self.row(position)?;
            // SAFETY: `row < rows` and `position < count`, so both rows lie within their buffers.
            unsafe {
                let from = self.src.add(row * width);
                std::ptr::copy_nonoverlapping(from, self.out.add(position * width), width);
            }
        }
        Ok(())
    }
}

/// The pool's threads do not survive a fork, and waiting for them would hang the child.
pub(crate) fn pool_is_usable() -> bool {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    let here = std::process::id();
    match OWNER.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(owner) => owner == here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(src: &[u8], width: usize, idx: &[i64]) -> Result<Vec<u8>, BadIndex> {
        let mut out = vec![0; idx.len() * width];
        let job = Gather {
            src: src.as_ptr(),
            rows: src.len() / width,
            width,
            idx: idx.as_ptr(),
            count: idx.len(),
            out: out.as_mut_ptr(),
        };
        // SAFETY: the pointers come from live slices of these sizes, and `out` is a fresh vector.
        unsafe { job.run() }.map(|()| out)
    }

    #[test]
    fn rows_are_copied_for_every_kind_of_width() {
        for width in [1, 2, 3, 4, 8, 16, 17] {
            let src: Vec<u8> = (0..5 * width as u8).collect();
            let expected: Vec<u8> = [4, 0, 4]
                .iter()
                .flat_map(|&row| src[row * width..(row + 1) * width].to_vec())
                .collect();
            assert_eq!(gather(&src, width, &[4, 0, 4]).unwrap(), expected);
        }
    }

    #[test]
    fn a_copy_in_parallel_equals_a_serial_one() {
        let width = 1000;
        let src: Vec<u8> = (0..7 * width).map(|i| (i % 251) as u8).collect();
        let idx: Vec<i64> = (0..5003).map(|i| i * 5 % 7).collect();
        let out = gather(&src, width, &idx).unwrap();
        for (row, &i) in out.chunks(width).zip(&idx) {
            let i = i as usize;
            assert_eq!(row, &src[i * width..(i + 1) * width]);
        }
    }

    #[test]
    fn the_first_bad_index_is_named() {
        let bad = |position, value| Err(BadIndex { position, value });
        assert_eq!(gather(&[1, 2, 3], 1, &[0, 3, -1]), bad(1, 3));
        assert_eq!(gather(&[1, 2, 3], 1, &[0, -1, 3]), bad(1, -1));
        assert_eq!(gather(&[], 1, &[0]), bad(0, 0));
    }
}
