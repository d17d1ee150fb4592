//! tf.data's shuffle buffer, run on indices instead of elements.

use crate::blocks::rng::Rng;
use std::collections::TryReserveError;

/// Why a shuffle cannot continue.
#[derive(Debug, PartialEq, Eq)]
pub enum ShuffleError {
    /// The buffer's slots do not fit in memory.
    OutOfMemory { slots: u64 },
    /// A length was set that contradicts what was emitted or set before.
    Length { given: u64, required: String },
}

impl From<(u64, TryReserveError)> for ShuffleError {
    fn from((slots, _): (u64, TryReserveError)) -> Self {
        ShuffleError::OutOfMemory { slots }
    }
}

/// The order in which a shuffle buffer emits the rows of an input.
///
/// Emission `t` takes a uniformly drawn slot of the `min(buffer_size, length - t)` live ones. The
/// slot then holds input row `t + buffer_size`, or the last live slot once the input has ended.
/// The order is a function of the key, the buffer size and the length alone.
#[derive(Debug)]
pub struct Shuffle {
    rng: Rng,
    buffer_size: u64,
    length: Option<u64>,
    emitted: u64,
    slots: Option<Vec<i64>>,
    last_slot: usize,
}

impl Shuffle {
    pub fn new(key: u64, buffer_size: u64, length: Option<u64>) -> Self {
        assert!(buffer_size > 0, "a shuffle buffer has at least one slot");
        Self {
            rng: Rng::new(key),
            buffer_size,
            length,
            emitted: 0,
            slots: None,
            last_slot: 0,
        }
    }

    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// How many input rows must exist before `k` more may be emitted.
    pub fn needed(&self, k: u64) -> u64 {
        if k == 0 {
            return self.promised();
        }
        let last = self.emitted.saturating_add(k - 1);
        let needed = last.saturating_add(self.buffer_size);
        self.length.map_or(needed, |length| needed.min(length))
    }

    /// How many of `k` emissions are left to make.
    pub fn available(&self, k: u64) -> u64 {
        self.length.map_or(k, |length| k.min(length - self.emitted))
    }

    /// Emits up to `k` row indices into `sink` and returns how many.
    pub fn emit(&mut self, k: u64, mut sink: impl FnMut(i64)) -> Result<u64, ShuffleError> {
        let count = self.available(k);
        if count == 0 {
            return Ok(0);
        }
        let steady = self.refilled(count);
        let mut slots = match self.slots.take() {
            Some(slots) => slots,
            None => self.first_slots()?,
        };
        for _ in 0..steady {
            self.last_slot = self.rng.below(self.buffer_size) as usize;
            let next = (self.emitted + self.buffer_size) as i64;
            sink(std::mem::replace(&mut slots[self.last_slot], next));
            self.emitted += 1;
        }
        for _ in steady..count {
            let slot = self.rng.below(slots.len() as u64) as usize;
            sink(slots.swap_remove(slot));
            self.emitted += 1;
        }
        self.slots = Some(slots);
        Ok(count)
    }

    /// Says where the input ends. It must not end before a row that was counted on.
    pub fn set_length(&mut self, length: u64) -> Result<(), ShuffleError> {
        if let Some(known) = self.length {
            return if known == length {
                Ok(())
            } else {
                Err(length_error(length, format!("{known}, as set before")))
            };
        }
        let promised = self.promised();
        if length < promised {
            let emitted = self.emitted;
            let reason = format!("at least {promised}: {emitted} rows were emitted from them");
            return Err(length_error(length, reason));
        }
        self.length = Some(length);
        if length == promised {
            // The last emission left its slot to a row that turns out not to exist.
            if let Some(slots) = self.slots.as_mut() {
                slots.swap_remove(self.last_slot);
            }
        }
        Ok(())
    }

    /// How many input rows the emissions so far have relied on.
    fn promised(&self) -> u64 {
        if self.emitted == 0 {
            return 0;
        }
        let relied = (self.emitted - 1).saturating_add(self.buffer_size);
        self.length.map_or(relied, |length| relied.min(length))
    }

    /// How many of the next `count` emissions hand their slot to another input row.
    fn refilled(&self, count: u64) -> u64 {
        let Some(length) = self.length else {
            return count;
        };
        let used = self.emitted.saturating_add(self.buffer_size);
        length.saturating_sub(used).min(count)
    }

    fn first_slots(&self) -> Result<Vec<i64>, ShuffleError> {
        let live = self.length.unwrap_or(u64::MAX).min(self.buffer_size);
        let mut slots: Vec<i64> = Vec::new();
        slots
            .try_reserve_exact(usize::try_from(live).unwrap_or(usize::MAX))
            .map_err(|error| (live, error))?;
        slots.extend(0..live as i64);
        Ok(slots)
    }
}

fn length_error(given: u64, required: String) -> ShuffleError {
    ShuffleError::Length { given, required }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(shuffle: &mut Shuffle, k: u64) -> Vec<i64> {
        let mut rows = Vec::new();
        shuffle.emit(k, |row| rows.push(row)).unwrap();
        rows
    }

    fn all(key: u64, buffer_size: u64, length: u64) -> Vec<i64> {
        take(&mut Shuffle::new(key, buffer_size, Some(length)), u64::MAX)
    }

    #[test]
    fn every_row_is_emitted_once() {
        for (buffer_size, length) in [(1, 9), (4, 9), (9, 9), (100, 9), (3, 0), (5, 4)] {
            let mut rows = all(3, buffer_size, length);
            rows.sort_unstable();
            assert_eq!(rows, (0..length as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_row_is_never_emitted_before_it_was_read() {
        let rows = all(11, 16, 1000);
        assert!((0i64..).zip(&rows).all(|(t, &row)| row < t + 16));
    }

    #[test]
    fn one_slot_keeps_the_order() {
        assert_eq!(all(5, 1, 6), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_length_found_later_gives_the_same_order() {
        for (length, before) in [(20, 13), (20, 12), (8, 0), (3, 0), (8, 1), (0, 0)] {
            let mut shuffle = Shuffle::new(9, 8, None);
            let mut rows = take(&mut shuffle, before);
            shuffle.set_length(length).unwrap();
            rows.extend(take(&mut shuffle, u64::MAX));
            assert_eq!(
                rows,
                all(9, 8, length),
                "length {length} set after {before}"
            );
        }
    }

    #[test]
    fn a_length_below_what_was_emitted_is_refused() {
        let mut shuffle = Shuffle::new(1, 8, None);
        take(&mut shuffle, 3);
        assert_eq!(shuffle.needed(0), 10);
        assert!(shuffle.set_length(9).is_err());
        shuffle.set_length(10).unwrap();
        assert!(shuffle.set_length(11).is_err());
        assert_eq!(take(&mut shuffle, 100).len(), 7);
    }

    #[test]
    fn a_buffer_beyond_memory_is_an_error() {
        let mut shuffle = Shuffle::new(1, i64::MAX as u64, None);
        let error = shuffle.emit(1, |_| ()).unwrap_err();
        assert!(matches!(error, ShuffleError::OutOfMemory { .. }));
    }
}
