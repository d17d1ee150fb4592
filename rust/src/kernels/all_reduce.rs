//! Sums over the devices of all processes of one machine, through memory that they share.
//!
//! Each device is a rank. A rank copies pieces of its numbers into slots of its own and counts them.
//! When all have counted a piece, it adds up the slots of all, in the order of the ranks, so that
//! every rank gets the same bits, and counts the piece as read. A slot is filled again when all have
//! read it.

pub mod counters;
pub mod denormals;
mod futex;
pub mod layout;
pub mod line;
pub mod numbers;
pub mod operands;
pub mod reduction;
pub mod segment;
#[cfg(test)]
mod tests;
