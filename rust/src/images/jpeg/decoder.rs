//! Decoding a file: its scans, then its rows of pixels.

use super::super::defect::Defect;
use super::super::image::{Image, Limits, Window};
use super::color::Color;
use super::file::File;
use super::markers::Headers;
use super::upsample::{self, Scratch};

/// What is wanted of a file.
#[derive(Clone, Debug)]
pub struct Request {
    /// 1 for gray values, 3 for colors, 0 for what the file has.
    pub channels: usize,
    /// 1, 2, 4 or 8: the size is divided by it.
    pub ratio: usize,
    /// Whether components of fewer samples are interpolated.
    pub smooth: bool,
    /// Whether what is missing at the end of the data is gray.
    pub recover: bool,
    /// The part of the rows that must be there; others are black.
    pub acceptable: f32,
    pub limits: Limits,
}

impl Request {
    /// Whether an image is wanted of which not all was read.
    pub fn partial(&self) -> bool {
        self.recover || self.acceptable < 1.0
    }
}

/// Height, width and channels of a file (3 for CMYK), from its header.
pub fn shape(bytes: &[u8]) -> Result<[usize; 3], Defect> {
    let mut headers = Headers::new(bytes)?;
    let frame = headers.frame()?;
    Ok([frame.height, frame.width, frame.components.len().min(3)])
}

/// The pixels of a window, which `choose` chooses by height and width; or of all.
pub fn decode(
    bytes: &[u8],
    request: &Request,
    choose: impl FnOnce(usize, usize) -> Result<Option<Window>, Defect>,
    buffer: impl FnOnce(usize) -> Vec<u8>,
) -> Result<Image, Defect> {
    let mut decoded = open(bytes, request, choose)?;
    let [height, width, channels] = decoded.shape();
    let mut data = buffer(height * width * channels);
    for (y, row) in data.chunks_exact_mut(width * channels).enumerate() {
        decoded.row(y, row);
    }
    Ok(Image {
        height,
        width,
        channels,
        data,
    })
}

/// As `decode`, for rows of pixels one by one.
pub fn open<'a>(
    bytes: &'a [u8],
    request: &Request,
    choose: impl FnOnce(usize, usize) -> Result<Option<Window>, Defect>,
) -> Result<Decoded<'a>, Defect> {
    let mut headers = Headers::new(bytes)?;
    let frame = headers.frame()?.clone();
    let (height, width) = frame.scaled(request.ratio);
    let channels = match request.channels {
        0 => frame.components.len().min(3),
        given => given,
    };
    let window = choose(height, width)?;
    if let Some(window) = window {
        window.within(height, width)?;
    }
    let shape = [frame.height, frame.width, channels];
    request.limits.check(1, shape, 1, bytes.len())?;
    let mut file = File {
        window: window.unwrap_or(Window::whole(height, width)),
        channels,
        color: Color::Gray,
        planes: Vec::new(),
        scans: 0,
        coefficients: Vec::new(),
        seen: vec![false; frame.components.len()],
        headers,
        frame,
    };
    let complete = file.read(request)?;
    Ok(Decoded {
        complete,
        smooth: request.smooth && request.ratio < 8, // As libjpeg.
        scratch: Default::default(),
        file,
    })
}

/// The window of a file whose scans were read.
pub struct Decoded<'a> {
    file: File<'a>,
    /// The rows that there are, of the whole image; those below are black.
    complete: usize,
    smooth: bool,
    scratch: [Scratch; 4],
}

impl Decoded<'_> {
    /// Height, width and channels of the window.
    pub fn shape(&self) -> [usize; 3] {
        let window = &self.file.window;
        [window.height, window.width, self.file.channels]
    }

    /// Writes a row of the window's pixels.
    pub fn row(&mut self, y: usize, out: &mut [u8]) {
        let (file, y) = (&self.file, self.file.window.top + y);
        if y >= self.complete {
            return out.fill(0);
        }
        let columns = file.window.left..file.window.left + file.window.width;
        let needed = file.planes.iter().filter(|plane| !plane.rows.is_empty());
        let (mut samples, mut count): ([&[u8]; 4], usize) = ([&[]; 4], 0);
        for (plane, scratch) in needed.zip(&mut self.scratch) {
            samples[count] = upsample::row(plane, y, &columns, self.smooth, scratch);
            count += 1;
        }
        file.color.convert(&samples[..count], file.channels, out);
    }
}
