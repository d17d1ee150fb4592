//! The targets of `make fuzz`.

#[path = "../../fuzz/cases/csv.rs"]
pub mod csv;
#[path = "../../fuzz/cases/example_messages.rs"]
pub mod example_messages;
#[path = "../../fuzz/cases/images.rs"]
pub mod images;
#[path = "../../fuzz/cases/records.rs"]
pub mod records;
#[path = "../../fuzz/cases/strings.rs"]
pub mod strings;
#[path = "../../fuzz/cases/tar.rs"]
pub mod tar;
#[path = "../../fuzz/cases/tensors.rs"]
pub mod tensors;
#[path = "../../fuzz/cases/values.rs"]
pub mod values;
#[path = "../../fuzz/cases/wav.rs"]
pub mod wav;
