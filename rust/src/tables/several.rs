//! Several tables read or updated in one call, on all cores if that pays.

use crate::blocks::gather::pool_is_usable;
use crate::tables::rows::DistinctRows;
use crate::tables::span::{prefetch, Work, AHEAD};
use crate::tables::update_rules::UpdateRule;
use rayon::prelude::*;
use std::ops::Range;

/// Below this many bytes, waking other threads costs more than they save.
const PARALLEL_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Rows of a table that are to be copied to `out`, in order.
pub struct Reading<'a> {
    pub table: *const u8,
    /// Bytes of a row.
    pub width: usize,
    /// The numbers of the rows, all of them the table's.
    pub rows: &'a [usize],
    pub out: *mut u8,
}

/// Rows of a table that are to be updated.
pub struct Update<'a> {
    /// The value and its slots.
    pub arrays: Vec<*mut f32>,
    /// Elements of a row.
    pub width: usize,
    pub rows: &'a DistinctRows,
    pub gradient: *const f32,
    /// How many updates the table has had.
    pub iteration: i32,
}

/// One array, with its slots, that is updated whole.
pub struct WholeUpdate {
    pub arrays: Vec<*mut f32>,
    pub count: usize,
    pub gradient: *const f32,
    pub iteration: i32,
}

// SAFETY: the pointers are used by the functions below alone, whose contracts keep the memory
// alive and apart meanwhile.
unsafe impl Sync for Reading<'_> {}
unsafe impl Sync for Update<'_> {}
unsafe impl Sync for WholeUpdate {}

/// Copies rows of tables.
///
/// # Safety
/// Each table has the rows, and its `out` room for them; no `out` overlaps anything else, and
/// no thread writes a table meanwhile.
pub unsafe fn read_rows(readings: &[Reading<'_>]) {
    let sizes = readings.iter().map(|each| (each.rows.len(), each.width));
    in_chunks(sizes.collect(), |number, range| {
        let each = &readings[number];
        // SAFETY: as was promised; chunks do not overlap.
        unsafe { copy(each, range) };
    });
}

/// Updates rows of tables.
///
/// # Safety
/// Each has the arrays that `rule` needs, with all the rows that `rows` was checked against and a
/// row of `gradient` for each that it names. No two arrays overlap but gradients, and no other thread
/// uses them meanwhile.
pub unsafe fn update_rows(rule: &UpdateRule, updates: &[Update<'_>], rate: f32) {
    let sizes = updates
        .iter()
        .map(|each| (each.rows.count(), each.width * 4 * each.arrays.len()));
    in_chunks(sizes.collect(), |number, range| {
        let each = &updates[number];
        let start = range.start * each.width;
        let work = Work {
            arrays: &each.arrays,
            gradient: each.gradient.wrapping_add(start),
            width: each.width,
            rows: Some(&each.rows.positions()[range]),
        };
        // SAFETY: as was promised; rows are distinct, so chunks do not overlap.
        unsafe { rule.run(&work, rate, each.iteration) };
    });
}

/// Updates arrays whole.
///
/// # Safety
/// As `update_rows`, with `count` elements in every array.
pub unsafe fn update_whole(rule: &UpdateRule, updates: &[WholeUpdate], rate: f32) {
    let sizes = updates
        .iter()
        .map(|each| (each.count, 4 * each.arrays.len()));
    in_chunks(sizes.collect(), |number, range| {
        let each = &updates[number];
        let moved = each.arrays.iter().map(|a| a.wrapping_add(range.start));
        let arrays: Vec<*mut f32> = moved.collect();
        let work = Work {
            arrays: &arrays,
            gradient: each.gradient.wrapping_add(range.start),
            width: range.len(),
            rows: None,
        };
        // SAFETY: as was promised; chunks do not overlap.
        unsafe { rule.run(&work, rate, each.iteration) };
    });
}

/// Calls `run` for ranges that together are all of each size.
///
/// Args: for each job how many pieces it has, and the bytes of each.
fn in_chunks(sizes: Vec<(usize, usize)>, run: impl Fn(usize, Range<usize>) + Sync) {
    let total: usize = sizes.iter().map(|&(count, bytes)| count * bytes).sum();
    if total < PARALLEL_BYTES || !pool_is_usable() {
        for (number, &(count, _)) in sizes.iter().enumerate() {
            run(number, 0..count);
        }
        return;
    }
    let chunks: Vec<(usize, Range<usize>)> = sizes
        .iter()
        .enumerate()
        .flat_map(|(number, &(count, bytes))| {
            let most = (CHUNK_BYTES / bytes.max(1)).max(1);
            let starts = (0..count).step_by(most);
            starts.map(move |start| (number, start..count.min(start + most)))
        })
        .collect();
    chunks
        .into_par_iter()
        .for_each(|(number, range)| run(number, range));
}

unsafe fn copy(reading: &Reading<'_>, range: Range<usize>) {
    // SAFETY: handed on. Widths that the compiler knows are copied without a call.
    unsafe {
        match reading.width {
            16 => copy_rows(reading, range, 16),
            32 => copy_rows(reading, range, 32),
            64 => copy_rows(reading, range, 64),
            128 => copy_rows(reading, range, 128),
            256 => copy_rows(reading, range, 256),
            width => copy_rows(reading, range, width),
        }
    }
}

#[inline(always)]
unsafe fn copy_rows(reading: &Reading<'_>, range: Range<usize>, width: usize) {
    for position in range {
        if let Some(&later) = reading.rows.get(position + AHEAD) {
            prefetch(reading.table, later * width, width);
        }
        // SAFETY: the row lies in the table, and `position` in `out`.
        unsafe {
            let from = reading.table.add(reading.rows[position] * width);
            std::ptr::copy_nonoverlapping(from, reading.out.add(position * width), width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 5000;

    fn numbers(count: usize, scale: f32) -> Vec<f32> {
        let number = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 * scale + 0.01;
        (0..count).map(number).collect()
    }

    fn chosen(count: usize) -> DistinctRows {
        DistinctRows::new((0..count as i64).map(|i| (i * 7 + 3) % ROWS as i64), ROWS).unwrap()
    }

    /// The value and the slots after an update of all elements.
    fn whole(rule: &UpdateRule, mut arrays: Vec<Vec<f32>>, gradient: &[f32]) -> Vec<Vec<f32>> {
        let update = WholeUpdate {
            arrays: arrays.iter_mut().map(|array| array.as_mut_ptr()).collect(),
            count: gradient.len(),
            gradient: gradient.as_ptr(),
            iteration: 4,
        };
        // SAFETY: the vectors have these sizes.
        unsafe { update_whole(rule, &[update], 0.1) };
        arrays
    }

    #[test]
    fn rows_change_as_arrays_of_them_do_and_no_others() {
        for rule in [
            UpdateRule::new("sgd", &[]).unwrap(),
            UpdateRule::new("adagrad", &[1e-7]).unwrap(),
            UpdateRule::new("adam", &[0.9, 0.999, 1e-7, 1.0]).unwrap(),
        ] {
            // The last is large enough for several threads.
            for (count, width) in [(5, 3), (40, 16), (4000, 131)] {
                rows_of_one_width(&rule, count, width);
            }
        }
    }

    fn rows_of_one_width(rule: &UpdateRule, count: usize, width: usize) {
        let rows = chosen(count);
        let start: Vec<Vec<f32>> = (0..=rule.slots())
            .map(|slot| numbers(ROWS * width, 1.0 + slot as f32))
            .collect();
        let gradient = numbers(count * width, -2.0);
        let mut arrays = [start.clone(), start.clone()];
        let updates = arrays.each_mut().map(|arrays| Update {
            arrays: arrays.iter_mut().map(|array| array.as_mut_ptr()).collect(),
            width,
            rows: &rows,
            gradient: gradient.as_ptr(),
            iteration: 4,
        });
        // SAFETY: the vectors have these sizes.
        unsafe { update_rows(rule, &updates, 0.1) };
        let part = |array: &Vec<f32>| {
            let row = |&row: &usize| array[row * width..(row + 1) * width].to_vec();
            rows.positions().iter().flat_map(row).collect::<Vec<f32>>()
        };
        let expected = whole(rule, start.iter().map(part).collect(), &gradient);
        for table in &arrays {
            assert_eq!(table.iter().map(part).collect::<Vec<_>>(), expected);
            for (now, before) in table.iter().zip(&start) {
                let same = now.iter().zip(before).filter(|(a, b)| a == b).count();
                assert!(same >= (ROWS - count) * width);
            }
        }
        assert_ne!(part(&arrays[0][0]), part(&start[0]));
    }

    #[test]
    fn an_array_updated_by_several_threads_is_that_of_one() {
        let rule = UpdateRule::new("momentum", &[0.9, 1.0]).unwrap();
        let count = PARALLEL_BYTES / 4 + 5;
        let start = vec![numbers(count, 1.0), numbers(count, 3.0)];
        let gradient = numbers(count, 2.0);
        let found = whole(&rule, start.clone(), &gradient);
        for place in [0, CHUNK_BYTES / 8 - 8, count - 13] {
            let end = place + 13;
            let part = start.iter().map(|array| array[place..end].to_vec());
            let alone = whole(&rule, part.collect(), &gradient[place..end]);
            assert_eq!(found[0][place..end], alone[0]);
            assert_eq!(found[1][place..end], alone[1]);
        }
    }

    #[test]
    fn rows_of_several_tables_are_read_in_the_order_of_their_positions() {
        for width in [3, 16, 32, 64, 128, 256, 700] {
            let table: Vec<u8> = (0..ROWS * width).map(|i| (i % 251) as u8).collect();
            let rows: Vec<usize> = (0..6100).map(|i| i * 13 % ROWS).collect();
            let mut outs = vec![vec![0; rows.len() * width]; 2];
            let readings: Vec<Reading> = outs
                .iter_mut()
                .map(|out| Reading {
                    table: table.as_ptr(),
                    width,
                    rows: &rows,
                    out: out.as_mut_ptr(),
                })
                .collect();
            // SAFETY: the vectors have these sizes.
            unsafe { read_rows(&readings) };
            for out in outs {
                for (copied, row) in out.chunks(width).zip(&rows) {
                    assert_eq!(copied, &table[row * width..(row + 1) * width]);
                }
            }
        }
    }
}
