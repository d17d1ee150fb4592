//! The segments of a JPEG file before and between its scans.

use super::super::defect::Defect;
use super::frame::Frame;
use super::huffman::Table;

/// What a file has said so far.
pub struct Headers<'a> {
    pub bytes: &'a [u8],
    /// Where reading continues.
    pub at: usize,
    pub frame: Option<Frame>,
    /// Quantization tables, in zigzag order.
    pub quantization: [Option<[u16; 64]>; 4],
    pub dc: [Option<Table>; 4],
    pub ac: [Option<Table>; 4],
    /// Coded units between restart markers, or 0.
    pub restart: usize,
    pub jfif: bool,
    /// The transform of Adobe's marker.
    pub adobe: Option<u8>,
}

/// What is wanted from one scan.
pub struct Scan {
    /// Components by number, with the positions of their DC and AC tables.
    pub components: Vec<(usize, usize, usize)>,
    /// The first and the last coefficient.
    pub first: usize,
    pub last: usize,
    /// Bits of precision: before, and left out now.
    pub high: u32,
    pub low: u32,
    /// Where the marker stands.
    pub offset: usize,
}

impl<'a> Headers<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Defect> {
        if !bytes.starts_with(&[0xff, 0xd8]) {
            return Err(Defect::damaged(
                0,
                "not a JPEG: it does not begin with FF D8",
            ));
        }
        Ok(Self {
            bytes,
            at: 2,
            frame: None,
            quantization: [None; 4],
            dc: [const { None }; 4],
            ac: [const { None }; 4],
            restart: 0,
            jfif: false,
            adobe: None,
        })
    }

    /// Reads up to the frame header.
    pub fn frame(&mut self) -> Result<&Frame, Defect> {
        while self.frame.is_none() {
            if self.segment()?.is_some() {
                return Err(Defect::damaged(
                    self.at,
                    "a JPEG scan or its end without a frame header",
                ));
            }
        }
        self.frame
            .as_ref()
            .ok_or_else(|| Defect::unsupported("JPEG without a frame"))
    }

    /// Reads up to the next scan; nothing at the end of the image.
    pub fn next_scan(&mut self) -> Result<Option<Scan>, Defect> {
        loop {
            if let Some(found) = self.segment()? {
                return Ok(found);
            }
        }
    }

    /// Reads one segment; `Some` at a scan and at the end.
    fn segment(&mut self) -> Result<Option<Option<Scan>>, Defect> {
        let marker = self.marker()?;
        let offset = self.at - 2;
        if marker == 0xd9 {
            return Ok(Some(None));
        }
        if matches!(marker, 0x01 | 0xd0..=0xd8) {
            return Ok(None);
        }
        let body = self.body()?;
        let short = || {
            Defect::damaged(
                offset,
                format!("the JPEG segment FF {marker:02X} is malformed"),
            )
        };
        match marker {
            0xc0..=0xc2 if self.frame.is_some() => {
                return Err(Defect::damaged(offset, "a second JPEG frame header"));
            }
            0xc0..=0xc2 => self.frame = Some(Frame::parse(body, marker == 0xc2, offset)?),
            0xc4 => self.huffman(body).ok_or_else(short)?,
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Err(Defect::unsupported(format!(
                    "JPEG of kind SOF{}: baseline, extended and progressive with Huffman codes are \
                     supported",
                    marker - 0xc0
                )))
            }
            0xda => return Ok(Some(Some(self.scan(body, offset)?))),
            0xdb => self.quantization(body).ok_or_else(short)?,
            0xdd => {
                let [high, low] = body else {
                    return Err(short());
                };
                self.restart = usize::from(u16::from_be_bytes([*high, *low]));
            }
            0xe0 if body.starts_with(b"JFIF\0") => self.jfif = true,
            0xee if body.starts_with(b"Adobe") && body.len() >= 12 => self.adobe = Some(body[11]),
            _ => (),
        }
        Ok(None)
    }

    /// The next marker; other bytes before it are skipped, as libjpeg does.
    fn marker(&mut self) -> Result<u8, Defect> {
        while let Some(&[first, second]) = self.bytes.get(self.at..self.at + 2) {
            if first == 0xff && !matches!(second, 0 | 0xff) {
                self.at += 2;
                return Ok(second);
            }
            self.at += 1;
        }
        Err(Defect::truncated(
            self.bytes.len(),
            "the JPEG data end too early",
        ))
    }

    fn body(&mut self) -> Result<&'a [u8], Defect> {
        let length = match self.bytes.get(self.at..self.at + 2) {
            Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let bytes = self.bytes;
        let body = bytes.get(self.at + 2..self.at + length).ok_or_else(|| {
            if length < 2 && self.at + 2 <= bytes.len() {
                return Defect::damaged(self.at, "a JPEG segment has no length");
            }
            Defect::truncated(self.at, "a JPEG segment is longer than the data")
        })?;
        self.at += length;
        Ok(body)
    }

    fn quantization(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = body.split_first() {
            let table = self.quantization.get_mut(usize::from(head & 15))?;
            let wide = match head >> 4 {
                0 => 1,
                1 => 2,
                _ => return None,
            };
            let values = rest.get(..64 * wide)?;
            body = &rest[64 * wide..];
            let mut read = [0; 64];
            for (value, bytes) in read.iter_mut().zip(values.chunks_exact(wide)) {
                *value = bytes
                    .iter()
                    .fold(0, |all, &byte| all << 8 | u16::from(byte));
            }
            *table = Some(read);
        }
        Some(())
    }

    fn huffman(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = body.split_first() {
            let counts = rest.first_chunk::<16>()?;
            let total: usize = counts.iter().map(|&n| usize::from(n)).sum();
            let symbols = rest.get(16..16 + total).filter(|_| total <= 256)?;
            body = &rest[16 + total..];
            let alternate = head >> 4 == 0;
            if head >> 4 > 1 || (alternate && symbols.iter().any(|&s| s > 15)) {
                return None;
            }
            let tables = if alternate {
                &mut self.dc
            } else {
                &mut self.ac
            };
            *tables.get_mut(usize::from(head & 15))? = Some(Table::new(counts, symbols)?);
        }
        Some(())
    }

    fn scan(&self, body: &[u8], offset: usize) -> Result<Scan, Defect> {
        let wrong = |what: &str| Defect::damaged(offset, what);
        let frame = self
            .frame
            .as_ref()
            .ok_or_else(|| wrong("a JPEG scan without a frame header"))?;
        let count = usize::from(*body.first().unwrap_or(&0));
        if !(1..=4).contains(&count) || body.len() != 4 + 2 * count {
            return Err(wrong("the JPEG scan header is malformed"));
        }
        let mut scan = Scan {
            components: Vec::with_capacity(count),
            first: usize::from(body[1 + 2 * count]),
            last: usize::from(body[2 + 2 * count]),
            high: u32::from(body[3 + 2 * count] >> 4),
            low: u32::from(body[3 + 2 * count] & 15),
            offset,
        };
        for entry in body[1..=2 * count].chunks_exact(2) {
            let number = frame.components.iter().position(|c| c.id == entry[0]);
            let number =
                number.ok_or_else(|| wrong("a JPEG scan names a component that is not there"))?;
            if scan.components.iter().any(|known| known.0 == number) || entry[1] & 0xcc != 0 {
                return Err(wrong("the JPEG scan header is malformed"));
            }
            let tables = (usize::from(entry[1] >> 4), usize::from(entry[1] & 15));
            scan.components.push((number, tables.0, tables.1));
        }
        scan.check(frame)?;
        Ok(scan)
    }
}

impl Scan {
    fn check(&self, frame: &Frame) -> Result<(), Defect> {
        let blocks = |&(number, ..): &(usize, usize, usize)| {
            frame.components[number].h * frame.components[number].v
        };
        let many = self.components.len() > 1;
        let valid = if frame.progressive {
            let refines = self.high == 0 || self.high == self.low + 1;
            let band = if self.first == 0 {
                self.last == 0
            } else {
                !many
            };
            refines && band && self.first <= self.last && self.last < 64 && self.low <= 13
        } else {
            true // Baseline decoders take no notice of these.
        };
        if !valid || (many && self.components.iter().map(blocks).sum::<usize>() > 10) {
            return Err(Defect::damaged(
                self.offset,
                "the JPEG scan header is malformed",
            ));
        }
        Ok(())
    }

    /// Whether only one component takes part, whose blocks then follow one another in rows.
    pub fn single(&self) -> Option<usize> {
        match self.components[..] {
            [(number, ..)] => Some(number),
            _ => None,
        }
    }
}
