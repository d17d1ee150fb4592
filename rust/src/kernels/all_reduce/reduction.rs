//! One rank's part in one sum.

use super::counters;
use super::denormals::Flushed;
use super::layout::{Layout, LARGE_CHANNELS, SLOTS, SMALL_CHANNELS};
use super::line::{Count, Line};
use super::operands::Operands;
use super::segment::Segment;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a rank that waits looks whether the others are still there.
const LOOK: Duration = Duration::from_millis(50);

/// A sum under way. It gets on when all ranks do the like, on the same channel.
pub struct Reduction {
    segment: Arc<Segment>,
    channel: usize,
    rank: usize,
    operands: Operands,
    before: u32,
    filled: usize,
    added: usize,
    waiting_since: Instant,
    _counted: Option<counters::Under>,
}

impl Reduction {
    pub fn new(
        segment: Arc<Segment>,
        channel: usize,
        rank: usize,
        operands: Operands,
    ) -> Result<Self, String> {
        let (channels, ranks) = (LARGE_CHANNELS + SMALL_CHANNELS, segment.ranks());
        if channel >= channels || rank >= ranks {
            return Err(format!(
                "there is no channel {channel} of {channels}, or no rank {rank} of {ranks}"
            ));
        }
        if !segment.enter(channel, rank) {
            return Err(format!("two sums at a time on channel {channel}"));
        }
        let counted = counters::sum(operands.bytes());
        Ok(Self {
            before: segment.line(channel, rank).filled.get(),
            segment,
            channel,
            rank,
            operands,
            filled: 0,
            added: 0,
            waiting_since: Instant::now(),
            _counted: counted,
        })
    }

    /// Continues until the sums are there, which is true, or until another rank has let this one wait
    /// for `patience`.
    pub fn resume(&mut self, patience: Duration) -> Result<bool, String> {
        let result = self.advance(patience);
        if result.is_err() {
            self.segment.fail(self.rank);
        }
        result
    }

    fn advance(&mut self, patience: Duration) -> Result<bool, String> {
        let pieces = self.operands.bytes().div_ceil(Layout::piece(self.channel));
        while self.added < pieces {
            let free = self.count(self.filled).wrapping_sub(SLOTS as u32 - 1);
            if self.filled < pieces && self.all_have(|line| &line.read, free) {
                self.check_in_step()?;
                self.fill(self.filled);
                self.filled += 1;
            } else if self.filled > self.added {
                let filled = self.count(self.added).wrapping_add(1);
                if !self.wait_for_all(|line| &line.filled, filled, patience)? {
                    return Ok(false);
                }
                self.add_up(self.added)?;
                self.added += 1;
            } else if !self.wait_for_all(|line| &line.read, free, patience)? {
                return Ok(false);
            } else {
                continue;
            }
            self.waiting_since = Instant::now();
        }
        Ok(true)
    }

    fn range(&self, piece: usize) -> std::ops::Range<usize> {
        let bytes = Layout::piece(self.channel);
        let start = piece * bytes;
        start..(start + bytes).min(self.operands.bytes())
    }

    /// How many pieces were announced before this one.
    fn count(&self, piece: usize) -> u32 {
        self.before.wrapping_add(piece as u32)
    }

    /// What must be the same on all ranks.
    fn description(&self, piece: usize) -> [u64; 4] {
        [
            self.operands.bytes() as u64,
            self.operands.kind.code(),
            self.operands.count() as u64,
            piece as u64,
        ]
    }

    fn fill(&self, piece: usize) {
        let (description, bytes) = self
            .segment
            .slot(self.channel, self.rank, self.count(piece));
        // SAFETY: all have read what was in the slot.
        unsafe {
            description
                .cast::<[u64; 4]>()
                .write(self.description(piece))
        };
        self.operands.parts(self.range(piece), |part, offset| {
            // SAFETY: as above; the range is no longer than a slot.
            unsafe { bytes.add(offset).copy_from(part.input, part.bytes) };
        });
        self.own().filled.set(self.count(piece).wrapping_add(1));
    }

    fn own(&self) -> &Line {
        self.segment.line(self.channel, self.rank)
    }

    fn all_have(&self, count: fn(&Line) -> &Count, least: u32) -> bool {
        (0..self.segment.ranks()).all(|rank| self.has(rank, count, least))
    }

    fn has(&self, rank: usize, count: fn(&Line) -> &Count, least: u32) -> bool {
        count(self.segment.line(self.channel, rank)).has(least)
    }

    fn wait_for_all(
        &self,
        count: fn(&Line) -> &Count,
        least: u32,
        patience: Duration,
    ) -> Result<bool, String> {
        let until = Instant::now() + patience;
        let _counted = counters::wait();
        for (rank, peer) in self.segment.peers.iter().enumerate() {
            let counted = count(self.segment.line(self.channel, rank));
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if counted.wait(least, left.min(LOOK)) {
                    break;
                }
                self.check_in_step()?;
                if peer.is_gone() && !counted.has(least) {
                    return Err(format!("{} has ended", peer.task));
                }
                self.check_limit(count, least)?;
                if Instant::now() >= until {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn check_in_step(&self) -> Result<(), String> {
        match self.segment.failed() {
            Some(rank) => Err(format!(
                "{} has failed in one before",
                self.segment.peers[rank].task
            )),
            None => Ok(()),
        }
    }

    fn check_limit(&self, count: fn(&Line) -> &Count, least: u32) -> Result<(), String> {
        if self.waiting_since.elapsed() < self.segment.limit {
            return Ok(());
        }
        let absent: Vec<String> = (0..self.segment.ranks())
            .filter(|&rank| !self.has(rank, count, least))
            .map(|rank| format!("{} (replica {rank})", self.segment.peers[rank].task))
            .collect();
        Err(format!(
            "timed out: {} did not come within {} s",
            absent.join(", "),
            self.segment.limit.as_secs_f64()
        ))
    }

    fn add_up(&self, piece: usize) -> Result<(), String> {
        let slots: Vec<_> = (0..self.segment.ranks())
            .map(|rank| self.segment.slot(self.channel, rank, self.count(piece)))
            .collect();
        for (rank, (description, _)) in slots.iter().enumerate() {
            // SAFETY: the rank has announced it, and fills the slot again when this one has read it.
            let theirs = unsafe { description.cast::<[u64; 4]>().read() };
            if theirs != self.description(piece) {
                return Err(self.out_of_step(rank, theirs));
            }
        }
        let _flushed = Flushed::new();
        let mut sources: Vec<*const u8> = Vec::with_capacity(slots.len());
        self.operands.parts(self.range(piece), |part, offset| {
            sources.clear();
            sources.extend(
                slots
                    .iter()
                    .map(|slot| slot.1.wrapping_add(offset).cast_const()),
            );
            sources[self.rank] = part.input;
            // SAFETY: as above; this rank's own numbers are where its operands are.
            unsafe { self.operands.kind.sum(part.output, &sources, part.bytes) };
        });
        self.own().read.set(self.count(piece).wrapping_add(1));
        Ok(())
    }

    fn out_of_step(&self, rank: usize, theirs: [u64; 4]) -> String {
        let peers = &self.segment.peers;
        let ours = self.description(0);
        format!(
            "{} brought {} arrays of {} bytes together, and {} {} of {}: all must take the same \
             steps in the same order",
            peers[rank].task, theirs[2], theirs[0], peers[self.rank].task, ours[2], ours[0]
        )
    }
}

impl Drop for Reduction {
    fn drop(&mut self) {
        self.segment.leave(self.channel, self.rank);
    }
}
