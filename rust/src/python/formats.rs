//! Readers and writers of files and messages, for Python.

pub mod checksum;
pub mod csv;
pub mod examples;
pub mod messages;
pub mod records;
pub mod source;
pub mod tar;
pub mod tensors;
pub mod wav;
pub mod whole_files;
