//! Tensors as `TensorProto` messages, which `tf.io.serialize_tensor` writes.

pub mod kind;
pub mod parse;
pub mod write;

#[cfg(test)]
mod tests;
