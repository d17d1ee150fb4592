//! Functions of strings: no bytes crash them, and what they give fits together.

use _core::strings::chain::Change;
use _core::strings::chain::{Chain, Room};
use _core::strings::numbers::Number;
use _core::strings::pattern::{Pattern, Rewrite};
use _core::strings::split::Splitter;
use _core::strings::substring::{substring, Unit};
use _core::strings::unicode::{write, Encoding, Errors, Policy};
use _core::strings::vectorize::{Cut, Tokenizer};

const ENCODINGS: [Encoding; 7] = [
    Encoding::Utf8,
    Encoding::Utf16 { big: true },
    Encoding::Utf16 { big: false },
    Encoding::Utf32 { big: true },
    Encoding::Utf32 { big: false },
    Encoding::Ascii,
    Encoding::Latin1,
];

pub fn run(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else {
        return;
    };
    let mut parts = rest.splitn(3, |&byte| byte == 0);
    let [first, second, text] = [(); 3].map(|()| parts.next().unwrap_or_default());
    if choice % 4 == 0 {
        // Patterns take far longer to compile than all else that is done here.
        replaced(first, second, text);
    }
    cut(first, text, i64::from(choice) - 3);
    transcoded(ENCODINGS[usize::from(choice) % 7], text);
    tokens(choice, text);
    chained(first, text, i64::from(choice) - 3);
    let _ = (
        i32::parse(text),
        u64::parse(text),
        f32::parse(text),
        f64::parse(text),
    );
}

fn replaced(pattern: &[u8], rewrite: &[u8], text: &[u8]) {
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return;
    };
    let Ok(pattern) = Pattern::new(pattern) else {
        return;
    };
    if let Ok(rewrite) = Rewrite::new(rewrite, pattern.groups()) {
        pattern.replace(text, &rewrite, true, &mut Vec::new());
    }
    let _ = pattern.matches(text);
}

fn cut(separator: &[u8], text: &[u8], most: i64) {
    let mut found = Vec::new();
    Splitter::new(separator).each(text, most, |part| found.push(part));
    if !separator.is_empty() {
        assert_eq!(found.join(separator), text);
    }
    for unit in [Unit::Byte, Unit::Character] {
        let length = unit.length(text) as i64;
        assert_eq!(substring(text, 0, i64::MAX, unit), Some(text));
        let starts_within = text.first().is_some_and(|byte| byte & 0xc0 == 0x80);
        if unit == Unit::Byte || !starts_within {
            assert_eq!(substring(text, length + 1, 1, unit), None);
        }
        let _ = substring(text, -length, most, unit);
    }
}

fn transcoded(encoding: Encoding, text: &[u8]) {
    let mut policy = Policy {
        errors: Errors::Replace,
        replacement: '?',
        controls: false,
    };
    let mut once = Vec::new();
    let mut before = None;
    let read = policy.decode(encoding, text, |character, place| {
        assert!(place < text.len() && before < Some(place));
        before = Some(place);
        write(encoding, character, &mut once);
    });
    assert!(read.is_ok());
    policy.errors = Errors::Strict;
    let mut twice = Vec::new();
    let read = policy.decode(encoding, &once, |character, _| {
        write(encoding, character, &mut twice)
    });
    assert!(read.is_ok() && once == twice);
}

fn tokens(choice: u8, text: &[u8]) {
    for cut in [Cut::Nowhere, Cut::AtSpace, Cut::IntoCharacters] {
        let tokenizer = Tokenizer {
            lower: choice & 1 == 0,
            strip_punctuation: choice & 2 == 0,
            cut,
            ngrams: None,
        };
        tokenizer.tokens(&[text], |token| {
            assert!(cut == Cut::Nowhere || !token.is_empty())
        });
    }
}

/// Many changes at once give what they give one after the other.
fn chained(separator: &[u8], text: &[u8], most: i64) {
    let names = ["strip", "upper utf-8", "lower", "strip"];
    let change = |name: &&str| Change::named(name).expect("a change of this name");
    let mut wanted = text.to_vec();
    for name in &names {
        let before = std::mem::take(&mut wanted);
        change(name).append(&before, &mut wanted);
    }
    let mut parts = Vec::new();
    Splitter::new(separator).each(&wanted, most, |part| parts.push(part.to_vec()));
    let chain = Chain {
        changes: names.iter().map(change).collect(),
        cut: Some((Splitter::new(separator), most)),
    };
    let mut room = Room::default();
    for _ in 0..2 {
        let mut found = Vec::new();
        chain.each(text, &mut room, |part| found.push(part.to_vec()));
        assert_eq!(found, parts);
    }
}
