//! Runs of neighbouring tokens, joined.

use super::texts::Texts;

/// Which n-grams to make of a row of tokens, as `tf.strings.ngrams`.
#[derive(Clone, Debug)]
pub struct Ngrams {
    /// How many tokens each has; all of the first width come first.
    pub widths: Vec<usize>,
    pub separator: Vec<u8>,
    /// Stands for tokens before the first.
    pub left: Vec<u8>,
    /// Stands for tokens after the last.
    pub right: Vec<u8>,
    /// How many of these there are at most; always less than the width.
    pub padding: usize,
    /// Whether a row that is too short for all widths gives one n-gram of all it has.
    pub preserve_short: bool,
}

impl Ngrams {
    /// The n-grams of these widths, joined by `separator`, without padding.
    pub fn plain(widths: Vec<usize>, separator: &[u8]) -> Self {
        Self {
            widths,
            separator: separator.to_vec(),
            left: Vec::new(),
            right: Vec::new(),
            padding: 0,
            preserve_short: false,
        }
    }

    /// Appends the n-grams of a row; returns how many.
    pub fn append(&self, tokens: &[&[u8]], out: &mut Texts) -> usize {
        let before = out.len();
        for &width in &self.widths {
            self.append_width(tokens, width, out);
        }
        if self.preserve_short && out.len() == before && !tokens.is_empty() {
            self.append_width(tokens, tokens.len() + 2 * self.padding, out);
        }
        out.len() - before
    }

    fn append_width(&self, tokens: &[&[u8]], width: usize, out: &mut Texts) {
        let padding = self.padding.min(width.saturating_sub(1));
        let all = tokens.len() + 2 * padding;
        for start in 0..(all + 1).saturating_sub(width) {
            out.push_with(|bytes| {
                for place in start..start + width {
                    if place > start {
                        bytes.extend_from_slice(&self.separator);
                    }
                    bytes.extend_from_slice(match place.checked_sub(padding) {
                        None => &self.left,
                        Some(token) => tokens.get(token).copied().unwrap_or(&self.right),
                    });
                }
            });
        }
    }
}
