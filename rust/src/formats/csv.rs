//! Comma-separated values: bytes to columns of one type each, by the rules of TensorFlow's readers.

pub mod columns;
pub mod layout;
mod marks;
pub mod problem;
pub mod reader;
pub mod record;
mod regular;
pub mod scan;
pub mod single;

#[cfg(test)]
mod tests;
