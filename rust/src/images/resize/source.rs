//! Where rows of pixels come from.

use super::sample::Value;

/// Rows of an image, of `stride` values each.
pub trait Source<T: Value> {
    /// `count` rows from `start` on, in order.
    fn rows(&mut self, start: usize, count: usize) -> &[T];
}

/// An image in memory.
pub struct Held<'a, T> {
    pub pixels: &'a [T],
    pub stride: usize,
}

impl<T: Value> Source<T> for Held<'_, T> {
    fn rows(&mut self, start: usize, count: usize) -> &[T] {
        &self.pixels[start * self.stride..][..count * self.stride]
    }
}

/// Rows that are made when they are read, by a function of the row's number; others are not.
pub struct Made<'a, F> {
    make: F,
    stride: usize,
    /// As many rows as were wanted last, from `start` on.
    rows: &'a mut Vec<u8>,
    start: usize,
}

impl<'a, F: FnMut(usize, &mut [u8])> Made<'a, F> {
    /// `rows` is memory, of any length.
    pub fn new(stride: usize, rows: &'a mut Vec<u8>, make: F) -> Self {
        rows.clear();
        Self {
            make,
            stride,
            rows,
            start: 0,
        }
    }
}

impl<F: FnMut(usize, &mut [u8])> Source<u8> for Made<'_, F> {
    fn rows(&mut self, start: usize, count: usize) -> &[u8] {
        let stride = self.stride;
        let held = self.start..self.start + self.rows.len() / stride;
        let (mut from, mut kept) = (0, 0);
        if held.contains(&start) {
            (from, kept) = (start - held.start, count.min(held.end - start));
        }
        self.rows
            .copy_within(from * stride..(from + kept) * stride, 0);
        self.rows.resize(count * stride, 0);
        self.start = start;
        let missing = self.rows.chunks_exact_mut(stride).enumerate().skip(kept);
        for (row, out) in missing {
            (self.make)(start + row, out);
        }
        self.rows
    }
}
