//! Formats of files and messages: parsed into columns, and written.

pub mod checksum;
pub mod csv;
pub mod examples;
pub mod records;
pub mod tar;
pub mod tensors;
pub mod wav;
pub mod whole_files;
