//! Tar archives (POSIX ustar and pax, GNU long names) read as samples: members that follow one
//! another and have their names in common up to the first dot.
//!
//! Nothing here trusts a size: memory grows with the bytes that have come, up to a limit.

pub mod archive;
pub mod defect;
pub mod header;
pub mod samples;

#[cfg(test)]
mod tests;
