//! Numbers from text and as text, with TensorFlow's rules.
//!
//! When parsing, white space around a number is allowed. Floating point numbers may be hexadecimal,
//! and "inf", "infinity", "nan" and "nan(...)" in any case; those too large for the type are infinite.
//! Printing follows C's `printf`, by which TensorFlow's `as_string` is defined.

use super::decimals::Decimal;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
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

/// A way to write one argument: a conversion of C's with its flags and the length modifier that
/// goes with the method it is used by.
pub struct Format {
    text: Vec<u8>,
}

/// The conversions that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Fixed,
    Scientific,
    Shortest,
}

impl Format {
    /// How floating point numbers are written; negative widths and precisions are none.
    pub fn float(style: Style, fill: Option<u8>, width: i32, precision: i32) -> Self {
        let conversion = match style {
            Style::Fixed => "f",
            Style::Scientific => "e",
            Style::Shortest => "g",
        };
        Self::new(fill, width, precision, conversion)
    }

    /// How integers are written, signed or not.
    pub fn integer(signed: bool, fill: Option<u8>, width: i32) -> Self {
        Self::new(fill, width, -1, if signed { "lld" } else { "llu" })
    }

    fn new(fill: Option<u8>, width: i32, precision: i32, conversion: &str) -> Self {
        let mut text = vec![b'%'];
        text.extend(fill);
        if width >= 0 {
            text.extend(width.to_string().bytes());
        }
        if precision >= 0 {
            text.extend(format!(".{precision}").bytes());
        }
        text.extend(conversion.bytes());
        text.push(0);
        Self { text }
    }

    /// Appends a floating point number; the format is one of `float`.
    pub fn append_float(&self, value: f64, out: &mut Vec<u8>) {
        // SAFETY: the format, which ends with a zero, takes one double.
        append(out, |to, size| unsafe {
            libc::snprintf(to, size, self.pointer(), value)
        });
    }

    /// Appends an integer, whose bits are signed or not as the format of `integer` says.
    pub fn append_integer(&self, value: i64, out: &mut Vec<u8>) {
        // SAFETY: the format, which ends with a zero, takes one integer of 64 bits.
        append(out, |to, size| unsafe {
            libc::snprintf(to, size, self.pointer(), value)
        });
    }

    fn pointer(&self) -> *const c_char {
        CStr::from_bytes_until_nul(&self.text).map_or(c"".as_ptr(), CStr::as_ptr)
    }
}

fn append(out: &mut Vec<u8>, print: impl Fn(*mut c_char, usize) -> c_int) {
    let mut room = [0; 64];
    let size = print(room.as_mut_ptr().cast(), room.len());
    let size = usize::try_from(size).unwrap_or(0);
    if size < room.len() {
        return out.extend_from_slice(&room[..size]);
    }
    let mut room = vec![0u8; size + 1];
    print(room.as_mut_ptr().cast(), room.len());
    out.extend_from_slice(&room[..size]);
}
