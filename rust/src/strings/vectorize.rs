//! Text to numbers of a vocabulary, as Keras's `TextVectorization` defines it.

use super::ngrams::Ngrams;
use super::numbers::is_space;
use super::texts::Texts;
use super::unicode;
use super::unicode::{Encoding, Errors, Policy};
use std::borrow::Cow;

/// How text is cut into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Nowhere,
    AtSpace,
    IntoCharacters,
}

/// How text becomes tokens.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    pub lower: bool,
    pub strip_punctuation: bool,
    pub cut: Cut,
    /// Which n-grams of the tokens stand for them.
    pub ngrams: Option<Ngrams>,
}

impl Tokenizer {
    /// Calls `each` with the tokens of a row of texts.
    pub fn tokens(&self, row: &[&[u8]], mut each: impl FnMut(&[u8])) {
        let Some(ngrams) = &self.ngrams else {
            return row.iter().for_each(|text| self.words(text, &mut each));
        };
        let mut words = Texts::default();
        row.iter()
            .for_each(|text| self.words(text, &mut |word| words.push(word)));
        let mut joined = Texts::default();
        ngrams.append(&words.iter().collect::<Vec<_>>(), &mut joined);
        joined.iter().for_each(each);
    }

    fn words(&self, text: &[u8], each: &mut impl FnMut(&[u8])) {
        let text = self.standardized(text);
        match self.cut {
            Cut::Nowhere => each(&text),
            Cut::AtSpace => {
                let words = text.split(is_space).filter(|word| !word.is_empty());
                words.for_each(each);
            }
            Cut::IntoCharacters => characters(&text, each),
        }
    }

    fn standardized<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let kept = |byte: &&u8| !(self.strip_punctuation && byte.is_ascii_punctuation());
        match (self.lower, self.strip_punctuation) {
            (false, false) => Cow::Borrowed(text),
            (false, true) => Cow::Owned(text.iter().filter(kept).copied().collect()),
            (true, _) => {
                let bytes = text.iter().filter(kept);
                Cow::Owned(bytes.map(u8::to_ascii_lowercase).collect())
            }
        }
    }
}

fn characters(text: &[u8], each: &mut impl FnMut(&[u8])) {
    if std::str::from_utf8(text).is_ok() {
        let mut place = 0;
        while place < text.len() {
            let next = unicode::next(text, place);
            each(&text[place..next]);
            place = next;
        }
        return;
    }
    let policy = Policy {
        errors: Errors::Replace,
        replacement: char::REPLACEMENT_CHARACTER,
        controls: false,
    };
    // Nothing is an error that is replaced.
    let _ = policy.decode(Encoding::Utf8, text, |character, _| {
        each(character.encode_utf8(&mut [0; 4]).as_bytes());
    });
}
