//! Runs of rows copied from one buffer to another: ragged rows gathered, padded and packed.

/// What is wrong with a run.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRun {
    pub run: usize,
    pub start: i64,
    pub length: i64,
    /// Whether it is the source that has no such rows.
    pub reads: bool,
}

/// Copies, for each run `k`, the rows `from[k] .. from[k] + lengths[k]` of `src` to `to[k] ..` of
/// `out`; rows have `width` bytes. Nothing is copied when a run is bad.
pub fn copy_runs(
    src: &[u8],
    out: &mut [u8],
    width: usize,
    runs: &[(i64, i64, i64)],
) -> Result<(), BadRun> {
    let (readable, writable) = match width {
        0 => (i64::MAX, i64::MAX),
        _ => ((src.len() / width) as i64, (out.len() / width) as i64),
    };
    for (run, &(from, to, length)) in runs.iter().enumerate() {
        for (start, rows, reads) in [(from, readable, true), (to, writable, false)] {
            if start < 0 || length < 0 || start > rows || length > rows - start {
                return Err(BadRun {
                    run,
                    start,
                    length,
                    reads,
                });
            }
        }
    }
    for &(from, to, length) in runs {
        let (from, to) = (from as usize * width, to as usize * width);
        let bytes = length as usize * width;
        out[to..to + bytes].copy_from_slice(&src[from..from + bytes]);
    }
    Ok(())
}

/// Places each length into the first bin with room, opening bins as needed.
///
/// Returns the bin of each, where in the bin it starts, and how many bins there are.
/// Lengths lie in `0..=capacity`; bins that are full are passed over for good.
pub fn first_fit(lengths: &[i64], capacity: i64) -> (Vec<i64>, Vec<i64>, usize) {
    let mut used: Vec<i64> = Vec::new();
    let mut open = 0;
    let (mut bins, mut starts) = (Vec::new(), Vec::new());
    for &length in lengths {
        let fits = |&bin: &usize| used[bin] + length <= capacity;
        let bin = (open..used.len()).find(fits).unwrap_or(used.len());
        if bin == used.len() {
            used.push(0);
        }
        bins.push(bin as i64);
        starts.push(used[bin]);
        used[bin] += length;
        while open < used.len() && used[open] == capacity {
            open += 1;
        }
    }
    (bins, starts, used.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_copied_in_rows() {
        let src: Vec<u8> = (0..12).collect();
        let mut out = vec![99; 8];
        copy_runs(&src, &mut out, 2, &[(4, 0, 2), (0, 3, 1), (6, 4, 0)]).unwrap();
        assert_eq!(out, [8, 9, 10, 11, 99, 99, 0, 1]);
    }

    #[test]
    fn bad_runs_are_named_and_nothing_is_copied() {
        let mut out = vec![0; 4];
        let bad = |run, start, length, reads| {
            Err(BadRun {
                run,
                start,
                length,
                reads,
            })
        };
        let mut copy = |runs: &[(i64, i64, i64)]| copy_runs(&[1, 2, 3], &mut out, 1, runs);
        assert_eq!(copy(&[(0, 0, 1), (2, 0, 2)]), bad(1, 2, 2, true));
        assert_eq!(copy(&[(0, 3, 2)]), bad(0, 3, 2, false));
        assert_eq!(copy(&[(-1, 0, 1)]), bad(0, -1, 1, true));
        assert_eq!(copy(&[(0, 0, -1)]), bad(0, 0, -1, true));
        assert_eq!(
            copy(&[(i64::MAX, 0, i64::MAX)]),
            bad(0, i64::MAX, i64::MAX, true)
        );
        assert_eq!(out, [0; 4]);
    }

    #[test]
    fn first_fit_fills_the_first_bin_with_room() {
        let (bins, starts, count) = first_fit(&[6, 5, 4, 10, 5, 0], 10);
        assert_eq!(bins, [0, 1, 0, 2, 1, 3]);
        assert_eq!(starts, [0, 0, 6, 0, 5, 0]);
        assert_eq!(count, 4);
        assert_eq!(first_fit(&[], 3).2, 0);
    }
}
