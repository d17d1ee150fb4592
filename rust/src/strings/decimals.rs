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
    #[inline]
    pub fn of(text: &[u8]) -> Option<Self> {
        let (negative, rest) = match text.first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest.len() > MOST {
            return None;
        }
        let (mut digits, mut after) = (0, None);
        for (place, &byte) in rest.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                digits = digits * 10 + u64::from(digit);
            } else if byte == b'.' && after.is_none() {
                after = Some(rest.len() - 1 - place);
            } else {
                return None;
            }
        }
        let count = rest.len() - usize::from(after.is_some());
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
        Some(if self.negative { -magnitude } else { magnitude })
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
