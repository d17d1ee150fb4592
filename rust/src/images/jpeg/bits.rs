//! Reading bits, the most significant first.

use super::super::defect::Defect;
use super::super::scratch;

/// The bytes of a scan without stuffing, cut at restart markers.
pub struct Entropy {
    /// Followed by zeros, `PADDING` of them, and by anything.
    data: Vec<u8>,
    /// Where each segment ends in `data`.
    ends: Vec<usize>,
    /// Where the scan begins in the file.
    start: usize,
    /// Whether the file ends within the scan.
    pub truncated: bool,
}

/// More than a block can use of bits that are not there, before that is seen.
const PADDING: usize = 1024;

/// The first byte of a marker, which zeros follow where it is none.
const MARKER: u8 = 0xff;

/// Bytes that are copied at once, less than the padding.
const CHUNK: usize = 32;

impl Entropy {
    /// Reads from `start` up to the marker that ends the scan, whose position is returned.
    pub fn read(bytes: &[u8], start: usize) -> (Self, usize) {
        let mut scan = Self {
            data: scratch::take(bytes.len() - start + PADDING),
            ends: Vec::new(),
            start,
            truncated: false,
        };
        let (end, length) = scan.unstuff(bytes);
        scan.ends.push(length);
        scan.data[length..][..PADDING].fill(0);
        (scan, end)
    }

    /// Copies chunk by chunk; where one holds `MARKER`, the next begins behind it.
    ///
    /// Returns where the scan ends, and how many bytes it has.
    fn unstuff(&mut self, bytes: &[u8]) -> (usize, usize) {
        let (mut at, mut to) = (self.start, 0);
        loop {
            let rest = &bytes[at..];
            let chunk = rest.first_chunk().copied();
            let chunk = chunk.unwrap_or_else(|| padded(rest));
            let room = self.data[to..].first_chunk_mut();
            *room.expect("as many bytes as there are, and padding") = chunk;
            let run = before_marker(&chunk).min(rest.len());
            (at, to) = (at + run, to + run);
            if run == CHUNK {
                continue;
            }
            match bytes.get(at + 1) {
                Some(0) => (at, to) = (at + 2, to + 1), // It was copied.
                Some(0xd0..=0xd7) => {
                    self.ends.push(to);
                    at += 2;
                }
                Some(&MARKER) => at += 1,
                Some(_) => return (at, to),
                None => {
                    self.truncated = true;
                    return (bytes.len(), to);
                }
            }
        }
    }

    /// Keeps the memory for the next scan.
    pub fn recycle(self) {
        scratch::give(self.data);
    }

    /// The bits between two restart markers, if there are so many.
    pub fn segment(&self, number: usize) -> Option<Bits<'_>> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 {
            0
        } else {
            self.ends[number - 1]
        };
        let last = *self.ends.last()?;
        Some(Bits {
            data: &self.data[..last + PADDING],
            at: start,
            buffer: 0,
            count: 0,
            end: end * 8,
        })
    }

    /// Where in the file the bits stand.
    pub fn offset(&self, bits: Bits, bytes: &[u8]) -> usize {
        let wanted = bits.position().div_ceil(8).min(bits.end / 8);
        let (mut at, mut seen) = (self.start, 0);
        while seen < wanted && at < bytes.len() {
            let pair = (bytes[at], bytes.get(at + 1).copied());
            match pair {
                (0xff, Some(0xd0..=0xd7)) => at += 2,
                (0xff, Some(0)) => {
                    at += 2;
                    seen += 1;
                }
                (0xff, Some(0xff)) => at += 1,
                _ => {
                    at += 1;
                    seen += 1;
                }
            }
        }
        at
    }

    /// Why the bits ended too early.
    pub fn ended(&self, bits: Bits, bytes: &[u8]) -> Defect {
        let offset = self.offset(bits, bytes);
        if self.truncated {
            return Defect::truncated(offset, "the JPEG data end too early");
        }
        Defect::damaged(
            offset,
            "a scan of the JPEG data has fewer bits than its blocks need",
        )
    }
}

fn padded(rest: &[u8]) -> [u8; CHUNK] {
    let mut chunk = [0; CHUNK];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// How many bytes come before the first `MARKER`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn before_marker(chunk: &[u8; CHUNK]) -> usize {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: all processors of the kind have the instructions; two halves of the chunk are read.
    let found = |from: usize| unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().add(from).cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(MARKER as i8))) as u32
    };
    (found(0) | found(CHUNK / 2) << (CHUNK / 2)).trailing_zeros() as usize
}

/// As for x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn before_marker(chunk: &[u8; CHUNK]) -> usize {
    let first = chunk.iter().position(|&byte| byte == MARKER);
    first.unwrap_or(CHUNK)
}

/// Bits up to a restart marker or the end of a scan; zeros follow.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    buffer: u64,
    /// How many bits of the buffer are read from the data, 0 to 63: in its last six bits, above which
    /// stands anything.
    count: u64,
    end: usize,
}

impl Bits<'_> {
    /// Makes 56 bits or more ready to be peeked at.
    #[inline(always)]
    pub fn refill(&mut self) {
        let Some(word) = self.data[self.at..].first_chunk::<8>() else {
            return self.count |= 56; // Past the padding: zeros, and `overrun` will tell.
        };
        self.buffer |= u64::from_be_bytes(*word) >> self.ready();
        self.at += (63 - self.ready()) as usize >> 3;
        self.count |= 56;
    }

    /// The next `n` bits, 1 to 32, of those that are ready.
    #[inline(always)]
    pub fn peek(&self, n: u32) -> usize {
        (self.buffer >> (64 - n)) as usize
    }

    #[inline(always)]
    pub fn consume(&mut self, n: u32) {
        self.buffer <<= n;
        self.count = self.count.wrapping_sub(u64::from(n));
    }

    /// As many as the last six bits of a word say: a shift looks at no others, so nothing has to be
    /// cut off before it, for which the next look-up would wait.
    #[inline(always)]
    pub fn consume_by(&mut self, word: u64) {
        self.buffer <<= word % 64;
        self.count = self.count.wrapping_sub(word);
    }

    #[inline(always)]
    fn ready(&self) -> u64 {
        self.count % 64
    }

    /// The next `n` bits, 0 to 16, of those that are ready.
    #[inline(always)]
    pub fn take(&mut self, n: u32) -> i32 {
        let value = ((self.buffer >> 1) >> (63 - n)) as i32;
        self.consume(n);
        value
    }

    /// One bit.
    #[inline(always)]
    pub fn bit(&mut self) -> bool {
        self.refill();
        self.take(1) != 0
    }

    /// A signed number of `n` bits, 0 to 16, as JPEG writes them, of bits that are ready.
    #[inline(always)]
    pub fn signed(&mut self, n: u32) -> i32 {
        let negative = (!self.buffer as i64 >> 63) as i32;
        self.take(n) + (negative & (1 - (1 << n)))
    }

    /// How many bits were read.
    fn position(&self) -> usize {
        self.at * 8 - self.ready() as usize
    }

    /// Whether more bits were read than there are.
    #[inline(always)]
    pub fn overrun(&self) -> bool {
        self.position() > self.end
    }
}

/// The number that `n` bits stand for.
#[inline(always)]
pub fn extended(value: i32, n: u32) -> i32 {
    if n > 0 && value < 1 << (n - 1) {
        value - (1 << n) + 1
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::Entropy;

    /// Byte by byte: the data, where segments end, where the scan does, and whether the file does.
    fn plainly(bytes: &[u8]) -> (Vec<u8>, Vec<usize>, usize, bool) {
        let (mut data, mut ends, mut at) = (Vec::new(), Vec::new(), 0);
        let truncated = loop {
            match bytes[at..] {
                [0xff, 0, ..] => {
                    data.push(0xff);
                    at += 2;
                }
                [0xff, 0xd0..=0xd7, ..] => {
                    ends.push(data.len());
                    at += 2;
                }
                [0xff, 0xff, ..] => at += 1,
                [0xff, _, ..] => break false,
                [0xff] | [] => break true,
                [byte, ..] => {
                    data.push(byte);
                    at += 1;
                }
            }
        };
        ends.push(data.len());
        (
            data,
            ends,
            if truncated { bytes.len() } else { at },
            truncated,
        )
    }

    #[test]
    fn stuffing_is_removed_wherever_it_lies() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut seen = [0; 2];
        for length in (0..200).cycle().take(4000) {
            let rare = 1 + draw(60);
            let bytes: Vec<u8> = (0..length)
                .map(|_| match draw(3 * rare) {
                    0 | 1 => 0xff,
                    2..=5 => [0, 0, 0xd3, 0xff][draw(4) as usize],
                    _ => draw(200) as u8,
                })
                .collect();
            let (entropy, end) = Entropy::read(&bytes, 0);
            let (data, ends, wanted, truncated) = plainly(&bytes);
            assert_eq!((end, entropy.truncated), (wanted, truncated), "{bytes:?}");
            assert_eq!(entropy.ends, ends, "{bytes:?}");
            let bits = entropy.segment(0).expect("a segment");
            let (found, rest) = bits.data.split_at(data.len());
            assert_eq!(found, data, "{bytes:?}");
            assert!(rest.len() == super::PADDING && rest.iter().all(|&zero| zero == 0));
            seen[usize::from(truncated)] += 1;
            entropy.recycle();
        }
        assert!(seen[0] > 500 && seen[1] > 500, "{seen:?}");
    }
}
