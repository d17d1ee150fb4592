//! Copies of the nearest pixels.

/// Writes an image of other size; a pixel has `pixel` bytes.
pub fn nearest(
    bytes: &[u8],
    (height, width): (usize, usize),
    pixel: usize,
    (new_height, new_width): (usize, usize),
    out: &mut [u8],
) {
    let columns: Vec<usize> = (0..new_width).map(|x| place(x, width, new_width)).collect();
    for (y, out) in out.chunks_exact_mut(new_width * pixel).enumerate() {
        let row = &bytes[place(y, height, new_height) * width * pixel..][..width * pixel];
        for (out, &x) in out.chunks_exact_mut(pixel).zip(&columns) {
            out.copy_from_slice(&row[x * pixel..][..pixel]);
        }
    }
}

/// As TensorFlow rounds: in single precision.
fn place(at: usize, input: usize, output: usize) -> usize {
    let scale = input as f32 / output as f32;
    (((at as f32 + 0.5) * scale).floor() as usize).min(input - 1)
}
