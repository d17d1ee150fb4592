//! Rows of a table that an update reads and writes: checked once, then copied without checks.

use crate::blocks::gather::pool_is_usable;
use rayon::prelude::*;
use std::ops::Range;

/// Below this many bytes, waking other threads costs more than they save.
const PARALLEL_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Why rows cannot be updated.
#[derive(Debug, PartialEq, Eq)]
pub enum BadRow {
    Outside { position: usize, value: i64 },
    Repeated { position: usize, value: i64 },
}

/// Positions of rows in a table, all different and within it. They are a copy: whoever gave them
/// cannot change them any more.
pub struct DistinctRows {
    positions: Vec<usize>,
    rows: usize,
}

impl DistinctRows {
    pub fn new(ids: impl Iterator<Item = i64>, rows: usize) -> Result<Self, BadRow> {
        let mut positions = Vec::with_capacity(ids.size_hint().0);
        let mut ascending = true;
        for (position, value) in ids.enumerate() {
            if value as u64 >= rows as u64 {
                return Err(BadRow::Outside { position, value });
            }
            let row = value as usize;
            ascending &= positions.last().is_none_or(|&last| last < row);
            positions.push(row);
        }
        if !ascending {
            check_distinct(&positions, rows)?;
        }
        Ok(Self { positions, rows })
    }

    /// How many rows.
    pub fn count(&self) -> usize {
        self.positions.len()
    }

    /// How many rows the table has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of the rows.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Copies the table's rows at some of the positions to `out`, one after another.
    ///
    /// # Safety
    /// `table` holds `rows() * width` readable bytes, and `out` as many rows as `range`, writable;
    /// they do not overlap, and no other thread writes them meanwhile. `range` lies in `0..count()`.
    pub unsafe fn gather(&self, table: *const u8, width: usize, out: *mut u8, range: Range<usize>) {
        let (table, out) = (Address(table as usize), Address(out as usize));
        self.each(width, range, |row, position| {
            let from = table.row(row, width) as *const u8;
            // SAFETY: `row` lies in the table and `position` in the range, as was promised.
            unsafe { std::ptr::copy_nonoverlapping(from, out.row(position, width), width) };
        });
    }

    /// Copies rows that stand one after another to the table, at some of the positions.
    ///
    /// # Safety
    /// As `gather`, with `table` the one that is written.
    pub unsafe fn scatter(
        &self,
        src: *const u8,
        width: usize,
        table: *mut u8,
        range: Range<usize>,
    ) {
        let (table, src) = (Address(table as usize), Address(src as usize));
        self.each(width, range, |row, position| {
            let from = src.row(position, width) as *const u8;
            // SAFETY: as above; no two positions name one row, so threads write different ones.
            unsafe { std::ptr::copy_nonoverlapping(from, table.row(row, width), width) };
        });
    }

    /// Calls `copy(row, position in the range)` for all positions, on all cores if that pays.
    fn each(&self, width: usize, range: Range<usize>, copy: impl Fn(usize, usize) + Sync) {
        let chosen = &self.positions[range];
        if chosen.len() * width < PARALLEL_BYTES || !pool_is_usable() {
            chosen.iter().enumerate().for_each(|(p, &row)| copy(row, p));
            return;
        }
        let chunk = (CHUNK_BYTES / width).max(1);
        chosen.par_chunks(chunk).enumerate().for_each(|(i, rows)| {
            for (p, &row) in rows.iter().enumerate() {
                copy(row, i * chunk + p);
            }
        });
    }
}

/// An address that threads may share; `gather` and `scatter` say what is there.
#[derive(Clone, Copy)]
struct Address(usize);

impl Address {
    fn row(self, index: usize, width: usize) -> *mut u8 {
        (self.0 + index * width) as *mut u8
    }
}

/// Positions of rows in a table, all within it; duplicates are allowed.
pub fn checked(ids: impl Iterator<Item = i64>, rows: usize) -> Result<Vec<usize>, BadRow> {
    let mut positions = Vec::with_capacity(ids.size_hint().0);
    for (position, value) in ids.enumerate() {
        if value as u64 >= rows as u64 {
            return Err(BadRow::Outside { position, value });
        }
        positions.push(value as usize);
    }
    Ok(positions)
}

/// A bit per row is quicker than a hash table, unless there are so many that they leave the cache.
const MOST_BITS: usize = 1 << 21;

fn check_distinct(positions: &[usize], rows: usize) -> Result<(), BadRow> {
    if rows <= MOST_BITS && rows / 256 <= positions.len() {
        let mut bits = vec![0_u64; rows.div_ceil(64)];
        return first_repeated(positions, |_, row| {
            let (word, bit) = (&mut bits[row / 64], 1 << (row % 64));
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        });
    }
    let mut seen = RowSet::with_capacity(positions.len());
    first_repeated(positions, |position, row| {
        seen.insert(row, position as u32, |earlier| positions[earlier] == row) == position as u32
    })
}

fn first_repeated(
    positions: &[usize],
    mut is_new: impl FnMut(usize, usize) -> bool,
) -> Result<(), BadRow> {
    for (position, &row) in positions.iter().enumerate() {
        if !is_new(position, row) {
            let value = row as i64;
            return Err(BadRow::Repeated { position, value });
        }
    }
    Ok(())
}

/// The numbers that rows were given: an open hash table, cheaper than std's as its keys are
/// integers that an attacker gains nothing by choosing to collide. The rows themselves are kept by
/// whoever numbers them, so that the table is small.
struct RowSet {
    slots: Vec<u32>,
    shift: u32,
}

const EMPTY: u32 = u32::MAX;

impl RowSet {
    fn with_capacity(rows: usize) -> Self {
        let slots = (rows.max(4) * 4).next_power_of_two();
        Self {
            slots: vec![EMPTY; slots],
            shift: 64 - slots.trailing_zeros(),
        }
    }

    /// The number of `row`, which `is_same` tells from others; `number`, if it was not in the set.
    #[inline(always)]
    fn insert(&mut self, row: usize, number: u32, is_same: impl Fn(usize) -> bool) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = ((row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            let held = &mut self.slots[slot];
            if *held == EMPTY {
                *held = number;
                return number;
            }
            if is_same(*held as usize) {
                return *held;
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// The different ids of a batch, grouped by the part of the table that they lie in.
#[derive(Debug, PartialEq, Eq)]
pub struct UniqueIds {
    /// Counted from the start of each id's part, in the order in which they first appear.
    pub ids: Vec<i64>,
    /// For each id of the batch, where `ids` holds it.
    pub inverse: Vec<i32>,
    /// How many of `ids` lie in each part.
    pub counts: Vec<usize>,
}

/// Finds the different ids. `bounds` holds the first row of each part and the end of the last.
pub fn unique_ids(batch: impl Iterator<Item = i64>, bounds: &[i64]) -> Result<UniqueIds, BadRow> {
    let parts = bounds.len() - 1;
    let (first, end) = (bounds[0], bounds[parts]);
    let expected = batch.size_hint().0;
    let mut seen = RowSet::with_capacity(expected);
    let (mut found, mut inverse) = (Vec::with_capacity(expected), Vec::with_capacity(expected));
    for (position, value) in batch.enumerate() {
        if value < first || value >= end {
            return Err(BadRow::Outside { position, value });
        }
        let own = value - first;
        let number = seen.insert(own as usize, found.len() as u32, |held| found[held] == own);
        if number as usize == found.len() {
            found.push(own);
        }
        inverse.push(number as i32);
    }
    if parts == 1 {
        let counts = vec![found.len()];
        return Ok(UniqueIds {
            ids: found,
            inverse,
            counts,
        });
    }
    Ok(grouped(found, inverse, bounds))
}

/// Puts ids, which are counted from the first part's first row, into the order of their parts.
fn grouped(found: Vec<i64>, mut inverse: Vec<i32>, bounds: &[i64]) -> UniqueIds {
    let parts = bounds.len() - 1;
    let of = |own: i64| bounds[1..parts].partition_point(|&start| start <= own + bounds[0]);
    let mut counts = vec![0; parts];
    found.iter().for_each(|&own| counts[of(own)] += 1);
    let mut next: Vec<usize> = Vec::with_capacity(parts);
    counts.iter().fold(0, |start, &count| {
        next.push(start);
        start + count
    });
    let mut ids = vec![0; found.len()];
    let mut places = vec![0; found.len()];
    for (place, &own) in places.iter_mut().zip(&found) {
        let part = of(own);
        ids[next[part]] = own + bounds[0] - bounds[part];
        *place = next[part] as i32;
        next[part] += 1;
    }
    inverse.iter_mut().for_each(|i| *i = places[*i as usize]);
    UniqueIds {
        ids,
        inverse,
        counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ids: &[i64], rows: usize) -> Result<DistinctRows, BadRow> {
        DistinctRows::new(ids.iter().copied(), rows)
    }

    #[test]
    fn what_was_gathered_is_scattered_back() {
        for (count, width) in [(5, 3), (4000, 600)] {
            let ids: Vec<i64> = (0..count).map(|i| (i * 7 + 3) % (count * 2)).collect();
            let distinct = rows(&ids, 2 * count as usize).unwrap();
            let table: Vec<u8> = (0..2 * count as usize * width)
                .map(|i| (i % 251) as u8)
                .collect();
            let mut gathered = vec![0; count as usize * width];
            let mut copy = vec![0; table.len()];
            // SAFETY: the vectors have these sizes.
            unsafe {
                distinct.gather(
                    table.as_ptr(),
                    width,
                    gathered.as_mut_ptr(),
                    0..distinct.count(),
                );
                distinct.scatter(
                    gathered.as_ptr(),
                    width,
                    copy.as_mut_ptr(),
                    0..distinct.count(),
                );
            }
            for (i, row) in gathered.chunks(width).enumerate() {
                let start = ids[i] as usize * width;
                assert_eq!(row, &table[start..start + width]);
                assert_eq!(row, &copy[start..start + width]);
            }
            let untouched = copy
                .chunks(width)
                .filter(|row| row.iter().all(|&b| b == 0))
                .count();
            assert!(untouched >= count as usize);
        }
    }

    #[test]
    fn rows_outside_or_twice_are_named() {
        let name = |ids: &[i64]| rows(ids, 9).err();
        assert_eq!(
            name(&[1, 2, 9]),
            Some(BadRow::Outside {
                position: 2,
                value: 9
            })
        );
        assert_eq!(
            name(&[1, -1]),
            Some(BadRow::Outside {
                position: 1,
                value: -1
            })
        );
        assert_eq!(
            name(&[1, 3, 1]),
            Some(BadRow::Repeated {
                position: 2,
                value: 1
            })
        );
        assert_eq!(
            name(&[4, 4]),
            Some(BadRow::Repeated {
                position: 1,
                value: 4
            })
        );
        assert_eq!(name(&[8, 0, 3]), None);
    }

    #[test]
    fn unique_ids_are_grouped_by_part() {
        let batch = [7, 2, 7, 9, 0, 2];
        let unique = unique_ids(batch.into_iter(), &[0, 5, 5, 10]).unwrap();
        assert_eq!(unique.ids, [2, 0, 2, 4]);
        assert_eq!(unique.counts, [2, 0, 2]);
        assert_eq!(unique.inverse, [2, 0, 2, 3, 1, 0]);
        let outside = unique_ids([3, 10].into_iter(), &[0, 10]);
        assert_eq!(
            outside,
            Err(BadRow::Outside {
                position: 1,
                value: 10
            })
        );
    }
}
