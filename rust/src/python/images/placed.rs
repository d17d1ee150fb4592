//! `decode_placed`: windows of JPEG files, resized as TensorFlow 1 did, and what lies in a placement.

use super::resized::{steps, Arithmetic, Out, Scratch};
use super::{request, window_of, Sizes, Told};
use crate::images::arithmetic;
use crate::images::defect::Defect;
use crate::images::image::Window;
use crate::images::jpeg::{self, Request};
use crate::images::resize::{self, Former, Held, Made, Source, Spans};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// The longest line that a part is taken of.
const LONGEST: usize = 1 << 24;

const CHANNELS: usize = 3;

/// Decode windows of JPEG files, resize them as TensorFlow 1, and write parts to rows of `out`.
#[pyfunction]
#[pyo3(signature = (contents, windows, resized, mirrored, methods, whole, arithmetic, limits, out))]
#[allow(clippy::too_many_arguments)]
pub fn decode_placed(
    contents: Vec<PyBackedBytes>,
    windows: Option<Vec<[i64; 4]>>,
    resized: Option<Vec<[i64; 4]>>,
    mirrored: Option<Vec<bool>>,
    methods: Vec<u8>,
    whole: bool,
    arithmetic: Vec<Arithmetic>,
    limits: Sizes,
    out: &Bound<'_, PyAny>,
) -> PyResult<(usize, Option<Told>)> {
    let count = contents.len();
    let counts = [
        windows.as_ref().map_or(count, Vec::len),
        resized.as_ref().map_or(count, Vec::len),
        mirrored.as_ref().map_or(count, Vec::len),
        methods.len(),
    ];
    if counts.iter().any(|&other| other != count) {
        let message = format!("{count} files, but columns of {counts:?} rows");
        return Err(PyValueError::new_err(message));
    }
    let request = request(CHANNELS, 1, true, false, 1.0, limits)?;
    let steps = &steps(&arithmetic, CHANNELS)?;
    let out = Out {
        array: out,
        count,
        channels: CHANNELS,
    };
    out.fill(|row, shape, scratch, out| {
        let window = windows.as_ref().map(|windows| window_of(windows[row]));
        let placement = match &resized {
            Some(resized) => Placement::of(resized[row], shape)?,
            None => Placement::whole(shape),
        };
        let method = Former::numbered(methods[row])
            .ok_or_else(|| Defect::request(format!("no method {}", methods[row])))?;
        let given = Given {
            bytes: &contents[row],
            request: &request,
            window: window.transpose()?,
            whole,
        };
        let flip = mirrored.as_ref().is_some_and(|mirrored| mirrored[row]);
        let finish = |row: &mut [f32]| arithmetic::apply(steps, row);
        given.write(&placement, method, flip, scratch, finish, out)
    })
}

/// What is made of a resized image: the pixels of a window of it.
struct Placement {
    height: usize,
    width: usize,
    window: Window,
}

impl Placement {
    fn whole((height, width): (usize, usize)) -> Self {
        Self {
            height,
            width,
            window: Window::whole(height, width),
        }
    }

    /// Of the size `shape`, from a row and column on.
    fn of(numbers: [i64; 4], (height, width): (usize, usize)) -> Result<Self, Defect> {
        let [tall, wide, top, left] = numbers.map(usize::try_from);
        let (Ok(tall), Ok(wide), Ok(top), Ok(left)) = (tall, wide, top, left) else {
            return Err(Defect::request(format!(
                "the part of a resized image is given by {numbers:?}, which has a negative number"
            )));
        };
        let window = Window {
            top,
            left,
            height,
            width,
        };
        window.within(tall, wide)?;
        if tall.max(wide) > LONGEST {
            return Err(Defect::too_large(format!(
                "an image resized to {tall} x {wide} pixels"
            )));
        }
        Ok(Self {
            height: tall,
            width: wide,
            window,
        })
    }
}

/// A file, and what of it is resized.
struct Given<'a> {
    bytes: &'a [u8],
    request: &'a Request,
    window: Option<Window>,
    /// Whether all of the file is decoded, and the window taken of that.
    whole: bool,
}

impl Given<'_> {
    fn write(
        &self,
        placement: &Placement,
        method: Former,
        flip: bool,
        scratch: &mut Scratch,
        finish: impl Fn(&mut [f32]),
        out: &mut [f32],
    ) -> Result<(), Defect> {
        let Scratch { line, rows } = scratch;
        if self.whole {
            let window = self.slice(rows)?;
            let stride = window.width * CHANNELS;
            let pixels = &rows[..window.height * stride];
            let mut source = Held { pixels, stride };
            let size = (window.height, window.width);
            resized(
                &mut source,
                size,
                placement,
                method,
                flip,
                line,
                finish,
                out,
            );
            return Ok(());
        }
        let mut image = jpeg::open(self.bytes, self.request, |_, _| Ok(self.window))?;
        let [height, width, _] = image.shape();
        let mut source = Made::new(width * CHANNELS, rows, |y, out| image.row(y, out));
        let size = (height, width);
        resized(
            &mut source,
            size,
            placement,
            method,
            flip,
            line,
            finish,
            out,
        );
        Ok(())
    }

    /// Decodes the file and copies the window's pixels to the start of `pixels`.
    fn slice(&self, pixels: &mut Vec<u8>) -> Result<Window, Defect> {
        let buffer = |length| vec![0; length];
        let image = jpeg::decode(self.bytes, self.request, |_, _| Ok(None), buffer)?;
        let window = self
            .window
            .unwrap_or(Window::whole(image.height, image.width));
        window.within(image.height, image.width)?;
        pixels.clear();
        for row in image.data.chunks_exact(image.stride()).skip(window.top) {
            if pixels.len() == window.height * window.width * CHANNELS {
                break;
            }
            let from = window.left * CHANNELS;
            pixels.extend_from_slice(&row[from..][..window.width * CHANNELS]);
        }
        Ok(window)
    }
}

#[allow(clippy::too_many_arguments)]
fn resized(
    source: &mut impl Source<u8>,
    (height, width): (usize, usize),
    placement: &Placement,
    method: Former,
    flip: bool,
    line: &mut Vec<f32>,
    finish: impl Fn(&mut [f32]),
    out: &mut [f32],
) {
    let Window {
        top,
        left,
        height: tall,
        width: wide,
    } = placement.window;
    let down = Spans::former(height, placement.height, top..top + tall, method);
    let along = Spans::former(width, placement.width, left..left + wide, method);
    let along = if flip {
        along.of_mirrored(width)
    } else {
        along
    };
    resize::resize(source, CHANNELS, width, (&down, &along), line, finish, out);
}
