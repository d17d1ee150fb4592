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

/// Whether `place` lies within a character.
pub fn is_within(text: &[u8], place: usize) -> bool {
    let starts = (1..4).filter_map(|back| place.checked_sub(back));
    let follows = |start: usize| text.get(start + 1).is_some_and(|&byte| !begins(byte));
    starts.take_while(|&start| follows(start)).any(|start| {
        let length = match text[start] {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
            _ => 1,
        };
        let character = text.get(start..start + length);
        start + length > place && character.is_some_and(|c| std::str::from_utf8(c).is_ok())
    })
}
