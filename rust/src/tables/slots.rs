//! Which places of a table rows are in that come in order and leave in any.

use std::collections::VecDeque;

const NOWHERE: u32 = u32::MAX;

/// The places of rows by their numbers, and which places are free.
#[derive(Default)]
pub struct Slots {
    /// The number that `places` begins with.
    first: u64,
    places: VecDeque<u32>,
    free: Vec<u32>,
    size: u32,
}

impl Slots {
    /// How many places were ever used.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The places for `count` rows from `number` on, which is past all before; None if it is not,
    /// or if there are too many rows.
    pub fn put(&mut self, number: u64, count: usize) -> Option<Vec<i64>> {
        let end = self.first + self.places.len() as u64;
        if self.places.is_empty() {
            self.first = number.max(end);
        }
        let passed = usize::try_from(number.checked_sub(end)?).ok()?;
        let further = count.saturating_sub(self.free.len());
        if self.size() + further >= NOWHERE as usize {
            return None;
        }
        if !self.places.is_empty() {
            self.places.extend(std::iter::repeat_n(NOWHERE, passed));
        }
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.free.pop().unwrap_or_else(|| {
                self.size += 1;
                self.size - 1
            });
            self.places.push_back(place);
            found.push(place.into());
        }
        Some(found)
    }

    /// The places of rows, which are free from now on; the position of a number that has none, or
    /// not any more, if there is one.
    pub fn take(&mut self, numbers: impl Iterator<Item = i64>) -> Result<Vec<i64>, usize> {
        let mut found = Vec::with_capacity(numbers.size_hint().0);
        for (position, number) in numbers.enumerate() {
            let at = u64::try_from(number)
                .ok()
                .and_then(|n| n.checked_sub(self.first));
            let at = at.and_then(|at| usize::try_from(at).ok());
            let place = at.and_then(|at| self.places.get_mut(at)).ok_or(position)?;
            match std::mem::replace(place, NOWHERE) {
                NOWHERE => return Err(position),
                place => {
                    self.free.push(place);
                    found.push(place.into());
                }
            }
            while self.places.front() == Some(&NOWHERE) {
                self.places.pop_front();
                self.first += 1;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::rng::mix64;
    use std::collections::HashMap;

    #[test]
    fn places_are_those_of_a_map() {
        let (mut slots, mut held) = (Slots::default(), HashMap::new());
        let mut number = 0u64;
        for round in 0..2_000 {
            number += mix64(round, 0) % 3;
            let count = mix64(round, 1) % 5;
            let places = slots.put(number, count as usize).unwrap();
            for place in places {
                assert!(!held.values().any(|&other| other == place));
                held.insert(number as i64, place);
                number += 1;
            }
            let mut wanted: Vec<i64> = held.keys().copied().collect();
            wanted.sort_unstable_by_key(|&n| mix64(round, n as u64));
            wanted.truncate((mix64(round, 2) % 5) as usize);
            let expected: Vec<i64> = wanted.iter().map(|n| held.remove(n).unwrap()).collect();
            assert_eq!(slots.take(wanted.iter().copied()), Ok(expected));
            if let Some(&gone) = wanted.first() {
                assert_eq!(slots.take([gone].into_iter()), Err(0));
            }
            assert!(slots.size() < 2_000);
        }
        assert_eq!(slots.put(number.saturating_sub(1), 1), None);
        assert_eq!(slots.take([-1].into_iter()), Err(0));
    }
}
