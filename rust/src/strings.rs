//! Functions of byte strings, as TensorFlow defines them.

pub mod chain;
pub mod changes;
mod decimals;
pub mod fingerprint;
pub mod ngrams;
pub mod numbers;
pub mod pattern;
pub mod print;
mod repetitions;
pub mod siphash;
pub mod split;
pub mod substring;
pub mod texts;
pub mod unicode;
pub mod utf8;
pub mod vectorize;
pub mod vocabulary;

#[cfg(test)]
mod tests;
