//! Rows of tables by position and by id, and their updates, for Python.

pub mod rows;
pub mod several;
pub mod slots;
pub mod spread;
