//! Packed variable-length integers.

use super::defect::Malformed;
use super::wire::Cursor;

const LAST: u64 = 0x8080_8080_8080_8080;

/// How many integers the bytes hold: those without a continuation bit end one.
pub fn count(packed: &[u8]) -> usize {
    let ends = |bytes: &[u8]| bytes.iter().map(|&byte| byte >> 7 ^ 1).sum::<u8>();
    // A chunk's sum fits a byte, so that bytes are added as bytes.
    packed.chunks(255).map(|part| usize::from(ends(part))).sum()
}

/// Appends the integers of a packed field.
pub fn decode(mut packed: Cursor<'_>, out: &mut Vec<i64>) -> Result<(), Malformed> {
    while let Some(&first) = packed.rest().first() {
        if first < 0x80 {
            out.push(i64::from(first));
            packed.pass(1);
            continue;
        }
        let word = packed.rest().first_chunk().map(|c| u64::from_le_bytes(*c));
        match word.map(|word| (word, !word & LAST)) {
            Some((word, ends)) if ends != 0 => {
                let bits = ends.trailing_zeros() + 1;
                out.push(joined(word & (u64::MAX >> (64 - bits))) as i64);
                packed.pass(bits as usize / 8);
            }
            _ => out.push(packed.varint()? as i64),
        }
    }
    Ok(())
}

/// The low seven bits of each byte, put together.
#[inline(always)]
fn joined(bytes: u64) -> u64 {
    let sevens = bytes & !LAST;
    let pairs = (sevens & 0x7f00_7f00_7f00_7f00) >> 1 | (sevens & 0x007f_007f_007f_007f);
    let fours = (pairs & 0x3fff_0000_3fff_0000) >> 2 | (pairs & 0x0000_3fff_0000_3fff);
    (fours & 0x0fff_ffff_0000_0000) >> 4 | (fours & 0x0000_0000_0fff_ffff)
}
