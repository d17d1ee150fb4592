//! Arrays that are summed together.

use super::numbers::Kind;
use std::ops::Range;

/// A rank's numbers, and where the sums go: that many bytes each, which may be the same ones.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub input: *const u8,
    pub output: *mut u8,
    pub bytes: usize,
}

/// Arrays of one type, one after another.
pub struct Operands {
    pub kind: Kind,
    arrays: Vec<Array>,
    starts: Vec<usize>,
    bytes: usize,
}

// SAFETY: whoever makes one lets it use the memory, from any thread.
unsafe impl Send for Operands {}

impl Operands {
    /// # Safety
    /// The arrays are of that kind, aligned, and can be read and written as long as the result
    /// lives; no other thread writes them meanwhile.
    pub unsafe fn new(kind: Kind, arrays: Vec<Array>) -> Self {
        let mut starts = Vec::with_capacity(arrays.len());
        let mut bytes = 0;
        for array in &arrays {
            starts.push(bytes);
            bytes += array.bytes;
        }
        Self {
            kind,
            arrays,
            starts,
            bytes,
        }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn count(&self) -> usize {
        self.arrays.len()
    }

    /// Calls `visit` with the parts of arrays that make up a range of the bytes, and with how many
    /// bytes of the range come before each.
    pub fn parts(&self, range: Range<usize>, mut visit: impl FnMut(Array, usize)) {
        let first = self.starts.partition_point(|&start| start <= range.start);
        for index in first.saturating_sub(1)..self.arrays.len() {
            let (array, start) = (&self.arrays[index], self.starts[index]);
            if start >= range.end {
                return;
            }
            let skipped = range.start.saturating_sub(start);
            let bytes = (range.end - start).min(array.bytes).saturating_sub(skipped);
            if bytes == 0 {
                continue;
            }
            let part = Array {
                // SAFETY: at least one byte of the array is left after those.
                input: unsafe { array.input.add(skipped) },
                output: unsafe { array.output.add(skipped) },
                bytes,
            };
            visit(part, start + skipped - range.start);
        }
    }
}
