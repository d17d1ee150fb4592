//! Where a record's wanted features are.

use super::defect::Malformed;
use super::schema::Schema;
use super::wire::{Content, Cursor};

/// Keys beyond so many are looked up, not remembered.
const MOST_KNOWN: usize = 4096;

/// Finds features by their keys, and remembers the order in which keys came: records of one file
/// mostly have the same.
pub struct Locator<'a, 's> {
    schema: &'s Schema,
    known: Vec<Known<'a>>,
    /// Which of `known` has a slot's key.
    places: Vec<Option<usize>>,
    next: usize,
    entries: usize,
    /// Where each slot's message is in this record.
    found: Vec<Option<Cursor<'a>>>,
}

/// An entry's first bytes, up to the tag of its value.
pub struct Known<'a> {
    pub head: &'a [u8],
    pub slot: Option<usize>,
}

impl<'a, 's> Locator<'a, 's> {
    pub fn new(schema: &'s Schema) -> Self {
        Self {
            schema,
            known: Vec::new(),
            places: vec![None; schema.slots()],
            next: 0,
            entries: 0,
            found: vec![None; schema.slots()],
        }
    }

    pub fn schema(&self) -> &'s Schema {
        self.schema
    }

    /// Forgets the record, but not the order of its keys.
    pub fn start(&mut self) {
        self.next = 0;
        self.entries = 0;
        self.found.fill(None);
    }

    /// The entries that records are expected to have, in order.
    pub fn known(&self) -> &[Known<'a>] {
        &self.known
    }

    /// Whether the record had as many entries as are known, and the last of them.
    pub fn is_as_known(&self) -> bool {
        self.entries == self.known.len() && self.next == self.entries
    }

    /// The slots of keys that no known entry has.
    pub fn absent(&self) -> impl Iterator<Item = usize> + '_ {
        let places = self.places.iter().enumerate();
        places.filter_map(|(slot, place)| place.is_none().then_some(slot))
    }

    /// Where a feature's message is.
    #[inline(always)]
    pub fn of(&self, feature: usize) -> Option<Cursor<'a>> {
        self.found[self.schema.slot_of(feature)]
    }

    /// Notes what a map has. Of equal keys the last one counts, as in all protocol buffers.
    pub fn note(&mut self, mut map: Cursor<'a>) -> Result<(), Malformed> {
        while let Some(field) = map.field()? {
            if let (1, Content::Delimited(entry)) = field {
                self.entries += 1;
                let (slot, value) = match self.expected(entry)? {
                    Some(expected) => expected,
                    None => self.look_up(entry)?,
                };
                if let Some(slot) = slot {
                    self.found[slot] = Some(value);
                }
            }
        }
        Ok(())
    }

    /// The entry's slot and value if it begins as the one that came next before.
    #[inline(always)]
    fn expected(
        &mut self,
        mut entry: Cursor<'a>,
    ) -> Result<Option<(Option<usize>, Cursor<'a>)>, Malformed> {
        let Some(known) = self.known.get(self.next) else {
            return Ok(None);
        };
        if !begins_with(entry.rest(), known.head) {
            return Ok(None);
        }
        entry.pass(known.head.len());
        let value = entry.delimited()?;
        if !entry.is_done() {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some((known.slot, value)))
    }

    fn look_up(&mut self, entry: Cursor<'a>) -> Result<(Option<usize>, Cursor<'a>), Malformed> {
        let (key, value) = parts(entry)?;
        let slot = self.schema.slot(key);
        if let Some(place) = slot.and_then(|slot| self.places[slot]) {
            self.next = place + 1;
        } else if self.next == self.known.len() && self.next < MOST_KNOWN {
            if let Some(head) = head(entry) {
                self.known.push(Known { head, slot });
                if let Some(slot) = slot {
                    self.places[slot] = Some(self.next);
                }
                self.next += 1;
            }
        }
        Ok((slot, value))
    }
}

/// An entry's key and value; what is missing is empty.
pub fn parts(entry: Cursor<'_>) -> Result<(&[u8], Cursor<'_>), Malformed> {
    let mut rest = entry;
    let (mut key, mut value): (&[u8], _) = (&[], None);
    while let Some(field) = rest.field()? {
        match field {
            (1, Content::Delimited(bytes)) => key = bytes.rest(),
            (2, Content::Delimited(message)) => value = Some(message),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or(rest)))
}

/// The key with its tag and length, and the tag of the value, if it follows.
fn head(entry: Cursor<'_>) -> Option<&[u8]> {
    let mut rest = entry;
    match rest.field() {
        Ok(Some((1, Content::Delimited(_)))) if rest.rest().first() == Some(&0x12) => {
            entry.rest().get(..rest.at() + 1 - entry.at())
        }
        _ => None,
    }
}

/// `starts_with`, without a call for short heads.
#[inline(always)]
pub fn begins_with(bytes: &[u8], head: &[u8]) -> bool {
    let Some(bytes) = bytes.get(..head.len()) else {
        return false;
    };
    if head.len() <= 8 {
        return match (
            bytes.first_chunk::<4>(),
            bytes.last_chunk::<4>(),
            head.first_chunk::<4>(),
            head.last_chunk::<4>(),
        ) {
            (Some(a), Some(b), Some(c), Some(d)) => {
                u32::from_ne_bytes(*a) == u32::from_ne_bytes(*c)
                    && u32::from_ne_bytes(*b) == u32::from_ne_bytes(*d)
            }
            _ => bytes == head,
        };
    }
    match (
        bytes.first_chunk::<8>(),
        bytes.last_chunk::<8>(),
        head.first_chunk::<8>(),
        head.last_chunk::<8>(),
    ) {
        (Some(a), Some(b), Some(c), Some(d)) if head.len() <= 16 => {
            u64::from_ne_bytes(*a) == u64::from_ne_bytes(*c)
                && u64::from_ne_bytes(*b) == u64::from_ne_bytes(*d)
        }
        _ => bytes == head,
    }
}
