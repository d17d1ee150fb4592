//! Numbers as text, by C's `printf`, which TensorFlow's `as_string` is defined by.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

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
