//! Numbers that are moved within their row, converted to `f32`, and computed with constants.
//!
//! It rounds where XLA's programs round, and as these do takes denormal numbers for zeros.

use super::arithmetic::{apply, multiply_add, Step};
use super::vectorized::vectorized;
use crate::kernels::all_reduce::denormals::Flushed;

/// A number that `f32` is made of, rounded to nearest.
pub trait Number: Copy + Default {
    fn to_f32(self) -> f32;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
        })*
    };
}
numbers!(u8, i8, u16, i16, i32, f32);

/// Where the numbers of a result are found in a row: runs of neighbours, by size and stride.
#[derive(Debug, PartialEq)]
pub struct Layout {
    offset: usize,
    /// The outermost first.
    dims: Vec<(usize, isize)>,
    run: usize,
    row: usize,
    size: usize,
}

impl Layout {
    /// Of results with these `sizes`, in rows of `row` numbers; `None` if they leave the row.
    pub fn new(row: usize, offset: usize, sizes: &[usize], strides: &[isize]) -> Option<Self> {
        if sizes.len() != strides.len() || sizes.contains(&0) {
            return None;
        }
        let (mut first, mut last) = (isize::try_from(offset).ok()?, isize::try_from(offset).ok()?);
        let mut dims: Vec<(usize, isize)> = Vec::new();
        let mut size = 1usize;
        for (&count, &stride) in sizes.iter().zip(strides).filter(|(&count, _)| count > 1) {
            let reach = isize::try_from(count - 1).ok()?.checked_mul(stride)?;
            let end = if reach < 0 { &mut first } else { &mut last };
            *end = end.checked_add(reach)?;
            size = size.checked_mul(count)?;
            match dims.last_mut() {
                Some((outer, step)) if Some(*step) == stride.checked_mul(count as isize) => {
                    (*outer, *step) = (*outer * count, stride);
                }
                _ => dims.push((count, stride)),
            }
        }
        if first < 0 || last >= isize::try_from(row).ok()? {
            return None;
        }
        let run = match dims.last() {
            Some(&(count, 1)) => {
                dims.pop();
                count
            }
            _ => 1,
        };
        Some(Self {
            offset,
            dims,
            run,
            row,
            size,
        })
    }

    /// Numbers in a row of the input.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Numbers in a row of the result.
    pub fn size(&self) -> usize {
        self.size
    }

    fn moves_nothing(&self) -> bool {
        self.run == self.row
    }

    /// Puts a row's numbers in the order of the result.
    fn arrange<S: Number>(&self, row: &[S], out: &mut [S]) {
        match self.run {
            1 => self.arrange_runs::<S, 1>(row, out),
            2 => self.arrange_runs::<S, 2>(row, out),
            3 => self.arrange_runs::<S, 3>(row, out),
            4 => self.arrange_runs::<S, 4>(row, out),
            _ => self.arrange_runs::<S, 0>(row, out),
        }
    }

    /// `RUN` is the length of runs, or zero for any.
    fn arrange_runs<S: Number, const RUN: usize>(&self, row: &[S], out: &mut [S]) {
        let run = if RUN == 0 { self.run } else { RUN };
        let (&(count, stride), outer) = self.dims.split_last().unwrap_or((&(1, 0), &[]));
        let mut index = vec![0usize; outer.len()];
        let mut start = self.offset as isize;
        for line in out.chunks_exact_mut(count * run) {
            let mut at = start;
            for to in line.chunks_exact_mut(run) {
                let from = &row[at as usize..at as usize + run];
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from;
                }
                at += stride;
            }
            for (place, &(count, stride)) in index.iter_mut().zip(outer).rev() {
                *place += 1;
                start += stride;
                if *place < count {
                    break;
                }
                start -= stride * count as isize;
                *place = 0;
            }
        }
    }
}

/// What is computed for each row.
pub struct Program {
    layout: Layout,
    steps: Vec<Step>,
}

impl Program {
    /// The constants of `steps` are repeated in each row a whole number of times.
    pub fn new(layout: Layout, steps: Vec<Step>) -> Self {
        Self { layout, steps }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Computes whole rows.
    pub fn run<S: Number>(&self, rows: &[S], out: &mut [f32]) {
        let _flushed = Flushed::new();
        let Layout { row, size, .. } = self.layout;
        if self.layout.moves_nothing() {
            return self.compute(&rows[..out.len()], out);
        }
        let mut arranged = vec![S::default(); size];
        for (row, out) in rows.chunks_exact(row).zip(out.chunks_exact_mut(size)) {
            if self.layout.dims.is_empty() {
                self.compute(&row[self.layout.offset..][..size], out);
            } else {
                self.layout.arrange(row, &mut arranged);
                self.compute(&arranged, out);
            }
        }
    }

    fn compute<S: Number>(&self, values: &[S], out: &mut [f32]) {
        let Some((first, others)) = self.steps.split_first() else {
            return convert(values, out);
        };
        // Whole repetitions of the constants, which stay in the first cache if they are few.
        let length = first.constants();
        for (values, out) in values.chunks(length).zip(out.chunks_mut(length)) {
            match first {
                Step::Add(added) => convert_add(values, out, added),
                Step::Multiply(factors) => convert_multiply(values, out, factors),
                Step::MultiplyAdd(factors, added) => {
                    convert(values, out);
                    multiply_add(out, factors, added);
                }
            }
            apply(others, out);
        }
    }
}

vectorized! {
    fn convert [S: Number] [S] (values: &[S], out: &mut [f32]) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value.to_f32();
        }
    }
}

vectorized! {
    fn convert_add [S: Number] [S] (values: &[S], out: &mut [f32], added: &[f32]) {
        for ((out, value), added) in out.iter_mut().zip(values).zip(added) {
            *out = value.to_f32() + added;
        }
    }
}

vectorized! {
    fn convert_multiply [S: Number] [S] (values: &[S], out: &mut [f32], factors: &[f32]) {
        for ((out, value), factor) in out.iter_mut().zip(values).zip(factors) {
            *out = value.to_f32() * factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arithmetic::Step;
    use super::{Layout, Program};

    fn multiplied(factors: &[f32], channels: usize) -> Vec<Step> {
        vec![Step::named("mul", [factors, &[]], channels).unwrap()]
    }

    #[test]
    fn rows_are_turned_by_pixels() {
        // 2 x 3 pixels of 2 channels, each line from right to left.
        let layout = Layout::new(12, 4, &[2, 3, 2], &[6, -2, 1]).unwrap();
        let rows: Vec<u8> = (0..24).collect();
        let mut out = vec![0.0; 24];
        Program::new(layout, multiplied(&[1.0, 10.0], 2)).run(&rows, &mut out);
        let wanted: Vec<f32> = (0..24)
            .map(|i| {
                let (line, x, channel) = (i / 6, i / 2 % 3, i % 2);
                let value = line * 6 + (2 - x) * 2 + channel;
                value as f32 * if channel == 0 { 1.0 } else { 10.0 }
            })
            .collect();
        assert_eq!(out, wanted);
    }

    #[test]
    fn rows_are_transposed_and_cut() {
        // The last two of three columns of 4 numbers, as lines.
        let layout = Layout::new(12, 1, &[2, 4], &[1, 3]).unwrap();
        let rows: Vec<i16> = (0..24).map(|i| -i).collect();
        let mut out = vec![0.0; 16];
        Program::new(layout, vec![]).run(&rows, &mut out);
        let of_row = |row: i16| (0..8).map(move |i| f32::from(-(row * 12 + i / 4 + 1 + i % 4 * 3)));
        assert_eq!(out, (0..2).flat_map(of_row).collect::<Vec<_>>());
    }

    #[test]
    fn neighbouring_dimensions_are_one() {
        let layout = Layout::new(24, 0, &[2, 3, 4], &[12, 4, 1]).unwrap();
        assert!(layout.moves_nothing());
        let cut = Layout::new(24, 4, &[1, 3, 4], &[12, 4, 1]).unwrap();
        assert_eq!((cut.run, cut.dims.len(), cut.size), (12, 0, 12));
        let rows: Vec<i32> = (0..48).collect();
        let mut out = vec![0.0; 24];
        Program::new(cut, vec![]).run(&rows, &mut out);
        let wanted = (4..16).chain(28..40).map(|i| i as f32);
        assert_eq!(out, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn what_leaves_the_row_is_refused() {
        assert_eq!(Layout::new(12, 0, &[13], &[1]), None);
        assert_eq!(Layout::new(12, 1, &[4], &[-1]), None);
        assert_eq!(Layout::new(12, 0, &[0], &[1]), None);
        assert_eq!(Layout::new(12, 0, &[2, 2], &[1]), None);
        assert_eq!(Layout::new(12, 0, &[3, 3], &[isize::MAX, 1]), None);
    }
}
