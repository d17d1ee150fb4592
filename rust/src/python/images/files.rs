//! Decoding and encoding of other files than JPEG; columns of bytes.

use super::pixels::Images;
use super::{limits_of, rows, until_failure, Sizes, Told};
use crate::images::defect::Defect;
use crate::images::image::Image;
use crate::images::{bmp, encode, gif, png};
use numpy::ndarray::{Array3, Array4};
use numpy::{Element, IntoPyArray, PyArrayMethods, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

type Arrays = (Vec<Py<PyUntypedArray>>, Option<Told>);
type Files = (Vec<Py<PyBytes>>, Option<Told>);

/// Decode PNG files to values of 8 bits, or of 16.
#[pyfunction]
pub fn decode_pngs(
    py: Python<'_>,
    contents: Vec<PyBackedBytes>,
    channels: usize,
    wide: bool,
    limits: Sizes,
) -> PyResult<Arrays> {
    let limits = limits_of(limits);
    let decode = |row: usize| png::decode(&contents[row], channels, wide, &limits);
    let (images, failure) = until_failure(rows(py, contents.len(), decode));
    let arrays = images.into_iter().map(|image| match image {
        png::Pixels::Bytes(image) => array_of(py, image),
        png::Pixels::Words(image) => array_of(py, image),
    });
    Ok((arrays.collect::<PyResult<_>>()?, failure))
}

/// Decode BMP files.
#[pyfunction]
pub fn decode_bmps(
    py: Python<'_>,
    contents: Vec<PyBackedBytes>,
    channels: usize,
    limits: Sizes,
) -> PyResult<Arrays> {
    let limits = limits_of(limits);
    let decode = |row: usize| bmp::decode(&contents[row], channels, &limits);
    let (images, failure) = until_failure(rows(py, contents.len(), decode));
    let arrays = images.into_iter().map(|image| array_of(py, image));
    Ok((arrays.collect::<PyResult<_>>()?, failure))
}

/// Decode GIF files: all frames, or the first alone as an image without a dimension for frames.
#[pyfunction]
pub fn decode_gifs(
    py: Python<'_>,
    contents: Vec<PyBackedBytes>,
    first_only: bool,
    limits: Sizes,
) -> PyResult<Arrays> {
    let limits = limits_of(limits);
    let decode = |row: usize| gif::decode(&contents[row], first_only, &limits);
    let (animations, failure) = until_failure(rows(py, contents.len(), decode));
    let arrays = animations.into_iter().map(|found| {
        let (height, width, channels, data) = (found.height, found.width, 3, found.data);
        if first_only {
            return array_of(
                py,
                Image {
                    height,
                    width,
                    channels,
                    data,
                },
            );
        }
        let array = Array4::from_shape_vec((found.frames, height, width, channels), data);
        let array = array.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(array.into_pyarray(py).as_untyped().clone().unbind())
    });
    Ok((arrays.collect::<PyResult<_>>()?, failure))
}

/// Encode images as JPEG files.
#[pyfunction]
#[pyo3(signature = (images, qualities, progressive, optimize, downsample, density, xmp))]
pub fn encode_jpegs(
    images: &Bound<'_, PyAny>,
    qualities: Vec<u8>,
    progressive: bool,
    optimize: bool,
    downsample: bool,
    density: (bool, u16, u16),
    xmp: PyBackedBytes,
) -> PyResult<Files> {
    encoded(images, 1, |row, pixels, shape| {
        let how = encode::Jpeg {
            quality: qualities[row % qualities.len().max(1)],
            progressive,
            optimize,
            downsample,
            density,
            xmp: &xmp,
        };
        encode::jpeg(pixels, shape, &how)
    })
}

/// Encode images as PNG files.
#[pyfunction]
pub fn encode_pngs(images: &Bound<'_, PyAny>, wide: bool, level: i32) -> PyResult<Files> {
    encoded(images, 1 + usize::from(wide), |_, pixels, shape| {
        encode::png(pixels, shape, wide, level)
    })
}

type Shape = (usize, usize, usize);

fn encoded(
    images: &Bound<'_, PyAny>,
    size: usize,
    encode: impl Fn(usize, &[u8], Shape) -> Result<Vec<u8>, Defect> + Send + Sync,
) -> PyResult<Files> {
    let py = images.py();
    let images = Images::new(images)?;
    if let Some(other) = images.rows.iter().find(|image| image.size != size) {
        let message = format!("values must have {size} bytes, not {}", other.size);
        return Err(PyValueError::new_err(message));
    }
    let sources = &images.rows;
    let (files, failure) = until_failure(rows(py, sources.len(), |row| {
        let image = &sources[row];
        // SAFETY: `images` holds them.
        let pixels = unsafe { image.bytes() };
        encode(row, pixels, (image.height, image.width, image.channels))
    }));
    let files = files.iter().map(|file| PyBytes::new(py, file).unbind());
    Ok((files.collect(), failure))
}

fn array_of<T: Element>(py: Python<'_>, image: Image<T>) -> PyResult<Py<PyUntypedArray>> {
    let shape = (image.height, image.width, image.channels);
    let array = Array3::from_shape_vec(shape, image.data);
    let array = array.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(array.into_pyarray(py).as_untyped().clone().unbind())
}
