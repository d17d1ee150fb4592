//! Decoding a file: its scans, then its rows of pixels.

use super::super::defect::{Defect, Kind};
use super::super::image::{Image, Limits, Window};
use super::super::spare;
use super::super::vectorized::vectorized;
use super::bits::Entropy;
use super::color::Color;
use super::frame::Frame;
use super::markers::{Headers, Scan};
use super::plane::Plane;
use super::progressive::{self, Coefficients, Progressive};
use super::scan::{Stopped, Units};
use super::sequential::{self, transform, Sequential};
use super::upsample::{self, Scratch};
use super::zigzag::NATURAL;

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
    let mut out = buffer(file.window.height * file.window.width * channels);
    file.write(request, &mut out);
    let rows = complete
        .saturating_sub(file.window.top)
        .min(file.window.height);
    out[rows * file.window.width * channels..].fill(0);
    Ok(Image {
        height: file.window.height,
        width: file.window.width,
        channels,
        data: out,
    })
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
            Ok(sequential::Part {
                dc: headers.dc[dc].as_ref().ok_or_else(|| missing("DC"))?,
                ac: headers.ac[ac].as_ref().ok_or_else(|| missing("AC"))?,
                quantization: headers.quantization[quantization]
                    .as_ref()
                    .ok_or_else(|| missing("quantization"))?,
                plane: number,
                before: 0,
            })
        });
        let parts = parts.collect::<Result<Vec<_>, Stopped>>()?;
        let units = Units::new(&self.frame, scan);
        let rows = self.rows_needed(scan, units.rows);
        let mut blocks = Sequential {
            parts,
            planes: &mut self.planes,
            block: [0; 64],
        };
        let restart = self.headers.restart;
        read_sequential(
            &units,
            entropy,
            self.headers.bytes,
            restart,
            rows,
            &mut blocks,
        )
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
            let mut natural = [0; 64];
            for (&place, &value) in NATURAL.iter().zip(table) {
                natural[usize::from(place)] = i32::from(value);
            }
            transform_plane(plane, coefficients, &natural);
        }
        Ok(())
    }

    /// Writes the pixels of the window.
    fn write(&mut self, request: &Request, out: &mut [u8]) {
        let columns = self.window.left..self.window.left + self.window.width;
        let needed = self
            .planes
            .iter()
            .take_while(|plane| !plane.rows.is_empty());
        let planes: Vec<&Plane> = needed.collect();
        let mut scratch: [Scratch; 4] = Default::default();
        let smooth = request.smooth && request.ratio < 8; // As libjpeg.
        let rows = out.chunks_exact_mut(self.window.width * self.channels);
        for (y, out) in (self.window.top..).zip(rows) {
            let mut samples: [&[u8]; 4] = [&[]; 4];
            for ((row, plane), scratch) in samples.iter_mut().zip(&planes).zip(&mut scratch) {
                *row = upsample::row(plane, y, &columns, smooth, scratch);
            }
            self.color
                .convert(&samples[..planes.len()], self.channels, out);
        }
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
    fn read_sequential(
        units: &Units,
        entropy: &Entropy,
        bytes: &[u8],
        restart: usize,
        rows: usize,
        blocks: &mut Sequential,
    ) -> Result<(), Stopped> {
        units.read(entropy, bytes, restart, rows, blocks)
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

fn transform_plane(plane: &mut Plane, coefficients: &mut Coefficients, table: &[i32; 64]) {
    for row in plane.rows.clone() {
        for column in plane.columns.clone() {
            let Some(place) = plane.place(row, column) else {
                continue;
            };
            let values = coefficients.block(row, column);
            let block = std::array::from_fn(|i| i32::from(values[i]).wrapping_mul(table[i]));
            transform(
                &block,
                plane.size,
                &mut plane.samples[place..],
                plane.stride,
            );
        }
    }
}
