//! Records that are strings of their own, as `tf.io.decode_csv` takes them.

use super::columns::Column;
use super::layout::Layout;
use super::problem::{Defect, Flaw};
use super::record;
use super::scan::{field, Place};

/// Appends a record's values to the columns. If something is wrong with it they keep none of them.
///
/// Line breaks before a field are passed over; a quoted field may hold them, another may not.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(
    text: &[u8],
    layout: &Layout,
    places: &mut Vec<Place>,
    columns: &mut [Column],
    row: usize,
) -> Result<(), Defect> {
    places.clear();
    let mut start = after_breaks(text, 0);
    while start < text.len() {
        let (mut place, end) = field(text, start, layout.delimiter, layout.quotes);
        let stop = text.get(end).is_some_and(|&byte| byte != layout.delimiter);
        if stop && place.flaw.is_none() {
            place.flaw = Some(match text[start] {
                b'"' if layout.quotes => Flaw::QuoteNotDoubled,
                _ => Flaw::LineBreak,
            });
        }
        places.push(place);
        start = if stop {
            text.len()
        } else {
            after_breaks(text, end + 1)
        };
    }
    if text.last() == Some(&layout.delimiter) {
        places.push(Place::plain(text.len()..text.len(), None));
    }
    record::read(text, places, layout, columns, row)
}

fn after_breaks(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let step = rest.iter().position(|&byte| byte != b'\n' && byte != b'\r');
    from.min(text.len()) + step.unwrap_or(rest.len())
}
