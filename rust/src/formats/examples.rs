//! `tf.train.Example` and `SequenceExample` messages: bytes of many records in, columns out.
//!
//! Nothing here trusts a length: every byte is checked to be there, and memory follows from the
//! bytes of the records and from what the caller asked for. A record that cannot be parsed is a
//! failure which names the feature and the byte.

pub mod column;
pub mod decode;
pub mod defect;
pub mod encode;
pub mod locate;
pub mod owned;
pub mod parse;
pub mod quick;
pub mod rows;
pub mod schema;
pub mod target;
pub mod wire;

#[cfg(test)]
mod layout_tests;
#[cfg(test)]
mod tests;
