//! Short decimal numbers, as most numbers in files are: exactly what the standard library reads, in
//! a fraction of its time.

/// As many digits as an `i64` surely holds.
const MOST: usize = 18;

/// Whole numbers up to this one are floats of 64 bits, and so are powers of ten up to `MOST`: their
/// quotient is rounded once.
const EXACT: u64 = 1 << 53;

const POWERS: [f64; MOST] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17,
];

/// A sign, digits, and perhaps a point among them.
pub struct Decimal {
    pub negative: bool,
    digits: u64,
    /// How many digits come after the point, if there is one.
    after: Option<usize>,
}

impl Decimal {
    /// What the text says, if it is such a number and a short one.
    #[inline(always)]
    pub fn of(text: &[u8]) -> Option<Self> {
        // Every second number may be negative: to branch for signs takes longer than all the rest.
        let first = *text.first()?;
        let negative = first == b'-';
        let rest = &text[usize::from(negative | (first == b'+'))..];
        let (count, digits, after) = match rest.len() {
            1..=8 => short(rest)?,
            9..=16 => longer(rest)?,
            _ => longest(rest)?,
        };
        (count > 0).then_some(Self {
            negative,
            digits,
            after,
        })
    }

    /// The number, if it is written without a point.
    #[inline]
    pub fn integer(&self) -> Option<i64> {
        let magnitude = i64::try_from(self.digits).ok()?;
        let number = if self.negative { -magnitude } else { magnitude };
        self.after.is_none().then_some(number)
    }

    /// The nearest float.
    #[inline]
    pub fn double(&self) -> Option<f64> {
        let scale = *POWERS.get(self.after.unwrap_or(0))?;
        let magnitude = (self.digits <= EXACT).then(|| self.digits as f64 / scale)?;
        let sign = u64::from(self.negative) << 63;
        Some(f64::from_bits(magnitude.to_bits() | sign))
    }

    /// The nearest float of 32 bits.
    ///
    /// It is the one nearest to the float of 64 bits, unless that was rounded to the middle of two.
    #[inline]
    pub fn single(&self) -> Option<f32> {
        const DROPPED: u64 = (1 << 29) - 1;
        const MIDDLE: u64 = 1 << 28;
        let number = self.double()?;
        (number.to_bits() & DROPPED != MIDDLE).then_some(number as f32)
    }
}

/// How many digits there are, the number they are, and how many of them come after the point.
type Digits = (usize, u64, Option<usize>);

/// Of up to 8 bytes, all at once.
#[inline(always)]
fn short(text: &[u8]) -> Option<Digits> {
    let (bytes, mut count) = (word(text), text.len());
    let (mut digits, mut after) = (bytes, None);
    let point = first_point(bytes);
    if point < 8 {
        // The digits after the point move to its place.
        let low = !(u64::MAX << (8 * point));
        digits = (bytes & low) | ((bytes >> (8 * point) >> 8) << (8 * point));
        count -= 1;
        after = Some(count - point);
    }
    if count == 0 {
        return None;
    }
    let zeros = 8 * (8 - count);
    let aligned = (digits << zeros) | (ZEROS & !(u64::MAX << zeros));
    are_digits(aligned).then(|| (count, number(aligned), after))
}

/// Of 9 to 16 bytes.
#[inline(always)]
fn longer(text: &[u8]) -> Option<Digits> {
    let mut count = text.len();
    let bytes = u128::from(word(&text[..8])) | (u128::from(word(&text[8..])) << 64);
    let (mut digits, mut after) = (bytes, None);
    let point = match first_point(bytes as u64) {
        8 => 8 + first_point((bytes >> 64) as u64),
        point => point,
    };
    if point < 16 {
        let low = !(u128::MAX << (8 * point));
        digits = (bytes & low) | ((bytes >> (8 * point) >> 8) << (8 * point));
        count -= 1;
        after = Some(count - point);
    }
    let zeros = 8 * (16 - count);
    let all = (u128::from(ZEROS) << 64) | u128::from(ZEROS);
    let aligned = (digits << zeros) | (all & !(u128::MAX << zeros));
    let (first, second) = (aligned as u64, (aligned >> 64) as u64);
    let whole = are_digits(first) && are_digits(second);
    whole.then(|| (count, number(first) * 100_000_000 + number(second), after))
}

/// Of up to 18 bytes, one by one.
fn longest(text: &[u8]) -> Option<Digits> {
    if text.len() > MOST {
        return None;
    }
    let (mut digits, mut after) = (0, None);
    for (place, &byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            digits = digits * 10 + u64::from(digit);
        } else if byte == b'.' && after.is_none() {
            after = Some(text.len() - 1 - place);
        } else {
            return None;
        }
    }
    Some((text.len() - usize::from(after.is_some()), digits, after))
}

const ONES: u64 = 0x0101_0101_0101_0101;
const ZEROS: u64 = ONES * b'0' as u64;

/// Up to 8 bytes, the first the lowest; those that are not there are 0.
#[inline(always)]
fn word(text: &[u8]) -> u64 {
    let half = |from: usize| {
        let four = text[from..].first_chunk().copied().unwrap_or_default();
        u64::from(u32::from_le_bytes(four))
    };
    match text.len() {
        0 => 0,
        length @ 1..=3 => {
            let byte = |place: usize| u64::from(text[place]) << (8 * place);
            byte(0) | byte(length / 2) | byte(length - 1)
        }
        length @ 4..=7 => half(0) | (half(length - 4) << (8 * (length - 4))),
        _ => half(0) | (half(4) << 32),
    }
}

/// The place of the first point; 8 if there is none.
#[inline(always)]
fn first_point(bytes: u64) -> usize {
    let others = bytes ^ (ONES * u64::from(b'.'));
    // The lowest of these bits belongs to the lowest byte that is 0.
    let found = others.wrapping_sub(ONES) & !others & (ONES << 7);
    found.trailing_zeros() as usize / 8
}

#[inline(always)]
fn are_digits(bytes: u64) -> bool {
    let high = ONES * 0xf0;
    let carried = bytes.wrapping_add(ONES * 6) & high;
    ((bytes & high) | (carried >> 4)) == ONES * 0x33
}

/// Of 8 digits, neighbours are put together: to pairs, to fours, to one.
#[inline(always)]
fn number(digits: u64) -> u64 {
    let values = digits.wrapping_sub(ZEROS);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let every_second = 0x0000_00ff_0000_00ff;
    let high = (pairs & every_second).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & every_second).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::rng::mix64;

    #[test]
    fn bytes_at_once_are_what_they_are_one_by_one() {
        let alphabet =
            b"0123456789012345678901234567890123456789012345678901234567890123456789..-/: \0";
        let mut numbers = [0; 20];
        for seed in 0..100_000u64 {
            let length = mix64(seed, 0) as usize % 20;
            let byte = |place| alphabet[mix64(seed, 1 + place) as usize % alphabet.len()];
            let text: Vec<u8> = (0..length as u64).map(byte).collect();
            let found = Decimal::of(&text).map(|it| (it.negative, it.digits, it.after));
            let negative = text.first() == Some(&b'-');
            let wanted = longest(&text[usize::from(negative)..]);
            let wanted = wanted.filter(|&(count, ..)| count > 0);
            let wanted = wanted.map(|(_, digits, after)| (negative, digits, after));
            assert_eq!(found, wanted, "{text:?}");
            numbers[length] += u32::from(found.is_some());
        }
        assert!(
            numbers[1..19].iter().all(|&count| count > 100),
            "{numbers:?}"
        );
    }
}
