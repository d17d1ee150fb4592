//! `TensorProto`: whatever a message is, it has the values that its shape needs, or a defect.

use _core::formats::tensors::kind::{Kind, STRING};
use _core::formats::tensors::parse::{parse, MOST_FILLED};
use _core::formats::tensors::write;

/// Of larger tensors no values are made, which would take most of the time.
const MOST_ITEMS: usize = 1 << 16;

pub fn run(bytes: &[u8]) {
    let [number, message @ ..] = bytes else {
        return;
    };
    let Some(kind) = Kind::of(u64::from(number % 24)) else {
        return;
    };
    let tensor = match parse(message, kind) {
        Ok(tensor) => tensor,
        Err(defect) => return assert!(!defect.to_string().is_empty()),
    };
    let sizes = tensor.dims.iter().map(|&dim| usize::try_from(dim));
    let items: usize = sizes
        .map(|size| size.expect("no dimension below 0"))
        .product();
    if kind.number == STRING {
        assert!(items <= message.len().max(MOST_FILLED / 8));
    } else {
        assert_eq!(tensor.size(), items * kind.width);
        assert!(tensor.size() <= message.len().max(MOST_FILLED));
    }
    if items > MOST_ITEMS {
        return;
    }
    if kind.number == STRING {
        let strings: Vec<&[u8]> = tensor.strings().collect();
        assert_eq!(strings.len(), items);
        let again = write::strings(&tensor.dims, strings.iter().copied());
        let again = parse(&again, kind).expect("what was written");
        assert!(again.strings().eq(strings.iter().copied()));
        return;
    }
    let mut values = Vec::new();
    tensor.write(&mut values);
    assert_eq!(values.len(), tensor.size());
    let before = write::before_numbers(kind, &tensor.dims, values.len());
    let mut again = Vec::new();
    let written = [before, values.clone()].concat();
    parse(&written, kind)
        .expect("what was written")
        .write(&mut again);
    assert_eq!(again, values);
}
