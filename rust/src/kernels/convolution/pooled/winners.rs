//! The features of which an output won its window, by output.

use super::super::geometry::groups;
use super::super::scratch::Buffer;
use super::gradient::PooledGradient;
use std::ops::Range;

/// Windows of which the winners are listed at a time.
const CHUNK_WINDOWS: usize = 48;

/// A feature of which an output won its window.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Winner {
    pub feature: u32,
    /// The gradient of the output.
    pub gradient: f32,
}

/// The winners of some windows.
pub struct Winners {
    winners: *const Winner,
    counts: *const u32,
    lists: usize,
    features: usize,
}

impl Winners {
    /// The windows of an image in parts to list.
    pub fn chunks(gradient: &PooledGradient) -> impl Iterator<Item = Range<usize>> {
        groups(gradient.windows.count(), CHUNK_WINDOWS)
    }

    /// Lists the winners of some windows of an image, feature by feature for each output.
    ///
    /// # Safety
    /// The gradient has as many numbers as its windows and the features say.
    #[inline(always)]
    pub unsafe fn list(
        gradient: &PooledGradient,
        features: usize,
        (image, windows): (usize, Range<usize>),
        (winners, counts): (&mut Buffer, &mut Buffer),
    ) -> Self {
        let area = gradient.windows.area();
        // What won nowhere goes to a list of its own.
        let lists = area + 1;
        let winners = winners
            .room(2 * windows.len() * lists * features)
            .cast::<Winner>();
        let counts = counts.room(windows.len() * lists).cast::<u32>();
        counts.write_bytes(0, windows.len() * lists);
        for (number, window) in windows.enumerate() {
            let at = (image * gradient.windows.count() + window) * features;
            for f in 0..features {
                let output = usize::from(*gradient.winners.add(at + f)).min(area);
                let list = number * lists + output;
                let count = counts.add(list);
                *winners.add(list * features + *count as usize) = Winner {
                    feature: f as u32,
                    gradient: *gradient.values.add(at + f),
                };
                *count += 1;
            }
        }
        Self {
            winners,
            counts,
            lists,
            features,
        }
    }

    /// The features of which output `output` won, of the window `number` of those listed.
    ///
    /// # Safety
    /// The buffers have not changed since, and there are such a window and such an output.
    #[inline(always)]
    pub unsafe fn of(&self, number: usize, output: usize) -> &[Winner] {
        let list = number * self.lists + output;
        let count = *self.counts.add(list) as usize;
        std::slice::from_raw_parts(self.winners.add(list * self.features), count)
    }
}
