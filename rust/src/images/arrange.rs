//! Windows of images, with zeros around them, turned and mirrored.

/// What is taken of an image: a window, which may reach beyond it, and then its orientation.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    pub top: i64,
    pub left: i64,
    pub height: usize,
    pub width: usize,
    pub transposed: bool,
    pub upside_down: bool,
    pub mirrored: bool,
}

impl Placement {
    /// Height and width of the result.
    pub fn shape(&self) -> (usize, usize) {
        match self.transposed {
            true => (self.width, self.height),
            false => (self.height, self.width),
        }
    }
}

/// Writes the result; a pixel has `pixel` bytes.
pub fn arrange(
    bytes: &[u8],
    (height, width): (usize, usize),
    pixel: usize,
    placement: &Placement,
    out: &mut [u8],
) {
    let (rows, columns) = placement.shape();
    if columns * pixel == 0 {
        return;
    }
    for (y, line) in out.chunks_exact_mut(columns * pixel).enumerate() {
        let y = if placement.upside_down {
            rows - 1 - y
        } else {
            y
        };
        if placement.transposed {
            column(bytes, (height, width), pixel, placement, y, line);
        } else {
            row(bytes, (height, width), pixel, placement, y, line);
        }
        if placement.mirrored {
            mirror(line, pixel);
        }
    }
}

/// A row of the window.
fn row(
    bytes: &[u8],
    shape: (usize, usize),
    pixel: usize,
    of: &Placement,
    y: usize,
    line: &mut [u8],
) {
    let (height, width) = shape;
    let source = inside(of.top, y, height);
    let (before, count) = overlap(of.left, of.width, width);
    let (Some(source), true) = (source, count > 0) else {
        return line.fill(0);
    };
    let first = (of.left.max(0) as usize + source * width) * pixel;
    let (left, rest) = line.split_at_mut(before * pixel);
    let (middle, right) = rest.split_at_mut(count * pixel);
    left.fill(0);
    middle.copy_from_slice(&bytes[first..first + count * pixel]);
    right.fill(0);
}

/// A column of the window.
fn column(
    bytes: &[u8],
    shape: (usize, usize),
    pixel: usize,
    of: &Placement,
    x: usize,
    line: &mut [u8],
) {
    let (height, width) = shape;
    let source = inside(of.left, x, width);
    for (y, out) in line.chunks_exact_mut(pixel).enumerate() {
        match (inside(of.top, y, height), source) {
            (Some(y), Some(x)) => out.copy_from_slice(&bytes[(y * width + x) * pixel..][..pixel]),
            _ => out.fill(0),
        }
    }
}

fn inside(start: i64, step: usize, limit: usize) -> Option<usize> {
    let at = usize::try_from(start.checked_add(step as i64)?).ok()?;
    (at < limit).then_some(at)
}

/// Where a window of one dimension first overlaps the image, and for how long.
fn overlap(start: i64, size: usize, limit: usize) -> (usize, usize) {
    let before = start.min(0).unsigned_abs() as usize;
    let first = start.max(0) as usize;
    let count = size.saturating_sub(before).min(limit.saturating_sub(first));
    (before.min(size), count)
}

fn mirror(line: &mut [u8], pixel: usize) {
    match pixel {
        1 => line.reverse(),
        3 => by_pixels::<3>(line),
        12 => by_pixels::<12>(line),
        _ => {
            line.reverse();
            line.chunks_exact_mut(pixel).for_each(<[u8]>::reverse);
        }
    }
}

fn by_pixels<const N: usize>(line: &mut [u8]) {
    let half = line.len() / N / 2 * N;
    let (left, rest) = line.split_at_mut(half);
    let from_right = rest.chunks_exact_mut(N).rev();
    for (a, b) in left.chunks_exact_mut(N).zip(from_right) {
        a.swap_with_slice(b);
    }
}
