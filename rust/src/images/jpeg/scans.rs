//! One scan of a file, and the transforms that wait for the last.

use super::super::defect::Defect;
use super::super::vectorized::vectorized;
use super::bits::Entropy;
use super::coefficients;
use super::file::File;
use super::huffman::Pairs;
use super::markers::Scan;
use super::progressive::{self, Coefficients, Progressive};
use super::scan::{Stopped, Units};
use super::sequential;
use super::transform::transform;
use super::transform::{factors, Block};
use super::upsample::Plane;
use std::rc::Rc;

impl File<'_> {
    pub fn sequential(&mut self, scan: &Scan, entropy: &Entropy) -> Result<(), Stopped> {
        let mut pairs: [Option<Rc<Pairs>>; 4] = Default::default();
        let components = scan.components.iter().map(|&(number, dc, ac)| {
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
            Ok(coefficients::ScanComponent {
                dc,
                ac: table,
                pairs: Rc::clone(pairs),
                factors: factors(quantization.ok_or_else(|| missing("quantization"))?),
                plane: number,
                before: 0,
            })
        });
        let components = components.collect::<Result<Vec<_>, Stopped>>()?;
        let units = Units::new(&self.frame, scan);
        let source = sequential::Source {
            rows: self.rows_needed(scan, units.rows),
            units,
            entropy,
            bytes: self.headers.bytes,
            restart: self.headers.restart,
        };
        source.read(components, &mut self.planes)
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

    pub fn progressive(&mut self, scan: &Scan, entropy: &Entropy) -> Result<(), Stopped> {
        let components =
            scan.components
                .iter()
                .map(|&(number, dc, ac)| progressive::ProgressiveComponent {
                    dc: self.headers.dc[dc].as_ref(),
                    ac: self.headers.ac[ac].as_ref(),
                    component: number,
                    before: 0,
                });
        let units = Units::new(&self.frame, scan);
        let mut blocks = Progressive {
            scan,
            components: components.collect(),
            coefficients: &mut self.coefficients,
            empty: 0,
        };
        let restart = self.headers.restart;
        read_progressive(&units, entropy, self.headers.bytes, restart, &mut blocks)
    }

    /// Transforms what progressive scans left.
    pub fn reconstruct(&mut self) -> Result<(), Defect> {
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
