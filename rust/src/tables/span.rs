//! Elementwise changes of float32 arrays in place: of chosen rows, or of all elements.

/// How one element changes.
pub trait Elementwise<const SLOTS: usize>: Sync {
    /// The new value and slots.
    fn apply(&self, value: f32, slots: [f32; SLOTS], gradient: f32) -> (f32, [f32; SLOTS]);
}

/// What is changed: rows of `width` elements of the arrays. The gradient has a row for each, in
/// order.
pub struct Work<'a> {
    /// The value and its slots.
    pub arrays: &'a [*mut f32],
    pub gradient: *const f32,
    pub width: usize,
    /// The numbers of the rows; None for row 0 alone.
    pub rows: Option<&'a [usize]>,
}

const LANES: usize = 8;
/// How many rows ahead memory is asked for: about what is read while one read takes.
pub const AHEAD: usize = 16;
const LINE: usize = 64;
const MOST_LINES: usize = 4;

/// Changes each element by `step`.
///
/// # Safety
/// There are `1 + SLOTS` arrays. Each is aligned and has all the rows, no two overlap, and no other
/// thread uses them meanwhile. No row is named twice. `gradient` has a row for each and overlaps none.
pub unsafe fn each<const SLOTS: usize, S: Elementwise<SLOTS>>(work: &Work, step: &S) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions, and the rest was promised.
        return unsafe { each_avx2(work, step) };
    }
    // SAFETY: as was promised.
    unsafe { each_row(work, step) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn each_avx2<const SLOTS: usize, S: Elementwise<SLOTS>>(work: &Work, step: &S) {
    // SAFETY: handed on.
    unsafe { each_row(work, step) }
}

#[inline(always)]
unsafe fn each_row<const SLOTS: usize, S: Elementwise<SLOTS>>(work: &Work, step: &S) {
    let value = work.arrays[0];
    let slots: [*mut f32; SLOTS] = std::array::from_fn(|slot| work.arrays[1 + slot]);
    let Some(rows) = work.rows else {
        // SAFETY: row 0 is there.
        return unsafe { change(value, slots, work.gradient, work.width, step) };
    };
    for (position, &row) in rows.iter().enumerate() {
        if let Some(&later) = rows.get(position + AHEAD) {
            for &array in work.arrays {
                let width = work.width * size_of::<f32>();
                prefetch(array.cast(), later * width, width);
            }
        }
        let start = row * work.width;
        // SAFETY: the row lies in the arrays, and `position` in the gradient.
        unsafe {
            let slots = slots.map(|slot| slot.add(start));
            let gradient = work.gradient.add(position * work.width);
            change(value.add(start), slots, gradient, work.width, step);
        }
    }
}

/// Asks for the first lines of `width` bytes, `start` bytes after `array`.
#[inline(always)]
pub fn prefetch(array: *const u8, start: usize, width: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..width.div_ceil(LINE).min(MOST_LINES) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let place = array.wrapping_add(start + line * LINE);
        // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (array, start, width);
}

/// Changes `count` elements that are contiguous.
#[inline(always)]
unsafe fn change<const SLOTS: usize, S: Elementwise<SLOTS>>(
    value: *mut f32,
    slots: [*mut f32; SLOTS],
    gradient: *const f32,
    count: usize,
    step: &S,
) {
    let whole = count - count % LANES;
    for start in (0..whole).step_by(LANES) {
        // SAFETY: `start + LANES <= count`.
        unsafe { block::<SLOTS, LANES, S>(value, slots, gradient, start, step) };
    }
    for start in whole..count {
        // SAFETY: `start < count`.
        unsafe { block::<SLOTS, 1, S>(value, slots, gradient, start, step) };
    }
}

/// All is read before anything is written, so that the compiler can use vectors.
#[inline(always)]
unsafe fn block<const SLOTS: usize, const N: usize, S: Elementwise<SLOTS>>(
    value: *mut f32,
    slots: [*mut f32; SLOTS],
    gradient: *const f32,
    start: usize,
    step: &S,
) {
    // SAFETY: the caller vouches for `N` elements from `start`.
    unsafe {
        let mut values = value.add(start).cast::<[f32; N]>().read();
        let mut kept = slots.map(|slot| slot.add(start).cast::<[f32; N]>().read());
        let gradients = gradient.add(start).cast::<[f32; N]>().read();
        for lane in 0..N {
            let old = std::array::from_fn(|slot| kept[slot][lane]);
            let (new, slots) = step.apply(values[lane], old, gradients[lane]);
            values[lane] = new;
            for slot in 0..SLOTS {
                kept[slot][lane] = slots[slot];
            }
        }
        value.add(start).cast::<[f32; N]>().write(values);
        for slot in 0..SLOTS {
            slots[slot].add(start).cast::<[f32; N]>().write(kept[slot]);
        }
    }
}
