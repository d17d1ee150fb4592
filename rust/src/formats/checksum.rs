//! CRC32C, which processors have an instruction for: the checksum of checkpoints and stored rows.

/// So many bytes are copied at a time: they stay in the cache, and are twice what the crate takes in
/// three streams.
const PIECE_NBYTES: usize = 48 << 10;

/// The CRC32C of bytes, after those of which `before` is the CRC32C.
///
/// # Safety
/// `length` bytes from `start` can be read. Another thread may write them meanwhile: then the result
/// is that of bytes that were there at some time each, since a piece is copied and read as a copy.
pub unsafe fn crc32c(start: *const u8, length: usize, before: u32) -> u32 {
    let mut piece = [0_u8; PIECE_NBYTES];
    let mut found = before;
    for at in (0..length).step_by(PIECE_NBYTES) {
        let size = PIECE_NBYTES.min(length - at);
        // SAFETY: both ends are within the caller's bytes and within `piece`, which is our own.
        unsafe { std::ptr::copy_nonoverlapping(start.add(at), piece.as_mut_ptr(), size) };
        found = crc32c::crc32c_append(found, &piece[..size]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], before: u32) -> u32 {
        // SAFETY: the slice's own bytes.
        unsafe { crc32c(bytes.as_ptr(), bytes.len(), before) }
    }

    #[test]
    fn known_values() {
        // RFC 3720, B.4.
        assert_eq!(of(&[], 0), 0);
        assert_eq!(of(&[0; 32], 0), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32], 0), 0x62a8_ab43);
        assert_eq!(of(b"123456789", 0), 0xe306_9283);
    }

    #[test]
    fn pieces_are_as_the_whole() {
        let bytes: Vec<u8> = (0..3 * PIECE_NBYTES + 5)
            .map(|i| ((i * i) >> 3) as u8)
            .collect();
        let whole = crc32c::crc32c(&bytes);
        for cut in [
            0,
            1,
            PIECE_NBYTES - 1,
            PIECE_NBYTES,
            2 * PIECE_NBYTES + 7,
            bytes.len(),
        ] {
            assert_eq!(of(&bytes[cut..], of(&bytes[..cut], 0)), whole);
        }
    }
}
