//! The gradient of a convolution's outputs, as the gradient of what was pooled of them.

use super::windows::Windows;

/// The gradient of pooled values, and the winners of their windows.
#[derive(Clone, Copy)]
pub struct PooledGradient {
    pub windows: Windows,
    pub values: *const f32,
    pub winners: *const u8,
}

impl PooledGradient {
    /// Writes the gradient of one image's outputs: zeros but for the winners.
    ///
    /// # Safety
    /// The pointers lead to what sizes and windows say, `out` to the outputs of one image.
    #[inline(always)]
    pub unsafe fn unpool(
        &self,
        (rows, columns, features): (usize, usize, usize),
        image: usize,
        out: *mut f32,
    ) {
        let w = &self.windows;
        let at = image * w.count() * features;
        for h in 0..rows {
            let row = out.add(h * columns * features);
            let (window_row, down) = (h / w.height, h % w.height);
            let within = if window_row < w.rows { w.columns } else { 0 };
            for column in 0..within {
                let first = at + (window_row * w.columns + column) * features;
                let values = std::slice::from_raw_parts(self.values.add(first), features);
                let winners = std::slice::from_raw_parts(self.winners.add(first), features);
                for right in 0..w.width {
                    let number = (down * w.width + right) as u8;
                    let pixel = row.add((column * w.width + right) * features);
                    let pixel = std::slice::from_raw_parts_mut(pixel, features);
                    for f in 0..features {
                        pixel[f] = if winners[f] == number { values[f] } else { 0.0 };
                    }
                }
            }
            let rest = within * w.width;
            row.add(rest * features)
                .write_bytes(0, (columns - rest) * features);
        }
    }

    /// Whether an output of an image, at a row and a column, won its window.
    ///
    /// # Safety
    /// There are as many winners.
    pub unsafe fn won(
        &self,
        (image, h, q): (usize, usize, usize),
        f: usize,
        features: usize,
    ) -> bool {
        let w = &self.windows;
        let (row, column) = (h / w.height, q / w.width);
        if row >= w.rows || column >= w.columns {
            return false;
        }
        let number = h % w.height * w.width + q % w.width;
        let at = image * w.count() + row * w.columns + column;
        usize::from(*self.winners.add(at * features + f)) == number
    }
}
