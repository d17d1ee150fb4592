//! Where things lie in the shared memory.

/// Sums of many bytes that may be under way at a time, and of few bytes.
pub const LARGE_CHANNELS: usize = 4;
pub const SMALL_CHANNELS: usize = 60;

/// How many bytes travel at once: of a large sum what the processors' caches hold, of a small one
/// all.
pub const LARGE_PIECE: usize = 512 << 10;
pub const SMALL_PIECE: usize = 4 << 10;

/// How many pieces a rank may be ahead of the slowest.
pub const SLOTS: usize = 4;

/// Each rank reads the slots of all: with more of them a ring is quicker.
pub const MOST_RANKS: usize = 16;

/// A line of the processors' caches.
pub const LINE: usize = 64;

const PAGE: usize = 4096;

/// The layout for a number of ranks: a page whose first word is the failure, the lines of each
/// channel and rank, and each rank's slots.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub ranks: usize,
}

impl Layout {
    /// The most bytes of a piece.
    pub fn piece(channel: usize) -> usize {
        if channel < LARGE_CHANNELS {
            LARGE_PIECE
        } else {
            SMALL_PIECE
        }
    }

    pub fn line(&self, channel: usize, rank: usize) -> usize {
        PAGE + LINE * (channel * self.ranks + rank)
    }

    /// Where the slot for a piece lies: a line that describes the piece, and its bytes.
    pub fn slot(&self, channel: usize, rank: usize, number: usize) -> usize {
        let before = if channel < LARGE_CHANNELS {
            SLOTS * channel * (LINE + LARGE_PIECE)
        } else {
            LARGE_BYTES + SLOTS * (channel - LARGE_CHANNELS) * (LINE + SMALL_PIECE)
        };
        self.slots() + rank * BYTES + before + number * (LINE + Self::piece(channel))
    }

    pub fn bytes(&self) -> usize {
        (self.slots() + self.ranks * BYTES).next_multiple_of(PAGE)
    }

    fn slots(&self) -> usize {
        let lines = LINE * (LARGE_CHANNELS + SMALL_CHANNELS) * self.ranks;
        PAGE + lines.next_multiple_of(PAGE)
    }
}

/// What the slots of a rank take.
const LARGE_BYTES: usize = SLOTS * LARGE_CHANNELS * (LINE + LARGE_PIECE);
const BYTES: usize = LARGE_BYTES + SLOTS * SMALL_CHANNELS * (LINE + SMALL_PIECE);
