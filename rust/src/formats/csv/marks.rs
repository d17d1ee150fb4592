//! The bytes that fields can end at, found 64 at a time.

const BLOCK: usize = 64;

/// The delimiters, line breaks and, if fields may be quoted, quotes of some bytes, in order.
pub struct Marks<'a> {
    bytes: &'a [u8],
    delimiter: u8,
    quotes: bool,
    /// Where the bytes begin that were looked at; and a bit for each that is a mark and was not
    /// passed.
    block: usize,
    found: u64,
}

impl<'a> Marks<'a> {
    /// Those from `start` on.
    #[inline]
    pub fn new(bytes: &'a [u8], start: usize, delimiter: u8, quotes: bool) -> Self {
        let mut marks = Self {
            bytes,
            delimiter,
            quotes: quotes && delimiter != b'"',
            block: start,
            found: 0,
        };
        marks.look(start);
        marks
    }

    /// Whether the mark at a place is a quote, and no delimiter.
    #[inline]
    pub fn is_quote(&self, place: usize) -> bool {
        self.quotes && self.bytes.get(place) == Some(&b'"')
    }

    /// The place of the first that was not passed; the number of bytes if there is none.
    #[inline]
    pub fn first(&mut self) -> usize {
        while self.found == 0 {
            if self.block + BLOCK >= self.bytes.len() {
                return self.bytes.len();
            }
            self.look(self.block + BLOCK);
        }
        self.block + self.found.trailing_zeros() as usize
    }

    /// Passes the first, which there is.
    #[inline]
    pub fn drop_first(&mut self) {
        self.found &= self.found.wrapping_sub(1);
    }

    /// Passes those before `place`, none of which were passed after it.
    #[inline]
    pub fn pass(&mut self, place: usize) {
        let within = place - self.block;
        if within < BLOCK {
            self.found &= !0 << within;
        } else {
            self.look(place);
        }
    }

    fn look(&mut self, block: usize) {
        self.block = block;
        let quote = if self.quotes { b'"' } else { self.delimiter };
        let rest = self.bytes.get(block..).unwrap_or_default();
        if let Some(whole) = rest.first_chunk() {
            self.found = marked(whole, self.delimiter, quote);
            return;
        }
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        self.found = marked(&padded, self.delimiter, quote) & !(!0 << rest.len());
    }
}

/// A bit for each byte that is a delimiter, a line break or a quote.
#[cfg(target_arch = "x86_64")]
#[inline]
fn marked(bytes: &[u8; BLOCK], delimiter: u8, quote: u8) -> u64 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut found = 0;
    for part in 0..BLOCK / 16 {
        // SAFETY: every processor of this kind has these instructions, and the 16 bytes are there.
        let bits = unsafe {
            let here = _mm_loadu_si128(bytes.as_ptr().add(16 * part).cast::<__m128i>());
            let is = |byte: u8| _mm_cmpeq_epi8(here, _mm_set1_epi8(i8::from_ne_bytes([byte])));
            let breaks = _mm_or_si128(is(b'\n'), is(b'\r'));
            let others = _mm_or_si128(is(delimiter), is(quote));
            _mm_movemask_epi8(_mm_or_si128(breaks, others))
        };
        found |= u64::from(bits as u16) << (16 * part);
    }
    found
}

/// A bit for each byte that is a delimiter, a line break or a quote.
#[cfg(not(target_arch = "x86_64"))]
fn marked(bytes: &[u8; BLOCK], delimiter: u8, quote: u8) -> u64 {
    let is = |byte: u8| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
    let places = bytes.iter().enumerate();
    places.fold(0, |found, (place, &byte)| {
        found | u64::from(is(byte)) << place
    })
}
