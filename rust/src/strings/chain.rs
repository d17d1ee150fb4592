//! Strings changed, then cut into parts, without strings in between.

use super::changes::Change;
use super::split::Splitter;

/// Changes in their order, and where what they give is cut, if it is, and how often at most.
pub struct Chain {
    pub changes: Vec<Change>,
    pub cut: Option<(Splitter, i64)>,
}

/// Memory that is used again from string to string.
#[derive(Default)]
pub struct Room([Vec<u8>; 2]);

impl Chain {
    /// Calls `part` with each part of what `text` becomes.
    pub fn each(&self, text: &[u8], room: &mut Room, part: impl FnMut(&[u8])) {
        let Some((first, others)) = self.changes.split_first() else {
            return self.parts(text, part);
        };
        let [made, next] = &mut room.0;
        made.clear();
        first.append(text, made);
        for change in others {
            next.clear();
            change.append(made, next);
            std::mem::swap(made, next);
        }
        self.parts(made, part);
    }

    fn parts(&self, text: &[u8], mut part: impl FnMut(&[u8])) {
        match &self.cut {
            None => part(text),
            Some((splitter, most)) => splitter.each(text, *most, part),
        }
    }
}
