//! Strings and their numbers.

use super::fingerprint::fingerprint64;

/// A table of different strings, numbered from 0 on.
#[derive(Debug, Default)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    /// Strings, each at the place its hash asks for or the next free one.
    slots: Vec<Slot>,
}

/// A string's number, or `FREE`, and the upper half of its hash, which tells most others apart.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u32,
    tag: u32,
}

const FREE: u32 = u32::MAX;

fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

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
        self.find(text).ok()
    }

    /// The number of a string.
    ///
    /// # Errors
    /// Its fingerprint, if it is not there.
    pub fn find(&self, text: &[u8]) -> Result<usize, u64> {
        let hash = fingerprint64(text);
        if self.slots.is_empty() {
            return Err(hash);
        }
        match self.slots[self.slot(text, hash)].number {
            FREE => Err(hash),
            number => Ok(number as usize),
        }
    }

    /// The number of a string, which is added if it is new.
    pub fn insert(&mut self, text: &[u8]) -> usize {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        let hash = fingerprint64(text);
        let slot = self.slot(text, hash);
        if self.slots[slot].number == FREE {
            let number = self.ends.len() as u32;
            let tag = tag_of(hash);
            self.slots[slot] = Slot { number, tag };
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
            self.hashes.push(hash);
        }
        self.slots[slot].number as usize
    }

    fn slot(&self, text: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            let same =
                || found.tag == tag_of(hash) && self.text(found.number as usize) == Some(text);
            if found.number == FREE || same() {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(16);
        let none = Slot {
            number: FREE,
            tag: 0,
        };
        self.slots = vec![none; size];
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while self.slots[slot].number != FREE {
                slot = (slot + 1) & (size - 1);
            }
            let (number, tag) = (number as u32, tag_of(hash));
            self.slots[slot] = Slot { number, tag };
        }
    }
}
