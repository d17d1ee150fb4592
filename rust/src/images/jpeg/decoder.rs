//! Decoding a file: its scans, then its rows of pixels.

use super::super::defect::{Defect, Kind};
use super::super::image::{Image, Limits, Window};
use super::super::spare;
use super::super::vectorized::vectorized;
use super::bits::Entropy;
use super::color::Color;
use super::frame::Frame;
use super::markers::{Headers, Scan};
use super::order::{factors, Block};
use super::pairs::Pairs;
use super::plane::Plane;
use super::progressive::{self, Coefficients, Progressive};
use super::scan::{Stopped, Units};
use super::sequential::{self, Sequential};
use super::transform::transform;
use super::upsample::{self, Scratch};
use std::rc::Rc;

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

/// Progressive files have about ten. A scan may be far shorter than the work that it makes.
const MOST_SCANS: usize = 100;

struct File<'a> {
    headers: Headers<'a>,
    frame: Frame,
    window: Window,
    channels: usize,
    color: Color,
    /// One for each component, once the first scan is found.
    planes: Vec<Plane>,
    scans: usize,
    /// Of progressive files.
    coefficients: Vec<Coefficients>,
    /// Which components had a scan.
    seen: Vec<bool>,
}

impl File<'_> {
    /// Reads the scans; returns how many rows of the output there are.
    fn read(&mut self, request: &Request) -> Result<usize, Defect> {
        let rows = self.frame.scaled(request.ratio).0;
        let unit = self.frame.v * 8 / request.ratio;
        loop {
            let stopped = match self.next(request) {
                Ok(true) => continue,
                Ok(false) => return Ok(rows),
                Err(stopped) => stopped,
            };
            if stopped.defect.kind != Kind::Truncated || self.planes.is_empty() {
                return Err(stopped.defect);
            }
            if request.recover {
                self.reconstruct()?;
                return Ok(rows);
            }
            let complete = if self.frame.progressive {
                0
            } else {
                stopped.row * unit
            };
            if complete as f32 >= request.acceptable * rows as f32 && complete > 0 {
                return Ok(complete);
            }
            return Err(stopped.defect);
        }
    }

    /// Reads one scan, if there is a need for another.
    fn next(&mut self, request: &Request) -> Result<bool, Stopped> {
        let at_start = |defect| Stopped { row: 0, defect };
        if !self.frame.progressive && self.seen.iter().all(|&seen| seen) {
            return Ok(false);
        }
        let Some(scan) = self.headers.next_scan().map_err(at_start)? else {
            if let Some(missing) = self.seen.iter().position(|seen| !seen) {
                let what = format!("the JPEG ends without a scan of component {missing}");
                return Err(at_start(Defect::truncated(self.headers.at, what)));
            }
            self.reconstruct().map_err(at_start)?;
            return Ok(false);
        };
        self.scans += 1;
        if self.scans > MOST_SCANS {
            let what = format!("a JPEG of more than {MOST_SCANS} scans");
            return Err(at_start(Defect::damaged(scan.offset, what)));
        }
        if self.planes.is_empty() {
            self.prepare(request).map_err(at_start)?;
        }
        let (entropy, end) = Entropy::read(self.headers.bytes, self.headers.at);
        self.headers.at = end;
        let read = if self.frame.progressive {
            self.progressive(&scan, &entropy)
        } else {
            self.sequential(&scan, &entropy)
        };
        entropy.recycle();
        for &(number, ..) in &scan.components {
            self.seen[number] = true;
        }
        read.map(|()| true)
    }
}

impl File<'_> {
    /// Finds out what is needed of each component.
    fn prepare(&mut self, request: &Request) -> Result<(), Defect> {
        let ids: Vec<u8> = self.frame.components.iter().map(|c| c.id).collect();
        self.color = Color::of(&self.headers, &ids);
        let needed = self.color.components(self.channels)?;
        for (number, component) in self.frame.components.iter().enumerate() {
            let plane = Plane::new(&self.frame, component, request.ratio, &self.window);
            let mut plane = plane.ok_or_else(|| {
                Defect::unsupported(format!(
                    "JPEG with sampling factors {} x {} of {} x {}",
                    component.h, component.v, self.frame.h, self.frame.v
                ))
            })?;
            if number < needed {
                plane.allocate();
            } else {
                plane.omit();
            }
            self.planes.push(plane);
            if self.frame.progressive {
                let columns = self.frame.mcu_columns * component.h;
                let blocks = columns * self.frame.mcu_rows * component.v;
                let values = vec![0; blocks * 64];
                self.coefficients.push(Coefficients { values, columns });
            }
        }
        Ok(())
    }

    fn sequential(&mut self, scan: &Scan, entropy: &Entropy) -> Result<(), Stopped> {
        let mut pairs: [Option<Rc<Pairs>>; 4] = Default::default();
        let parts = scan.components.iter().map(|&(number, dc, ac)| {
            let missing = |what: &str| Stopped {
                row: 0,
                defect: Defect::damaged(
                    scan.offset,
                    format!("a JPEG scan without its {what} table"),
                ),
            };
            let quantization = self.frame.components[number].quantization;
            let headers = &self.headers;
            let dc = headers.dc[dc].as_ref().ok_or_else(|| missing("DC"))?;
            let table = headers.ac[ac].as_ref().ok_or_else(|| missing("AC"))?;
            let pairs = pairs[ac].get_or_insert_with(|| Rc::new(Pairs::new(table)));
            let quantization = headers.quantization[quantization].as_ref();
            Ok(sequential::Part {
                dc,
                ac: table,
                pairs: Rc::clone(pairs),
                factors: factors(quantization.ok_or_else(|| missing("quantization"))?),
                plane: number,
                before: 0,
            })
        });
        let parts = parts.collect::<Result<Vec<_>, Stopped>>()?;
        let units = Units::new(&self.frame, scan);
        let rows = self.rows_needed(scan, units.rows);
        let (bytes, restart) = (self.headers.bytes, self.headers.restart);
        let blocks = Sequential::new(parts, &mut self.planes);
        sequential::read(&units, entropy, bytes, restart, rows, blocks)
    }

    /// How many rows of units there are up to the end of the window.
    fn rows_needed(&self, scan: &Scan, rows: usize) -> usize {
        let needed = scan.components.iter().map(|&(number, ..)| {
            let down = match scan.single() {
                Some(_) => 1,
                None => self.frame.components[number].v,
            };
            self.planes[number].rows.end.div_ceil(down)
        });
        needed.max().unwrap_or(0).min(rows)
    }

    fn progressive(&mut self, scan: &Scan, entropy: &Entropy) -> Result<(), Stopped> {
        let parts = scan
            .components
            .iter()
            .map(|&(number, dc, ac)| progressive::Part {
                dc: self.headers.dc[dc].as_ref(),
                ac: self.headers.ac[ac].as_ref(),
                component: number,
                before: 0,
            });
        let units = Units::new(&self.frame, scan);
        let mut blocks = Progressive {
            scan,
            parts: parts.collect(),
            coefficients: &mut self.coefficients,
            empty: 0,
        };
        let restart = self.headers.restart;
        read_progressive(&units, entropy, self.headers.bytes, restart, &mut blocks)
    }

    /// Transforms what progressive scans left.
    fn reconstruct(&mut self) -> Result<(), Defect> {
        let planes = self.planes.iter_mut().zip(&mut self.coefficients);
        for ((plane, coefficients), component) in planes.zip(&self.frame.components) {
            let table = self.headers.quantization[component.quantization].as_ref();
            let table = table.ok_or_else(|| {
                Defect::damaged(
                    self.headers.at,
                    "a JPEG without a component's quantization table",
                )
            })?;
            transform_plane(plane, coefficients, &factors(table));
        }
        Ok(())
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        for plane in &mut self.planes {
            spare::give(std::mem::take(&mut plane.samples));
        }
    }
}

vectorized! {
    fn read_progressive(
        units: &Units,
        entropy: &Entropy,
        bytes: &[u8],
        restart: usize,
        blocks: &mut Progressive,
    ) -> Result<(), Stopped> {
        units.read(entropy, bytes, restart, units.rows, blocks)
    }
}

fn transform_plane(plane: &mut Plane, coefficients: &mut Coefficients, factors: &Block) {
    for row in plane.rows.clone() {
        for column in plane.columns.clone() {
            let Some(place) = plane.place(row, column) else {
                continue;
            };
            let block = coefficients.block(row, column);
            let samples = &mut plane.samples[place..];
            transform(block, factors, plane.size, samples, plane.stride);
        }
    }
}
