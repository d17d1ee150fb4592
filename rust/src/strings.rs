//! Functions of byte strings, as TensorFlow defines them.

pub mod chain;
mod decimals;
pub mod fingerprint;
pub mod ngrams;
pub mod numbers;
pub mod pattern;
mod repetitions;
pub mod split;
pub mod substring;
pub mod texts;
pub mod unicode;
pub mod vectorize;
pub mod vocabulary;

#[cfg(test)]
mod tests;
