//! Rows of tables by position: gathered for each id of a batch, summed by id, scattered into a table.

use crate::blocks::gather::BadIndex;

/// A place that stands for no row.
#[derive(Debug, PartialEq, Eq)]
pub struct BadPlace {
    pub position: usize,
    pub value: i64,
}

/// Rows of one width that lie one after another in several blocks of memory.
pub struct Blocks {
    rows: Vec<usize>,
}

impl Blocks {
    /// Of blocks that begin at these addresses and hold so many rows of `width` bytes.
    pub fn new(blocks: impl Iterator<Item = (usize, usize)>, width: usize) -> Self {
        let rows = blocks
            .flat_map(|(start, count)| (0..count).map(move |row| start + row * width))
            .collect();
        Self { rows }
    }

    /// Where each place's row lies.
    fn at(&self, places: &[i64]) -> Result<Vec<usize>, BadPlace> {
        let of = |(position, &value): (usize, &i64)| {
            let row = usize::try_from(value).ok().and_then(|v| self.rows.get(v));
            row.copied().ok_or(BadPlace { position, value })
        };
        places.iter().enumerate().map(of).collect()
    }

    /// Copies the row of each place to `out`. It is untouched when a place is bad.
    ///
    /// # Safety
    /// The blocks are readable, `out` holds a writable row for each place and overlaps none of
    /// them, and no thread writes them meanwhile.
    pub unsafe fn gather(
        &self,
        places: &[i64],
        width: usize,
        out: *mut u8,
    ) -> Result<(), BadPlace> {
        for (position, row) in self.at(places)?.into_iter().enumerate() {
            // SAFETY: `row` lies in a block, and `position` in `out`.
            unsafe {
                std::ptr::copy_nonoverlapping(row as *const u8, out.add(position * width), width);
            }
        }
        Ok(())
    }

    /// Sets each row to the sum of the values of its places, in their order; zero if it has none.
    /// Rows are untouched when a place is bad.
    ///
    /// # Safety
    /// The blocks hold aligned, writable rows of `width` values, `values` as many readable ones for
    /// each place; they do not overlap, and no other thread writes them meanwhile.
    pub unsafe fn sum<T: Value>(
        &self,
        values: *const T,
        places: &[i64],
        width: usize,
    ) -> Result<(), BadPlace> {
        let rows = self.at(places)?;
        let mut is_set = vec![false; self.rows.len()];
        // SAFETY: handed on. Widths that the compiler knows are copied without a call.
        unsafe {
            match width {
                8 => add_rows(values, places, &rows, 8, &mut is_set),
                16 => add_rows(values, places, &rows, 16, &mut is_set),
                32 => add_rows(values, places, &rows, 32, &mut is_set),
                64 => add_rows(values, places, &rows, 64, &mut is_set),
                _ => add_rows(values, places, &rows, width, &mut is_set),
            }
        }
        for (&row, _) in self.rows.iter().zip(&is_set).filter(|(_, &set)| !set) {
            // SAFETY: as above; zero bytes are a zero.
            unsafe { std::ptr::write_bytes(row as *mut T, 0, width) };
        }
        Ok(())
    }
}

/// Sets the row of each place to its value if it is the first, and adds it otherwise.
///
/// # Safety
/// Each of `rows` is that of its place, as `Blocks::sum` has it.
#[inline(always)]
unsafe fn add_rows<T: Value>(
    values: *const T,
    places: &[i64],
    rows: &[usize],
    width: usize,
    is_set: &mut [bool],
) {
    for (position, (&place, &row)) in places.iter().zip(rows).enumerate() {
        // SAFETY: `row` lies in a block and `position` in `values`, as was promised.
        let (added, sum) = unsafe {
            (
                std::slice::from_raw_parts(values.add(position * width), width),
                std::slice::from_raw_parts_mut(row as *mut T, width),
            )
        };
        if std::mem::replace(&mut is_set[place as usize], true) {
            sum.iter_mut().zip(added).for_each(|(sum, &v)| *sum += v);
        } else {
            sum.copy_from_slice(added);
        }
    }
}

/// What can be summed.
pub trait Value: Copy + std::ops::AddAssign {}

impl Value for f32 {}
impl Value for f64 {}

/// Sets the rows of `table` at `places` to those of `rows`, all of `width` bytes. The table is
/// untouched when a place is none of its.
pub fn scatter(
    rows: &[u8],
    places: &[i64],
    table: &mut [u8],
    width: usize,
) -> Result<(), BadIndex> {
    let count = table.len().checked_div(width).unwrap_or(usize::MAX);
    let bad = |&value: &i64| usize::try_from(value).map_or(true, |place| place >= count);
    if let Some(position) = places.iter().position(bad) {
        let value = places[position];
        return Err(BadIndex { position, value });
    }
    match width {
        0 => {}
        4 => copy_rows::<4>(rows, places, table, 4),
        8 => copy_rows::<8>(rows, places, table, 8),
        _ => copy_rows::<0>(rows, places, table, width),
    }
    Ok(())
}

/// A width known to the compiler, not 0, makes each copy a single load and store.
#[inline(always)]
fn copy_rows<const WIDTH: usize>(rows: &[u8], places: &[i64], table: &mut [u8], width: usize) {
    let width = if WIDTH > 0 { WIDTH } else { width };
    for (row, &place) in rows.chunks_exact(width).zip(places) {
        let start = place as usize * width;
        table[start..start + width].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_of<T>(blocks: &mut [Vec<T>], width: usize) -> Blocks {
        let of = |block: &mut Vec<T>| (block.as_mut_ptr() as usize, block.len() / width);
        Blocks::new(blocks.iter_mut().map(of), width * size_of::<T>())
    }

    #[test]
    fn every_place_gets_its_row() {
        let mut blocks = [vec![1u8, 2, 3, 4], vec![], vec![5, 6]];
        let mut out = vec![0; 8];
        let rows = blocks_of(&mut blocks, 2);
        // SAFETY: the vectors live on, and `out` has a row for each place.
        let mut gather = |places: &[i64]| unsafe { rows.gather(places, 2, out.as_mut_ptr()) };
        assert_eq!(gather(&[2, 0, 2, 1]), Ok(()));
        for (position, value) in [(1, 3), (0, -1)] {
            let places = if position == 1 { [2, 3] } else { [-1, 0] };
            assert_eq!(gather(&places), Err(BadPlace { position, value }));
        }
        assert_eq!(out, [5, 6, 1, 2, 5, 6, 3, 4]);
    }

    #[test]
    fn values_of_one_place_are_summed_in_order() {
        let mut blocks = [vec![9f32; 3], vec![9.0; 1]];
        let values = [1e8f32, 1.0, 5.0, -1e8, 0.25];
        let rows = blocks_of(&mut blocks, 1);
        // SAFETY: the vectors live on.
        let sum = |places: &[i64]| unsafe { rows.sum(values.as_ptr(), places, 1) };
        let bad = Err(BadPlace {
            position: 4,
            value: 4,
        });
        assert_eq!(sum(&[0, 0, 3, 0, 4]), bad);
        assert_eq!(blocks, [vec![9.0; 3], vec![9.0]]);
        let rows = blocks_of(&mut blocks, 1);
        // SAFETY: as above.
        assert_eq!(
            unsafe { rows.sum(values.as_ptr(), &[0, 0, 3, 0, 1], 1) },
            Ok(())
        );
        assert_eq!(blocks, [vec![0.0, 0.25, 0.0], vec![5.0]]);
    }

    #[test]
    fn every_row_gets_to_its_place() {
        for width in [1usize, 4, 8, 13] {
            let rows: Vec<u8> = (0..3 * width as u8).collect();
            let mut table = vec![99; 5 * width];
            scatter(&rows, &[4, 0, 2], &mut table, width).unwrap();
            let row = |i: usize| table[i * width..(i + 1) * width].to_vec();
            assert_eq!([row(4), row(0), row(2)].concat(), rows);
            assert_eq!([row(1), row(3)].concat(), vec![99; 2 * width]);
        }
    }

    #[test]
    fn a_place_outside_is_named() {
        let mut table = [0; 4];
        for value in [2, -1] {
            let bad = scatter(&[1; 4], &[0, value], &mut table, 2);
            assert_eq!(bad, Err(BadIndex { position: 1, value }));
        }
        assert_eq!(table, [0; 4]);
        assert_eq!(scatter(&[], &[7], &mut [], 0), Ok(()));
    }
}
