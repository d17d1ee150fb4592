//! Tables of parameter servers: rows read, updated by optimizers' rules, and found by id.

pub mod rows;
pub mod scatter_gather;
pub mod several;
pub mod slots;
pub mod span;
pub mod update_rules;
