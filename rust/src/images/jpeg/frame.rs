//! The frame of a JPEG file: its size and components.

use super::super::defect::Defect;

/// One of the planes of which an image consists.
#[derive(Clone, Debug)]
pub struct Component {
    pub id: u8,
    /// Sampling factors, 1 to 4.
    pub h: usize,
    pub v: usize,
    pub quantization: usize,
    /// Blocks that hold samples of the image.
    pub columns: usize,
    pub rows: usize,
}

#[derive(Clone, Debug)]
pub struct Frame {
    pub height: usize,
    pub width: usize,
    pub progressive: bool,
    pub components: Vec<Component>,
    /// The largest sampling factors.
    pub h: usize,
    pub v: usize,
    /// Minimum coded units.
    pub mcu_columns: usize,
    pub mcu_rows: usize,
}

impl Frame {
    /// Reads the segment of a marker SOF0, SOF1 or SOF2 that stands at `offset`.
    pub fn parse(segment: &[u8], progressive: bool, offset: usize) -> Result<Self, Defect> {
        let wrong = |what: &str| Defect::damaged(offset, what);
        let [precision, h1, h0, w1, w0, count, entries @ ..] = segment else {
            return Err(wrong("the JPEG frame header is too short"));
        };
        let height = usize::from(u16::from_be_bytes([*h1, *h0]));
        let width = usize::from(u16::from_be_bytes([*w1, *w0]));
        if *precision != 8 {
            return Err(Defect::unsupported(format!(
                "JPEG with {precision} bits per sample; 8 are supported"
            )));
        }
        if height == 0 || width == 0 {
            return Err(wrong("the JPEG frame header gives no size"));
        }
        if !matches!(count, 1 | 3 | 4) || entries.len() != 3 * usize::from(*count) {
            return Err(wrong(
                "the JPEG frame header must have 1, 3 or 4 components",
            ));
        }
        let mut frame = Self {
            height,
            width,
            progressive,
            components: Vec::with_capacity(4),
            h: 1,
            v: 1,
            mcu_columns: 0,
            mcu_rows: 0,
        };
        for entry in entries.chunks_exact(3) {
            frame
                .add(entry)
                .ok_or_else(|| wrong("a component of the JPEG frame header is invalid"))?;
        }
        frame.measure();
        Ok(frame)
    }

    fn add(&mut self, entry: &[u8]) -> Option<()> {
        let (h, v) = (usize::from(entry[1] >> 4), usize::from(entry[1] & 15));
        let quantization = usize::from(entry[2]);
        let known = self.components.iter().any(|c| c.id == entry[0]);
        if !(1..=4).contains(&h) || !(1..=4).contains(&v) || quantization > 3 || known {
            return None;
        }
        self.components.push(Component {
            id: entry[0],
            h,
            v,
            quantization,
            columns: 0,
            rows: 0,
        });
        Some(())
    }

    fn measure(&mut self) {
        let most = |factor: fn(&Component) -> usize| self.components.iter().map(factor).max();
        let (h, v) = (most(|c| c.h).unwrap_or(1), most(|c| c.v).unwrap_or(1));
        (self.h, self.v) = (h, v);
        self.mcu_columns = self.width.div_ceil(8 * h);
        self.mcu_rows = self.height.div_ceil(8 * v);
        for component in &mut self.components {
            component.columns = (self.width * component.h).div_ceil(8 * h);
            component.rows = (self.height * component.v).div_ceil(8 * v);
        }
    }

    /// Height and width after division by `ratio`.
    pub fn scaled(&self, ratio: usize) -> (usize, usize) {
        (self.height.div_ceil(ratio), self.width.div_ceil(ratio))
    }
}
