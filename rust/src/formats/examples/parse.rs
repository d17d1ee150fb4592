//! Columns of many records, on all cores if there is much to do.

use super::column::Column;
use super::defect::{Defect, Failure};
use super::rows::Rows;
use super::schema::Schema;
use super::target::Target;
use crate::blocks::gather::pool_is_usable;
use rayon::prelude::*;

/// Fewer bytes of records are parsed by one core.
const PARALLEL_BYTES: usize = 256 << 10;
const CHUNK_BYTES: usize = 64 << 10;

/// A map of features in a message: `features` of an `Example`, `context` and `feature_lists` of a
/// `SequenceExample`.
pub struct FeatureMap {
    /// The number of the message's field.
    pub field: u64,
    pub schema: Schema,
}

/// Where the numbers of each feature go of which every record has as many.
pub type Targets<'o> = Vec<Option<Target<'o>>>;

/// The columns of all features of all maps, with the records before the first that failed.
///
/// A feature with a target has no values in its column. There are no columns if there is no memory.
pub fn parse_into<'a>(
    maps: &'a [FeatureMap],
    records: &[&'a [u8]],
    targets: Targets,
) -> (Vec<Column<'a>>, Option<Failure>) {
    let size: usize = records.iter().map(|record| record.len()).sum();
    if size < PARALLEL_BYTES || !pool_is_usable() {
        return sequentially(maps, records, targets);
    }
    let rows = (records.len() * CHUNK_BYTES).div_ceil(size).max(1);
    let chunks: Vec<_> = records
        .par_chunks(rows)
        .zip(divided(targets, records.len(), rows))
        .map(|(chunk, targets)| sequentially(maps, chunk, targets))
        .collect();
    concat(chunks, rows)
}

/// The targets of each chunk of `rows` of `records` records.
fn divided<'o>(targets: Targets<'o>, records: usize, rows: usize) -> Vec<Targets<'o>> {
    let chunks = records.div_ceil(rows);
    let mut divided: Vec<Targets> = (0..chunks).map(|_| Vec::new()).collect();
    for target in targets {
        let mut rest = target;
        for (number, targets) in divided.iter_mut().enumerate() {
            let here = rows.min(records - number * rows);
            let (first, after) = rest.map(|target| target.split(here)).unzip();
            targets.push(first);
            rest = after;
        }
    }
    divided
}

fn sequentially<'a>(
    maps: &'a [FeatureMap],
    records: &[&'a [u8]],
    targets: Targets,
) -> (Vec<Column<'a>>, Option<Failure>) {
    let Some(mut rows) = Rows::new(maps, records.len(), targets) else {
        return (Vec::new(), Some(no_memory()));
    };
    let failure = records.iter().find_map(|record| rows.add(record).err());
    (rows.columns(), failure)
}

/// The chunks' columns up to the first failure; each chunk has `rows` records.
fn concat<'a>(
    chunks: Vec<(Vec<Column<'a>>, Option<Failure>)>,
    rows: usize,
) -> (Vec<Column<'a>>, Option<Failure>) {
    let mut all: Option<Vec<Column>> = None;
    for (number, (columns, failure)) in chunks.into_iter().enumerate() {
        let row = number * rows;
        match &mut all {
            None => all = Some(columns),
            Some(all) if columns.len() == all.len() => {
                if !all.iter_mut().zip(&columns).all(|(all, c)| all.append(c)) {
                    return (Vec::new(), Some(no_memory()));
                }
            }
            Some(_) => {}
        }
        if let Some(mut failure) = failure {
            failure.row += row;
            return (all.unwrap_or_default(), Some(failure));
        }
    }
    (all.unwrap_or_default(), None)
}

/// There are no columns.
pub fn no_memory() -> Failure {
    Failure {
        row: 0,
        feature: None,
        frame: None,
        offset: None,
        defect: Defect::Memory,
    }
}
