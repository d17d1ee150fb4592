//! `arrange_images`: windows of images, turned and mirrored.

use super::pixels::{Images, Pixels};
use super::rows;
use crate::images::arrange::{arrange, Placement};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray3};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// First row and column, height and width, and what is done then: 1 to transpose, 2 to turn
/// upside down, 4 to mirror, added.
type Given = [i64; 5];

/// Bytes of a result.
const LARGEST: usize = 1 << 34;

/// Windows of images, beyond which there are zeros; as bytes (height, width, bytes of a pixel).
#[pyfunction]
pub fn arrange_images(
    images: &Bound<'_, PyAny>,
    placements: Vec<Given>,
) -> PyResult<Vec<Py<PyArray3<u8>>>> {
    let py = images.py();
    let images = Images::new(images)?;
    if placements.len() != images.rows.len() {
        let (given, count) = (placements.len(), images.rows.len());
        let message = format!("{given} placements of {count} images");
        return Err(PyValueError::new_err(message));
    }
    let placements = placements.into_iter().map(placement_of);
    let placements: Vec<Placement> = placements.collect::<PyResult<_>>()?;
    let sources = &images.rows;
    for (image, placement) in sources.iter().zip(&placements) {
        let row = placement.width.checked_mul(image.channels * image.size);
        if row
            .and_then(|row| row.checked_mul(placement.height))
            .is_none_or(|size| size > LARGEST)
        {
            let (height, width) = (placement.height, placement.width);
            let message = format!("a window of {height} x {width} pixels is too large");
            return Err(PyValueError::new_err(message));
        }
    }
    let arranged = rows(py, sources.len(), |row| {
        Ok(arranged(&sources[row], &placements[row]))
    });
    let arrays = arranged
        .into_iter()
        .flatten()
        .map(|array| array.into_pyarray(py).unbind());
    Ok(arrays.collect())
}

fn arranged(image: &Pixels, placement: &Placement) -> Array3<u8> {
    let pixel = image.channels * image.size;
    let (height, width) = placement.shape();
    let mut out = Array3::zeros((height, width, pixel));
    // SAFETY: the caller holds the image.
    let bytes = unsafe { image.bytes() };
    let to = out.as_slice_mut().unwrap_or_default();
    arrange(bytes, (image.height, image.width), pixel, placement, to);
    out
}

fn placement_of([top, left, height, width, turn]: Given) -> PyResult<Placement> {
    let (Ok(height), Ok(width), 0..8) = (usize::try_from(height), usize::try_from(width), turn)
    else {
        let message = format!("a window of {height} x {width} pixels, turned by {turn}");
        return Err(PyValueError::new_err(message));
    };
    Ok(Placement {
        top,
        left,
        height,
        width,
        transposed: turn & 1 != 0,
        upside_down: turn & 2 != 0,
        mirrored: turn & 4 != 0,
    })
}
