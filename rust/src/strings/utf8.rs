//! Characters of UTF-8, as far as their first bytes tell: nothing is checked.

/// Whether a byte begins a character.
pub fn begins(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// How many characters begin in the text.
pub fn count(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| begins(byte)).count()
}

/// Where the next character begins after the one at `place`, or the end.
pub fn next(text: &[u8], place: usize) -> usize {
    let rest = text.get(place + 1..).unwrap_or_default();
    let step = rest.iter().position(|&byte| begins(byte));
    step.map_or(text.len(), |step| place + 1 + step)
}
