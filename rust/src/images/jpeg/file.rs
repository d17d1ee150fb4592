//! A file of which scans are read, in order, into samples.

use super::super::defect::{Defect, Kind};
use super::super::image::Window;
use super::super::scratch;
use super::bits::Entropy;
use super::color::Color;
use super::decoder::Request;
use super::frame::Frame;
use super::markers::Headers;
use super::progressive::Coefficients;
use super::scan::Stopped;
use super::upsample::Plane;

/// Progressive files have about ten. A scan may be far shorter than the work that it makes.
const MOST_SCANS: usize = 100;

pub struct File<'a> {
    pub headers: Headers<'a>,
    pub frame: Frame,
    pub window: Window,
    pub channels: usize,
    pub color: Color,
    /// One for each component, once the first scan is found.
    pub planes: Vec<Plane>,
    pub scans: usize,
    /// Of progressive files.
    pub coefficients: Vec<Coefficients>,
    /// Which components had a scan.
    pub seen: Vec<bool>,
}

impl File<'_> {
    /// Reads the scans; returns how many rows of the output there are.
    pub fn read(&mut self, request: &Request) -> Result<usize, Defect> {
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
        match read {
            Ok(()) => Ok(true),
            Err(stopped) if scan.components.len() == self.seen.len() => Err(stopped),
            Err(stopped) => Err(at_start(stopped.defect)), // Rows lack other components.
        }
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
                plane.allocate(request.partial());
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
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        for plane in &mut self.planes {
            scratch::give(std::mem::take(&mut plane.samples));
        }
    }
}
