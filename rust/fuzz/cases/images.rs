//! Image files: whatever the bytes, there is an image within the limits, or a defect.

use _core::images::image::{Limits, Window};
use _core::images::jpeg::{self, Request};
use _core::images::{bmp, gif, png};

const LIMITS: Limits = Limits {
    pixels: 1 << 20,
    bytes: 1 << 22,
    expansion: 2000,
};

fn request(ratio: usize, channels: usize, recover: bool) -> Request {
    Request {
        channels,
        ratio,
        smooth: !recover,
        recover,
        acceptable: 0.5,
        limits: LIMITS,
    }
}

fn jpegs(bytes: &[u8]) {
    let zeros = |length: usize| vec![0; length];
    let whole = jpeg::decode(bytes, &request(1, 3, false), |_, _| Ok(None), zeros);
    let shape = jpeg::shape(bytes);
    for (ratio, channels) in [(2, 0), (4, 1), (8, 3)] {
        let _ = jpeg::decode(
            bytes,
            &request(ratio, channels, true),
            |_, _| Ok(None),
            zeros,
        );
    }
    let Ok(whole) = whole else { return };
    assert_eq!(
        shape.map(|[height, width, _]| (height, width)),
        Ok((whole.height, whole.width))
    );
    let (top, left) = (whole.height / 3, whole.width / 2);
    let (height, width) = (whole.height - top, whole.width - left);
    let window = Window {
        top,
        left,
        height,
        width,
    };
    let part = jpeg::decode(bytes, &request(1, 3, false), |_, _| Ok(Some(window)), zeros);
    let part = part.expect("a window of an image that can be decoded");
    if part.data.iter().all(|&value| value == 0) {
        return;
    }
    for (y, row) in part.data.chunks_exact(width * 3).enumerate() {
        let start = ((top + y) * whole.width + left) * 3;
        assert_eq!(row, &whole.data[start..start + width * 3]);
    }
}

pub fn run(bytes: &[u8]) {
    let any = bytes.len();
    match bytes.first() {
        Some(0xff) => jpegs(bytes),
        Some(b'G') => gifs(bytes, any % 2 == 0),
        Some(b'B') => drop(bmp::decode(bytes, [0, 1, 3, 4][any % 4], &LIMITS)),
        _ => {
            for wide in [false, true] {
                let _ = png::decode(bytes, any % 5, wide, &LIMITS);
            }
        }
    }
}

fn gifs(bytes: &[u8], first_only: bool) {
    let Ok(found) = gif::decode(bytes, first_only, &LIMITS) else {
        return;
    };
    let size = found.height * found.width * 3;
    assert!(found.frames == 1 || !first_only);
    assert_eq!(found.data.len(), found.frames * size);
}
