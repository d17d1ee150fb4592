//! Regular expressions with the syntax of RE2, which TensorFlow uses.
//!
//! The `regex` crate has RE2's semantics and nearly its syntax; what differs is rewritten: classes
//! such as `\d` and word boundaries know ASCII only, `[` and `&&` in a class stand for themselves,
//! `\C` is a byte, `\Q...\E` text that means itself.

use super::repetitions::{Repetition, Repetitions};
use super::unicode;
use regex::bytes::{Captures, Match, Regex};

/// A pattern, compiled.
pub struct Pattern {
    regex: Regex,
    whole: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let translated = translated(pattern)?;
        let compiled = |text: &str| Regex::new(text).map_err(|error| error.to_string());
        Ok(Self {
            regex: compiled(&translated)?,
            whole: compiled(&format!("^(?:{translated})$"))?,
        })
    }

    /// Whether all of the text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.whole.is_match(text)
    }

    /// How many groups there are besides the whole match.
    pub fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Appends the text with its matches, or the first of them only, replaced.
    pub fn replace(&self, text: &[u8], by: &Rewrite, all: bool, out: &mut Vec<u8>) {
        let most = if all { usize::MAX } else { 1 };
        let mut copied = 0;
        if let Some(plain) = by.plain() {
            let found = self.regex.find_iter(text);
            for found in found.filter(|found| counts(text, found)).take(most) {
                out.extend_from_slice(&text[copied..found.start()]);
                out.extend_from_slice(plain);
                copied = found.end();
            }
        } else {
            let found = self.regex.captures_iter(text);
            let found = found.filter_map(|found| Some((found.get(0)?, found)));
            for (whole, found) in found.filter(|(whole, _)| counts(text, whole)).take(most) {
                out.extend_from_slice(&text[copied..whole.start()]);
                by.append(&found, out);
                copied = whole.end();
            }
        }
        out.extend_from_slice(&text[copied..]);
    }
}

/// Matches of nothing do not count within characters.
fn counts(text: &[u8], found: &Match<'_>) -> bool {
    !found.is_empty() || !unicode::is_within(text, found.start())
}

enum Piece {
    Text(Vec<u8>),
    Group(usize),
}

/// What matches are replaced by: text with `\0` to `\9` for groups and `\\` for a backslash.
pub struct Rewrite(Vec<Piece>);

impl Rewrite {
    /// Reads a rewrite for a pattern of so many groups.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(rewrite: &[u8], groups: usize) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        let mut bytes = rewrite.iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'\\' {
                text.push(byte);
                continue;
            }
            match bytes.next() {
                Some(b'\\') => text.push(b'\\'),
                Some(digit) if digit.is_ascii_digit() => {
                    let group = usize::from(digit - b'0');
                    if group > groups {
                        return Err(format!("\\{group} is no group: the pattern has {groups}"));
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Group(group));
                }
                _ => return Err("a backslash stands before a digit or a backslash".to_owned()),
            }
        }
        pieces.push(Piece::Text(text));
        Ok(Self(pieces))
    }

    fn plain(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn append(&self, found: &Captures<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Group(group) => {
                    out.extend_from_slice(found.get(*group).map_or(b"", |part| part.as_bytes()));
                }
            }
        }
    }
}

/// The pattern as the `regex` crate writes it.
fn translated(pattern: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut repetitions = Repetitions::default();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if let Some(repetition) = Repetition::at(rest) {
            repetitions.repeat(&repetition)?;
            out.push_str(repetition.text);
            rest = &rest[repetition.text.len()..];
            continue;
        }
        rest = match first {
            '(' => {
                let (head, opens) = group_head(rest);
                if opens {
                    repetitions.open();
                }
                out.push_str(&rest[..head]);
                rest = &rest[head..];
                continue;
            }
            ')' => {
                repetitions.close();
                out.push(first);
                rest = after;
                continue;
            }
            '\\' => escaped(after, false, &mut out)?,
            '[' => class(after, &mut out)?,
            '{' => {
                out.push_str("\\{");
                after
            }
            _ => {
                out.push(first);
                after
            }
        };
        repetitions.item();
    }
    Ok(out)
}

/// How long the start of a group is with its name or flags, and whether it opens one: `(?i)` sets
/// flags alone.
fn group_head(text: &str) -> (usize, bool) {
    if !text.starts_with("(?") {
        return (1, true);
    }
    match text.find([':', '>', ')']) {
        Some(end) => (end + 1, text.as_bytes()[end] != b')'),
        None => (text.len(), true),
    }
}

/// Writes what a backslash and the start of `text` mean; returns what follows.
fn escaped<'a>(text: &'a str, in_class: bool, out: &mut String) -> Result<&'a str, String> {
    let Some(letter) = text.chars().next() else {
        return Err("trailing backslash at end of pattern".to_owned());
    };
    let after = &text[letter.len_utf8()..];
    let members = match letter.to_ascii_lowercase() {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\f\\r "),
        _ => None,
    };
    match (letter, members) {
        (_, Some(members)) if letter.is_ascii_uppercase() => {
            out.push_str(&format!("[^{members}]"));
        }
        (_, Some(members)) if in_class => out.push_str(members),
        (_, Some(members)) => out.push_str(&format!("[{members}]")),
        ('b' | 'B', _) if !in_class => out.push_str(&format!("(?-u:\\{letter})")),
        ('C', _) if !in_class => out.push_str("(?s-u:.)"),
        ('Q', _) if !in_class => {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return Ok(after);
        }
        _ => {
            out.push('\\');
            out.push(letter);
            if matches!(letter, 'x' | 'p' | 'P') && after.starts_with('{') {
                // The brace belongs to the letter: `\x{e9}`, `\p{Greek}`.
                let end = after.find('}').map_or(after.len(), |end| end + 1);
                out.push_str(&after[..end]);
                return Ok(&after[end..]);
            }
        }
    }
    Ok(after)
}

/// Writes a class whose opening bracket was read; returns what follows it.
fn class<'a>(text: &'a str, out: &mut String) -> Result<&'a str, String> {
    out.push('[');
    let mut rest = text;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            ']' => {
                out.push(']');
                return Ok(after);
            }
            '\\' => escaped(after, true, out)?,
            '[' if after.starts_with(':') && after.contains(":]") => {
                let (name, after) = after[1..].split_once(":]").unwrap_or_default();
                out.push_str(&format!("[:{name}:]"));
                after
            }
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(first);
                after
            }
            '-' if out.ends_with('-') => {
                out.push_str("\\-");
                after
            }
            _ => {
                out.push(first);
                after
            }
        };
    }
    Err("missing closing ]".to_owned())
}
