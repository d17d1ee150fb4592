//! Images: columns of bytes and of arrays, by pointer, and the GIL released.

use crate::images::defect::{Defect, Kind};
use crate::images::image::{Image, Limits, Window};
use crate::images::jpeg::{self, Request};
use crate::images::resize::{Method, Spans};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rayon::prelude::*;

mod arithmetic;
mod arranged;
mod files;
mod pixels;
mod placed;
mod resized;

/// Adds the functions of images to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode_jpegs, module)?)?;
    module.add_function(wrap_pyfunction!(jpeg_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(resize_spans, module)?)?;
    module.add_function(wrap_pyfunction!(arranged::arrange_images, module)?)?;
    module.add_class::<arithmetic::RowArithmetic>()?;
    module.add_function(wrap_pyfunction!(files::decode_pngs, module)?)?;
    module.add_function(wrap_pyfunction!(files::decode_bmps, module)?)?;
    module.add_function(wrap_pyfunction!(files::decode_gifs, module)?)?;
    module.add_function(wrap_pyfunction!(files::encode_jpegs, module)?)?;
    module.add_function(wrap_pyfunction!(files::encode_pngs, module)?)?;
    module.add_function(wrap_pyfunction!(placed::decode_placed, module)?)?;
    module.add_function(wrap_pyfunction!(resized::decode_resized, module)?)?;
    module.add_function(wrap_pyfunction!(resized::resize_images, module)?)?;
    module.add_function(wrap_pyfunction!(resized::resize_nearest, module)?)
}

/// Why a row has no result: the kind, and a message.
pub type Told = (&'static str, String);

/// The sizes that are allowed: pixels, bytes, decoded bytes for each byte.
pub type Sizes = (u64, u64, u64);

type Arrays = Vec<Py<PyArray3<u8>>>;

/// Positions, and weights from there on.
type Weighted<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f32>>);

/// Decode JPEG files, each whole or a window of it.
#[pyfunction]
#[pyo3(signature = (contents, windows, channels, ratio, smooth, recover, acceptable, limits))]
#[allow(clippy::too_many_arguments)]
pub fn decode_jpegs(
    py: Python<'_>,
    contents: Vec<PyBackedBytes>,
    windows: Option<Vec<[i64; 4]>>,
    channels: usize,
    ratio: usize,
    smooth: bool,
    recover: bool,
    acceptable: f32,
    limits: Sizes,
) -> PyResult<(Arrays, Option<Told>)> {
    let request = request(channels, ratio, smooth, recover, acceptable, limits)?;
    let decoded = rows(py, contents.len(), |row| {
        let window = windows.as_ref().map(|windows| windows[row]);
        let choose = |_, _| window.map(window_of).transpose();
        jpeg::decode(&contents[row], &request, choose, |length| vec![0; length])
    });
    let (images, told) = until_failure(decoded);
    let arrays = images
        .into_iter()
        .map(|image| Ok(array_of(py, image)?.unbind()));
    Ok((arrays.collect::<PyResult<_>>()?, told))
}

/// The heights, widths and channels of JPEG files, from their headers.
#[pyfunction]
pub fn jpeg_shapes<'py>(
    py: Python<'py>,
    contents: Vec<PyBackedBytes>,
) -> PyResult<(Bound<'py, PyArray2<i64>>, Option<Told>)> {
    let (shapes, told) = until_failure(rows(py, contents.len(), |row| jpeg::shape(&contents[row])));
    let count = shapes.len();
    let flat: Vec<i64> = shapes.into_iter().flatten().map(|n| n as i64).collect();
    Ok((flat.into_pyarray(py).reshape([count, 3])?, told))
}

/// For each pixel of a resized line: the first pixel that it is made of, and all weights.
#[pyfunction]
pub fn resize_spans<'py>(
    py: Python<'py>,
    input: usize,
    output: usize,
    method: &str,
    antialias: bool,
) -> PyResult<Weighted<'py>> {
    if input == 0 || output == 0 {
        let message = format!("a line of {input} pixels cannot become one of {output}");
        return Err(PyValueError::new_err(message));
    }
    let spans = Spans::new(input, output, method_of(method)?, antialias);
    let starts: Vec<i64> = spans.starts.iter().map(|&at| at as i64).collect();
    let weights = spans
        .weights
        .into_pyarray(py)
        .reshape([output, spans.taps])?;
    Ok((starts.into_pyarray(py), weights))
}

fn request(
    channels: usize,
    ratio: usize,
    smooth: bool,
    recover: bool,
    acceptable: f32,
    limits: Sizes,
) -> PyResult<Request> {
    if !matches!(channels, 0 | 1 | 3) {
        let message = format!("channels is {channels}; it must be 0, 1 or 3");
        return Err(PyValueError::new_err(message));
    }
    if !matches!(ratio, 1 | 2 | 4 | 8) {
        let message = format!("ratio is {ratio}; it must be 1, 2, 4 or 8");
        return Err(PyValueError::new_err(message));
    }
    Ok(Request {
        channels,
        ratio,
        smooth,
        recover,
        acceptable,
        limits: limits_of(limits),
    })
}

fn limits_of((pixels, bytes, expansion): Sizes) -> Limits {
    Limits {
        pixels,
        bytes,
        expansion,
    }
}

fn method_of(name: &str) -> PyResult<Method> {
    Method::named(name)
        .ok_or_else(|| PyTypeError::new_err(format!("no method to resize by: {name:?}")))
}

fn window_of([top, left, height, width]: [i64; 4]) -> Result<Window, Defect> {
    let number = |value: i64| {
        usize::try_from(value).map_err(|_| {
            Defect::request(format!(
                "the window of {height} x {width} pixels at ({top}, {left}) has a negative number"
            ))
        })
    };
    Ok(Window {
        top: number(top)?,
        left: number(left)?,
        height: number(height)?,
        width: number(width)?,
    })
}

/// Computes rows on several threads; a panic within one is a defect of it.
fn rows<T: Send>(
    py: Python<'_>,
    count: usize,
    row: impl Fn(usize) -> Result<T, Defect> + Send + Sync,
) -> Vec<Result<T, Defect>> {
    py.detach(|| match count {
        1 => vec![row(0)],
        _ => (0..count).into_par_iter().map(row).collect(),
    })
}

/// What came before the first failure, and the failure.
fn until_failure<T>(results: Vec<Result<T, Defect>>) -> (Vec<T>, Option<Told>) {
    let mut good = Vec::with_capacity(results.len());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(defect) => return (good, Some(told(&defect))),
        }
    }
    (good, None)
}

fn told(defect: &Defect) -> Told {
    let kind = match defect.kind {
        Kind::Damaged | Kind::Truncated => "damaged",
        Kind::Unsupported => "unsupported",
        Kind::TooLarge => "too large",
        Kind::Request => "request",
    };
    (kind, defect.to_string())
}

fn array_of<'py>(py: Python<'py>, image: Image) -> PyResult<Bound<'py, PyArray3<u8>>> {
    let shape = (image.height, image.width, image.channels);
    let array = Array3::from_shape_vec(shape, image.data);
    let array = array.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(array.into_pyarray(py))
}
