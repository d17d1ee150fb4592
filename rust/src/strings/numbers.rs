//! Numbers written as text, with TensorFlow's rules.
//!
//! White space around a number is allowed. Floating point numbers may be hexadecimal, and "inf",
//! "infinity", "nan" and "nan(...)" in any case; those too large for the type are infinite.

use super::decimals::Decimal;
use std::str::FromStr;

/// A number that text can stand for.
pub trait Number: Copy {
    /// The number, if the text is one.
    fn parse(text: &[u8]) -> Option<Self>;
}

/// Whether C's `isspace` holds.
pub fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The text without white space at its ends.
pub fn trimmed(text: &[u8]) -> &[u8] {
    match (text.first(), text.last()) {
        (Some(first), Some(last)) if is_space(first) || is_space(last) => {
            let start = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
            let end = text
                .iter()
                .rposition(|b| !is_space(b))
                .map_or(start, |last| last + 1);
            &text[start..end]
        }
        _ => text,
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            #[inline]
            fn parse(text: &[u8]) -> Option<Self> {
                let short = Decimal::of(text).filter(|short| Self::MIN != 0 || !short.negative);
                if let Some(number) = short.and_then(|short| short.integer()) {
                    return Self::try_from(number).ok();
                }
                let text = std::str::from_utf8(trimmed(text)).ok()?;
                Self::from_str(text).ok()
            }
        }
    )*};
}

integers!(i32, i64, u32, u64);

macro_rules! floats {
    ($($kind:ty, $of:ident);*) => {$(
        impl Number for $kind {
            #[inline]
            fn parse(text: &[u8]) -> Option<Self> {
                if let Some(number) = Decimal::of(text).and_then(|short| short.$of()) {
                    return Some(number);
                }
                let text = std::str::from_utf8(trimmed(text)).ok()?;
                match Self::from_str(text) {
                    Ok(number) => Some(number),
                    Err(_) => unusual(text).map(|number| number as Self),
                }
            }
        }
    )*};
}

floats!(f32, single; f64, double);

/// What Rust does not read as a number, and C's `strtod` does.
fn unusual(text: &str) -> Option<f64> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = rest.to_ascii_lowercase();
    let magnitude = match lower.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits)?,
        None => not_a_number(&lower)?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn not_a_number(text: &str) -> Option<f64> {
    let inner = text.strip_prefix("nan(")?.strip_suffix(')')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    inner.bytes().all(word).then_some(f64::NAN)
}

fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once('p') {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() || whole.len() + part.len() > 13 {
        // More digits than a double has could need rounding.
        return None;
    }
    let mut mantissa = 0u64;
    for digit in whole.chars().chain(part.chars()) {
        mantissa = mantissa << 4 | u64::from(digit.to_digit(16)?);
    }
    let scale = exponent.checked_sub(4 * i32::try_from(part.len()).ok()?)?;
    Some(mantissa as f64 * f64::from(scale.clamp(-2000, 2000)).exp2())
}
