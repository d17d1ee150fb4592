//! Text in the encodings of Unicode; characters of UTF-8 by their first bytes alone, which are
//! not checked then.

/// How characters are written as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16 { big: bool },
    Utf32 { big: bool },
    Ascii,
    Latin1,
}

impl Encoding {
    /// The encoding of ICU's name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" => Some(Self::Utf8),
            "UTF-16-BE" | "UTF-16BE" => Some(Self::Utf16 { big: true }),
            "UTF-16-LE" | "UTF-16LE" => Some(Self::Utf16 { big: false }),
            "UTF-32-BE" | "UTF-32BE" => Some(Self::Utf32 { big: true }),
            "UTF-32-LE" | "UTF-32LE" => Some(Self::Utf32 { big: false }),
            "US-ASCII" | "ASCII" => Some(Self::Ascii),
            "ISO-8859-1" | "LATIN1" => Some(Self::Latin1),
            _ => None,
        }
    }
}

/// What to do with bytes or numbers that are no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    Replace,
    Ignore,
    Strict,
}

impl Errors {
    /// By TensorFlow's name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "replace" => Some(Self::Replace),
            "ignore" => Some(Self::Ignore),
            "strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// How text is read.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub errors: Errors,
    pub replacement: char,
    /// Whether control characters (0 to 31) are replaced, or left out if damage is.
    pub controls: bool,
}

impl Policy {
    /// The characters of a text, with the bytes where they begin.
    ///
    /// # Errors
    /// The byte where something begins that is no character, if that is to be an error.
    pub fn decode(
        &self,
        encoding: Encoding,
        text: &[u8],
        mut each: impl FnMut(char, usize),
    ) -> Result<(), usize> {
        let mut bad = None;
        read(encoding, text, |found, place| match found {
            Some(control) if self.controls && u32::from(control) < 32 => {
                if self.errors != Errors::Ignore {
                    each(self.replacement, place);
                }
            }
            Some(character) => each(character, place),
            None if self.errors == Errors::Replace => each(self.replacement, place),
            None if self.errors == Errors::Ignore => {}
            None => bad = bad.or(Some(place)),
        });
        bad.map_or(Ok(()), Err)
    }

    /// Appends the characters of these numbers.
    ///
    /// # Errors
    /// The position of the first number that is no character, if that is to be an error.
    pub fn encode(
        &self,
        encoding: Encoding,
        numbers: &[i32],
        out: &mut Vec<u8>,
    ) -> Result<(), usize> {
        for (place, &number) in numbers.iter().enumerate() {
            let found = u32::try_from(number).ok().and_then(char::from_u32);
            match (found, self.errors) {
                (Some(character), _) => write(encoding, character, out),
                (None, Errors::Replace) => write(encoding, self.replacement, out),
                (None, Errors::Ignore) => {}
                (None, Errors::Strict) => return Err(place),
            }
        }
        Ok(())
    }
}

/// Appends a character; one that the encoding lacks is a question mark.
pub fn write(encoding: Encoding, character: char, out: &mut Vec<u8>) {
    let number = u32::from(character);
    match encoding {
        Encoding::Utf8 => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Encoding::Utf16 { big } => {
            for &mut unit in character.encode_utf16(&mut [0; 2]) {
                out.extend(if big {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                });
            }
        }
        Encoding::Utf32 { big } => {
            out.extend(if big {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            });
        }
        Encoding::Ascii if number < 128 => out.push(number as u8),
        Encoding::Latin1 if number < 256 => out.push(number as u8),
        Encoding::Ascii | Encoding::Latin1 => out.push(b'?'),
    }
}

fn read(encoding: Encoding, text: &[u8], mut each: impl FnMut(Option<char>, usize)) {
    match encoding {
        Encoding::Utf8 => read_utf8(text, each),
        Encoding::Utf16 { big } => read_utf16(text, big, each),
        Encoding::Utf32 { big } => {
            for (index, unit) in text.chunks(4).enumerate() {
                let number = <[u8; 4]>::try_from(unit).ok().map(|bytes| {
                    if big {
                        u32::from_be_bytes(bytes)
                    } else {
                        u32::from_le_bytes(bytes)
                    }
                });
                each(number.and_then(char::from_u32), 4 * index);
            }
        }
        Encoding::Ascii => {
            for (place, &byte) in text.iter().enumerate() {
                each(byte.is_ascii().then_some(char::from(byte)), place);
            }
        }
        Encoding::Latin1 => {
            for (place, &byte) in text.iter().enumerate() {
                each(Some(char::from(byte)), place);
            }
        }
    }
}

fn read_utf8(text: &[u8], mut each: impl FnMut(Option<char>, usize)) {
    let mut start = 0;
    for chunk in text.utf8_chunks() {
        for (place, character) in chunk.valid().char_indices() {
            each(Some(character), start + place);
        }
        start += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            each(None, start);
            start += chunk.invalid().len();
        }
    }
}

fn read_utf16(text: &[u8], big: bool, mut each: impl FnMut(Option<char>, usize)) {
    let units = text.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if big {
            u16::from_be_bytes(pair)
        } else {
            u16::from_le_bytes(pair)
        }
    });
    let mut place = 0;
    let mut lacks_half = false;
    for found in char::decode_utf16(units) {
        lacks_half = matches!(&found, Err(alone) if alone.unpaired_surrogate() < 0xdc00);
        let character = found.ok();
        each(character, place);
        place += 2 * character.map_or(1, char::len_utf16);
    }
    // Half of the second half of a pair is lacking with it.
    if text.len() % 2 == 1 && !lacks_half {
        each(None, place);
    }
}

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
