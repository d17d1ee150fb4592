//! From the fields of one record to its values.

use super::columns::{append, Column};
use super::layout::{Chosen, Layout};
use super::problem::{Defect, Problem};
use super::scan::Place;

/// Appends a record's values to the columns. If something is wrong with it they keep none of them.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(
    record: &[u8],
    places: &[Place],
    layout: &Layout,
    columns: &mut [Column],
    row: usize,
) -> Result<(), Defect> {
    let result = append_all(record, places, layout, columns);
    if result.is_err() {
        columns.iter_mut().for_each(|column| column.truncate(row));
    }
    result
}

fn append_all(
    record: &[u8],
    places: &[Place],
    layout: &Layout,
    columns: &mut [Column],
) -> Result<(), Defect> {
    let (mut read, mut passed) = (0, 0);
    for (number, place) in places.iter().enumerate() {
        let defect = |problem| Defect {
            problem,
            column: Some(number),
        };
        if let Some(flaw) = place.flaw {
            return Err(defect(Problem::Field(flaw)));
        }
        let wanted = match &layout.chosen {
            Chosen::All => true,
            Chosen::Only(only) => only.get(read) == Some(&number),
            Chosen::Without(without) => without.get(passed) != Some(&number),
        };
        if !wanted {
            passed += 1;
            continue;
        }
        let Some(field) = layout.fields.get(read) else {
            read = places.len() - passed;
            break;
        };
        let text = place.content(record);
        append(field, &text, &layout.missing, &mut columns[read]).map_err(defect)?;
        read += 1;
    }
    if read == layout.fields.len() {
        return Ok(());
    }
    let problem = Problem::Count {
        found: places.len(),
        wanted: wanted(layout),
    };
    Err(Defect {
        problem,
        column: None,
    })
}

/// How many fields a record must have at least.
fn wanted(layout: &Layout) -> usize {
    layout
        .fields
        .len()
        .checked_sub(1)
        .map_or(0, |last| layout.column(last) + 1)
}
