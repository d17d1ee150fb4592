//! Copies rows to chosen places of a table.

use crate::blocks::gather::BadIndex;

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
        4 => copy::<4>(rows, places, table, 4),
        8 => copy::<8>(rows, places, table, 8),
        _ => copy::<0>(rows, places, table, width),
    }
    Ok(())
}

/// A width known to the compiler, not 0, makes each copy a single load and store.
#[inline(always)]
fn copy<const WIDTH: usize>(rows: &[u8], places: &[i64], table: &mut [u8], width: usize) {
    let width = if WIDTH > 0 { WIDTH } else { width };
    for (row, &place) in rows.chunks_exact(width).zip(places) {
        let start = place as usize * width;
        table[start..start + width].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
