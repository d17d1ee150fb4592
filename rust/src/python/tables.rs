//! Rows of tables by position and by id, and their updates, for Python.

pub mod rows;
pub mod scatter_gather;
pub mod several;
pub mod slots;
