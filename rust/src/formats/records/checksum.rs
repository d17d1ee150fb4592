//! TensorFlow's masked CRC32C.

const MASK: u32 = 0xa282_ead8;

/// The CRC32C of `bytes`, rotated and shifted, so that a CRC may be computed of data with CRCs in it.
pub fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}
