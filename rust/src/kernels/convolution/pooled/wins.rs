//! The outputs of an image that won their windows, by feature.

use super::super::scratch::Buffer;
use super::gradient::PooledGradient;
use super::steps::Steps;
use super::windows::NONE;
use std::ops::Range;

/// An output that won its window.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Win {
    /// From the first number that the kernel covers of the image to what it covers for this output.
    pub step: u32,
    /// The gradient of the output.
    pub gradient: f32,
}

/// The wins of some rows of windows.
pub struct Wins {
    wins: *const Win,
    counts: *const u32,
    most: usize,
}

impl Wins {
    /// Lists the wins of some rows of windows of an image, window by window for each feature.
    ///
    /// # Safety
    /// The gradient has as many numbers as its windows and the features say.
    #[inline(always)]
    pub unsafe fn list(
        gradient: &PooledGradient,
        steps: &Steps,
        features: usize,
        (image, rows): (usize, Range<usize>),
        (wins, counts): (&mut Buffer, &mut Buffer),
    ) -> Self {
        let w = &gradient.windows;
        let most = rows.len() * w.columns;
        let wins = wins.room(2 * most * features).cast::<Win>();
        let counts = counts.room(features).cast::<u32>();
        counts.write_bytes(0, features);
        for row in rows {
            for column in 0..w.columns {
                let at = ((image * w.rows + row) * w.columns + column) * features;
                let window = steps.to_window(row, column);
                for f in 0..features {
                    let winner = *gradient.winners.add(at + f);
                    let count = counts.add(f);
                    // Written in any case, and overwritten unless it counts: no branch to predict.
                    *wins.add(f * most + *count as usize) = Win {
                        step: window + steps.to_winner(winner),
                        gradient: *gradient.values.add(at + f),
                    };
                    *count += u32::from(winner != NONE);
                }
            }
        }
        Self { wins, counts, most }
    }

    /// The wins of one feature.
    ///
    /// # Safety
    /// The buffers have not changed since, and there is such a feature.
    #[inline(always)]
    pub unsafe fn of(&self, feature: usize) -> &[Win] {
        let count = *self.counts.add(feature) as usize;
        std::slice::from_raw_parts(self.wins.add(feature * self.most), count)
    }
}
