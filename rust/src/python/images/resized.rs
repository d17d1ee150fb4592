//! `decode_resized`, `resize_images` and `resize_nearest`: results of one shape, written to an
//! array that Python gives.

use super::pixels::{Images, Pixels};
use super::{method_of, request, until_failure, window_of, Sizes, Told};
use crate::images::arithmetic::{self, Step};
use crate::images::defect::Defect;
use crate::images::image::Window;
use crate::images::jpeg::{self, Request};
use crate::images::resize::{self, Held, Made, Method, Spans, Value};
use crate::python::{borrow_error, contiguous};
use numpy::ndarray::Ix4;
use numpy::{PyArray4, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rayon::prelude::*;

type Resized<'py> = Bound<'py, PyArray4<f32>>;

/// An operator's name, and its constants, each one or one for each channel.
pub type Arithmetic = (String, Vec<f32>, Vec<f32>);

pub fn steps(arithmetic: &[Arithmetic], channels: usize) -> PyResult<Vec<Step>> {
    let step = |(name, first, second): &Arithmetic| {
        Step::named(name, [first, second], channels).ok_or_else(|| {
            let (first, second) = (first.len(), second.len());
            PyValueError::new_err(format!(
                "no {name} of {first} and {second} numbers for {channels} channels"
            ))
        })
    };
    arithmetic.iter().map(step).collect()
}

/// Decode JPEG files, or windows of them, and resize them into rows of `out`.
#[pyfunction]
#[pyo3(signature = (
    contents, windows, mirrored, channels, ratio, method, antialias, arithmetic, limits, out
))]
#[allow(clippy::too_many_arguments)]
pub fn decode_resized(
    contents: Vec<PyBackedBytes>,
    windows: Option<Vec<[i64; 4]>>,
    mirrored: Option<Vec<bool>>,
    channels: usize,
    ratio: usize,
    method: &str,
    antialias: bool,
    arithmetic: Vec<Arithmetic>,
    limits: Sizes,
    out: &Bound<'_, PyAny>,
) -> PyResult<(usize, Option<Told>)> {
    let method = method_of(method)?;
    let request = request(channels, ratio.max(1), true, false, 1.0, limits)?;
    let fitting = ratio == 0;
    let steps = &steps(&arithmetic, channels)?;
    let out = Out {
        array: out,
        count: contents.len(),
        channels,
    };
    out.fill(|row, shape, scratch, out| {
        let window = windows
            .as_ref()
            .map(|windows| window_of(windows[row]))
            .transpose()?;
        let request = if fitting {
            fitted(&contents[row], &request, window, shape)?
        } else {
            request.clone()
        };
        let choose = |height, width| Ok(window.map(|w| scaled(w, request.ratio, height, width)));
        let mut image = jpeg::open(&contents[row], &request, choose)?;
        let [height, width, _] = image.shape();
        let (down, along) = spans((height, width), shape, method, antialias);
        let flip = mirrored.as_ref().is_some_and(|mirrored| mirrored[row]);
        let along = if flip { along.mirrored() } else { along };
        let Scratch { line, rows } = scratch;
        let mut rows = Made::new(width * channels, rows, |y, out| image.row(y, out));
        let spans = (&down, &along);
        let finish = |row: &mut [f32]| arithmetic::apply(steps, row);
        resize::resize(&mut rows, channels, width, spans, line, finish, out);
        Ok(())
    })
}

/// Resize images into rows of `out`.
#[pyfunction]
pub fn resize_images(
    images: &Bound<'_, PyAny>,
    method: &str,
    antialias: bool,
    arithmetic: Vec<Arithmetic>,
    out: &Bound<'_, PyAny>,
) -> PyResult<(usize, Option<Told>)> {
    let method = method_of(method)?;
    let images = Images::new(images)?;
    let channels = images.rows.first().map_or(1, |image| image.channels);
    let steps = steps(&arithmetic, channels)?;
    macro_rules! by_kind {
        ($($kind:ty),*) => {
            $(if images.are::<$kind>(out.py()) {
                return resize_values::<$kind>(&images.rows, channels, method, antialias, &steps, out);
            })*
        };
    }
    by_kind!(u8, f32, u16, i16, i8, i32, u32, i64, u64, f64);
    let message = format!("images of kind {} cannot be resized", images.kind);
    Err(PyTypeError::new_err(message))
}

fn resize_values<T: Value>(
    images: &[Pixels],
    channels: usize,
    method: Method,
    antialias: bool,
    steps: &[Step],
    out: &Bound<'_, PyAny>,
) -> PyResult<(usize, Option<Told>)> {
    let out = Out {
        array: out,
        count: images.len(),
        channels,
    };
    out.fill(|row, shape, scratch, out| {
        let image = &images[row];
        not_empty(image, channels)?;
        let (down, along) = spans((image.height, image.width), shape, method, antialias);
        // SAFETY: the caller holds the images, whose values are of this type.
        let pixels = unsafe { image.values::<T>() };
        let stride = image.width * channels;
        let mut source = Held { pixels, stride };
        let (spans, line) = ((&down, &along), &mut scratch.line);
        let finish = |row: &mut [f32]| arithmetic::apply(steps, row);
        resize::resize(&mut source, channels, image.width, spans, line, finish, out);
        Ok(())
    })
}

fn not_empty(image: &Pixels, channels: usize) -> Result<(), Defect> {
    if image.height == 0 || image.width == 0 || image.channels != channels {
        return Err(Defect::request(format!(
            "an image of {} x {} pixels and {} channels; it must have pixels, and {channels} \
             channels",
            image.height, image.width, image.channels
        )));
    }
    Ok(())
}

fn spans(
    (height, width): (usize, usize),
    (new_height, new_width): (usize, usize),
    method: Method,
    antialias: bool,
) -> (Spans, Spans) {
    let down = Spans::new(height, new_height, method, antialias);
    (down, Spans::new(width, new_width, method, antialias))
}

/// The largest ratio at which the window is not smaller than the result.
fn fitted(
    bytes: &[u8],
    request: &Request,
    window: Option<Window>,
    (height, width): (usize, usize),
) -> Result<Request, Defect> {
    let [full_height, full_width, _] = jpeg::shape(bytes)?;
    let window = window.unwrap_or(Window::whole(full_height, full_width));
    window.within(full_height, full_width)?;
    let fits = |&ratio: &usize| window.height / ratio >= height && window.width / ratio >= width;
    let ratio = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
    Ok(Request {
        ratio,
        ..request.clone()
    })
}

/// A window of the whole image in the image divided by `ratio`.
fn scaled(window: Window, ratio: usize, height: usize, width: usize) -> Window {
    let (top, left) = (window.top / ratio, window.left / ratio);
    let part = |start: usize, size: usize, from: usize, limit: usize| match ratio {
        1 => size,
        _ => (start + size).div_ceil(ratio).min(limit) - from,
    };
    Window {
        top,
        left,
        height: part(window.top, window.height, top, height),
        width: part(window.left, window.width, left, width),
    }
}

/// Memory for a row of numbers, and for rows of pixels.
#[derive(Default)]
pub struct Scratch {
    pub line: Vec<f32>,
    pub rows: Vec<u8>,
}

/// What is written: an array of `count` images.
pub struct Out<'a, 'py> {
    pub array: &'a Bound<'py, PyAny>,
    pub count: usize,
    pub channels: usize,
}

impl Out<'_, '_> {
    /// Computes rows on several threads; returns how many there are, and why no more.
    pub fn fill(
        &self,
        row: impl Fn(usize, (usize, usize), &mut Scratch, &mut [f32]) -> Result<(), Defect> + Sync,
    ) -> PyResult<(usize, Option<Told>)> {
        let array: &Resized<'_> =
            contiguous::<f32, Ix4>(self.array, "out", "4-dimensional float32")?;
        let [rows, height, width, depth] = *array.shape() else {
            return Err(PyValueError::new_err("out must have 4 dimensions"));
        };
        let length = height * width * depth;
        if rows != self.count || depth != self.channels || length == 0 {
            return Err(PyValueError::new_err(format!(
                "out has shape {:?}; it must have {} rows, pixels and {} channels",
                array.shape(),
                self.count,
                self.channels
            )));
        }
        let mut writable = array
            .try_readwrite()
            .map_err(|error| borrow_error("out", error))?;
        let values = writable.as_slice_mut()?;
        let shape = (height, width);
        let results: Vec<_> = array.py().detach(|| {
            let rows = values.par_chunks_mut(length).enumerate();
            rows.map_init(Scratch::default, |scratch, (at, out)| {
                row(at, shape, scratch, out)
            })
            .collect()
        });
        let (good, failure) = until_failure(results);
        Ok((good.len(), failure))
    }
}

/// Copy nearest pixels into rows of `out`, an array of bytes: (n, height, width, bytes of a pixel).
#[pyfunction]
pub fn resize_nearest(
    images: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<(usize, Option<Told>)> {
    let images = Images::new(images)?;
    let out = contiguous::<u8, Ix4>(out, "out", "4-dimensional uint8")?;
    let [rows, height, width, pixel] = *out.shape() else {
        return Err(PyValueError::new_err("out must have 4 dimensions"));
    };
    let fits = |image: &Pixels| image.channels * image.size == pixel;
    if rows != images.rows.len() || height * width * pixel == 0 || !images.rows.iter().all(fits) {
        return Err(PyValueError::new_err(format!(
            "out has shape {:?}, which the images do not fit",
            out.shape()
        )));
    }
    let mut writable = out
        .try_readwrite()
        .map_err(|error| borrow_error("out", error))?;
    let bytes = writable.as_slice_mut()?;
    let sources = &images.rows;
    let results: Vec<_> = out.py().detach(|| {
        let rows = bytes.par_chunks_mut(height * width * pixel).zip(sources);
        rows.map(|(out, image)| {
            not_empty(image, image.channels)?;
            // SAFETY: `images` holds them.
            let source = unsafe { image.bytes() };
            let from = (image.height, image.width);
            resize::nearest(source, from, pixel, (height, width), out);
            Ok(())
        })
        .collect()
    });
    let (good, failure) = until_failure(results);
    Ok((good.len(), failure))
}
