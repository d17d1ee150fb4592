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

/// Fewer than 8 bytes, not none, as the lowest of an integer.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let low = u64::from(u32::from_le_bytes(*first));
        return low | u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
    }
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    at(0) | at(length / 2) | at(length - 1)
}

/// The integer that fills the lowest `length` bytes, 1 to 8; the others are 0.
#[inline(always)]
pub fn single(bytes: u64, length: usize) -> Option<i64> {
    let last = (!bytes & LAST).trailing_zeros() as usize / 8 + 1;
    (last == length).then(|| joined(bytes) as i64)
}

/// Sets `out` to the integers of a packed field; false if it has not as many.
#[inline]
pub fn fill(packed: &[u8], out: &mut [i64]) -> bool {
    let mut rest = packed;
    let mut out = out.iter_mut();
    while !rest.is_empty() {
        let (bytes, known) = match rest.first_chunk() {
            Some(chunk) => (u64::from_le_bytes(*chunk), u64::MAX),
            None => (short(rest), (1 << (8 * rest.len())) - 1),
        };
        let mut ends = !bytes & LAST & known;
        if ends == 0 {
            let mut one = Cursor::new(rest);
            let (Ok(value), Some(to)) = (one.varint(), out.next()) else {
                return false;
            };
            *to = value as i64;
            rest = one.rest();
            continue;
        }
        let used = 8 - ends.leading_zeros() as usize / 8;
        let mut left = bytes;
        while ends != 0 {
            let Some(to) = out.next() else {
                return false;
            };
            let last = ends.trailing_zeros();
            *to = joined(left & (u64::MAX >> (63 - last))) as i64;
            (left, ends) = (left >> last >> 1, ends >> last >> 1);
        }
        rest = &rest[used..];
    }
    out.next().is_none()
}

/// The low seven bits of each byte, put together.
#[inline(always)]
fn joined(bytes: u64) -> u64 {
    if bytes >> 32 == 0 {
        let sevens = bytes as u32 & !LAST as u32;
        let pairs = (sevens & 0x7f00_7f00) >> 1 | (sevens & 0x007f_007f);
        return ((pairs & 0x3fff_0000) >> 2 | (pairs & 0x3fff)).into();
    }
    let sevens = bytes & !LAST;
    let pairs = (sevens & 0x7f00_7f00_7f00_7f00) >> 1 | (sevens & 0x007f_007f_007f_007f);
    let fours = (pairs & 0x3fff_0000_3fff_0000) >> 2 | (pairs & 0x0000_3fff_0000_3fff);
    (fours & 0x0fff_ffff_0000_0000) >> 4 | (fours & 0x0000_0000_0fff_ffff)
}
