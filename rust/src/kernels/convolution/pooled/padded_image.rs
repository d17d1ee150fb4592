//! An image with the zeros around it that the kernel covers.

use super::super::geometry::Geometry;
use super::super::scratch::Buffer;

/// Whether the kernel reaches over the image's edges anywhere.
pub fn is_padded(g: &Geometry) -> bool {
    g.top > 0 || g.left > 0 || covered_height(g) > g.height || g.covered_width() > g.width
}

/// Rows that the kernel covers, padding included.
fn covered_height(g: &Geometry) -> usize {
    (g.rows - 1) * g.stride_down + g.kernel_height
}

/// Numbers from one row of what the kernel covers to the next.
pub fn row_stride(g: &Geometry) -> usize {
    let width = if is_padded(g) {
        g.covered_width()
    } else {
        g.width
    };
    width * g.channels
}

/// The image where it lies, or a copy with zeros around it.
///
/// # Safety
/// `image` has the image's numbers.
#[inline(always)]
pub unsafe fn padded(g: &Geometry, image: *const f32, buffer: &mut Buffer) -> *const f32 {
    if !is_padded(g) {
        return image;
    }
    let room = zeros(g, buffer);
    for (inside, outside, len) in rows(g) {
        std::ptr::copy_nonoverlapping(image.add(inside), room.add(outside), len);
    }
    room
}

/// Zeros for all that the kernel covers.
#[inline(always)]
pub fn zeros(g: &Geometry, buffer: &mut Buffer) -> *mut f32 {
    let len = covered_height(g) * row_stride(g);
    let room = buffer.room(len);
    // SAFETY: there is room for as many numbers.
    unsafe { room.write_bytes(0, len) };
    room
}

/// For each row of the image that the kernel covers: where it lies in the image, where among the
/// padding, and how many of its numbers are covered.
pub fn rows(g: &Geometry) -> impl Iterator<Item = (usize, usize, usize)> {
    let stride = row_stride(g);
    let (left, channels, width) = (g.left * g.channels, g.channels, g.width);
    let len = (g.covered_width().saturating_sub(g.left)).min(width) * channels;
    let end = covered_height(g).saturating_sub(g.top).min(g.height);
    let top = g.top;
    (0..end).map(move |y| (y * width * channels, (y + top) * stride + left, len))
}
