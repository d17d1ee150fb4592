//! Scans whose blocks hold all of their coefficients: read and transformed block by block.

#[cfg(target_arch = "x86_64")]
use super::super::vectorized::has_avx2;
use super::bits::{Bits, Entropy};
use super::coefficients::{Room, ScanComponent};
use super::huffman::NoCode;
use super::scan::{Blocks, Stopped, Units};
use super::transform::Block;
#[cfg(target_arch = "x86_64")]
use super::transform::Wide;
use super::transform::{flat, transform_by, Lanes, Plain};
use super::upsample::Plane;
use std::marker::PhantomData;

struct Sequential<'a, L> {
    components: Vec<ScanComponent<'a>>,
    planes: &'a mut [Plane],
    /// For the block that is read: zeros; and for the one before, which waits for its transform: what
    /// was stored in pieces is slow to load as a whole at once.
    rooms: [Room; 2],
    /// Whose turn it is to be read to.
    turn: usize,
    waiting: Option<Waiting>,
    lanes: PhantomData<L>,
}

impl<'a, L: Lanes> Sequential<'a, L> {
    fn new(components: Vec<ScanComponent<'a>>, planes: &'a mut [Plane]) -> Self {
        let (rooms, lanes) = ([[0; 256]; 2], PhantomData);
        Self {
            components,
            planes,
            rooms,
            turn: 0,
            waiting: None,
            lanes,
        }
    }
}

impl<L: Lanes> Blocks for Sequential<'_, L> {
    fn restart(&mut self) {
        for component in &mut self.components {
            component.before = 0;
        }
    }

    /// Reads a block, and writes its samples where they are needed.
    #[inline(always)]
    fn read(
        &mut self,
        bits: &mut Bits,
        slot: usize,
        row: usize,
        column: usize,
    ) -> Result<(), NoCode> {
        let component = &mut self.components[slot];
        let plane = &mut self.planes[component.plane];
        let room = &mut self.rooms[self.turn % 2];
        let place = plane.place(row, column);
        let Some(place) = place.filter(|_| plane.size > 1) else {
            component.read::<false>(bits, room)?;
            if let Some(place) = place {
                let samples = &mut plane.samples[place..];
                flat(
                    component.before as i16,
                    &component.factors,
                    1,
                    samples,
                    plane.stride,
                );
            }
            return Ok(());
        };
        let last = component.read::<true>(bits, room)?;
        let dc = component.before as i16;
        if last == 0 {
            let samples = &mut plane.samples[place..];
            flat(dc, &component.factors, plane.size, samples, plane.stride);
            return Ok(());
        }
        room[0] = dc;
        self.turn ^= 1;
        if let Some(waiting) = self.waiting.replace(Waiting { slot, place }) {
            self.transform(waiting);
        }
        Ok(())
    }
}

/// A block that was read: its component in the scan, and where its samples go.
struct Waiting {
    slot: usize,
    place: usize,
}

impl<L: Lanes> Sequential<'_, L> {
    /// Transforms the last block.
    #[inline(always)]
    fn finish(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.turn ^= 1;
            self.transform(waiting);
        }
    }

    /// Writes the samples of the block that lies in the room whose turn it is.
    #[inline(always)]
    fn transform(&mut self, waiting: Waiting) {
        let component = &self.components[waiting.slot];
        let plane = &mut self.planes[component.plane];
        let room = &mut self.rooms[self.turn % 2];
        let samples = &mut plane.samples[waiting.place..];
        let block: &mut Block = room.first_chunk_mut().expect("room for a block");
        transform_by::<L>(block, &component.factors, plane.size, samples, plane.stride);
        block.fill(0);
    }
}

/// A scan that is to be read.
pub struct Source<'a> {
    pub units: Units,
    pub entropy: &'a Entropy,
    pub bytes: &'a [u8],
    /// Units between restart markers, or 0.
    pub restart: usize,
    /// Of units, that are needed.
    pub rows: usize,
}

impl Source<'_> {
    /// Reads the blocks' samples into the planes.
    pub fn read(
        &self,
        components: Vec<ScanComponent>,
        planes: &mut [Plane],
    ) -> Result<(), Stopped> {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has the instructions.
            return unsafe { self.read_widely(components, planes) };
        }
        self.read_by::<Plain>(components, planes)
    }

    /// # Safety
    /// The processor has these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn read_widely(
        &self,
        components: Vec<ScanComponent>,
        planes: &mut [Plane],
    ) -> Result<(), Stopped> {
        self.read_by::<Wide>(components, planes)
    }

    #[inline(always)]
    fn read_by<L: Lanes>(
        &self,
        components: Vec<ScanComponent>,
        planes: &mut [Plane],
    ) -> Result<(), Stopped> {
        let mut blocks = Sequential::<L>::new(components, planes);
        let (entropy, bytes) = (self.entropy, self.bytes);
        let read = self
            .units
            .read(entropy, bytes, self.restart, self.rows, &mut blocks);
        blocks.finish();
        read
    }
}
