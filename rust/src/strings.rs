//! Functions of byte strings, as TensorFlow defines them.

pub mod chain;
pub mod changes;
pub mod fingerprint;
pub mod ngrams;
pub mod numbers;
pub mod pattern;
pub mod print;
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
