//! Strings and their numbers.

use super::fingerprint::fingerprint64;

/// A table of different strings, numbered from 0 on.
#[derive(Debug, Default)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    /// Numbers, each at the place its hash asks for or the next free one; `FREE` for none.
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Vocabulary {
    /// A table of these strings.
    ///
    /// # Errors
    /// The position of a string that was there before.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, usize> {
        let mut made = Self::default();
        for text in texts {
            let number = made.len();
            if made.insert(text) != number {
                return Err(number);
            }
        }
        Ok(made)
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string of a number.
    pub fn text(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// The number of a string, if it is there.
    pub fn number(&self, text: &[u8]) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let number = self.slots[self.slot(text, fingerprint64(text))];
        (number != FREE).then_some(number as usize)
    }

    /// The number of a string, which is added if it is new.
    pub fn insert(&mut self, text: &[u8]) -> usize {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        let hash = fingerprint64(text);
        let slot = self.slot(text, hash);
        if self.slots[slot] == FREE {
            self.slots[slot] = self.ends.len() as u32;
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
            self.hashes.push(hash);
        }
        self.slots[slot] as usize
    }

    fn slot(&self, text: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let number = self.slots[slot];
            let same =
                |number: usize| self.hashes[number] == hash && self.text(number) == Some(text);
            if number == FREE || same(number as usize) {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(16);
        self.slots = vec![FREE; size];
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while self.slots[slot] != FREE {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = number as u32;
        }
    }
}
