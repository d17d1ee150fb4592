//! The shared memory, as one process sees it.

use super::layout::{Layout, LARGE_CHANNELS, LINE, SLOTS, SMALL_CHANNELS};
use super::line::Line;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Memory that all ranks share.
///
/// - `peers`: for each rank, its process.
/// - `limit`: how long a rank may be waited for.
pub struct Segment {
    base: *mut u8,
    layout: Layout,
    pub peers: Vec<Peer>,
    pub limit: Duration,
    busy: Vec<AtomicBool>,
}

// SAFETY: the memory is reached by atomic operations, and by the protocol that they make up.
unsafe impl Send for Segment {}
unsafe impl Sync for Segment {}

impl Segment {
    /// Maps the memory that `descriptor` stands for: `Layout::bytes` zeros at the beginning.
    pub fn map(descriptor: RawFd, peers: Vec<Peer>, limit: Duration) -> std::io::Result<Self> {
        let layout = Layout { ranks: peers.len() };
        // SAFETY: a new mapping, which fails if there is no such memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let channels = LARGE_CHANNELS + SMALL_CHANNELS;
        Ok(Self {
            base: base.cast(),
            layout,
            busy: (0..channels * peers.len())
                .map(|_| AtomicBool::new(false))
                .collect(),
            peers,
            limit,
        })
    }

    pub fn ranks(&self) -> usize {
        self.layout.ranks
    }

    pub fn line(&self, channel: usize, rank: usize) -> &Line {
        // SAFETY: a line lies there, and zeros are one.
        unsafe { &*self.base.add(self.layout.line(channel, rank)).cast() }
    }

    /// Where a piece is described, and where its bytes are.
    pub fn slot(&self, channel: usize, rank: usize, count: u32) -> (*mut u64, *mut u8) {
        let number = count as usize % SLOTS;
        // SAFETY: a slot lies there.
        let slot = unsafe { self.base.add(self.layout.slot(channel, rank, number)) };
        (slot.cast(), slot.wrapping_add(LINE))
    }

    /// Marks that a rank of this process sums on a channel; false if it does already.
    pub fn enter(&self, channel: usize, rank: usize) -> bool {
        !self.busy[channel * self.ranks() + rank].swap(true, SeqCst)
    }

    pub fn leave(&self, channel: usize, rank: usize) {
        self.busy[channel * self.ranks() + rank].store(false, SeqCst);
    }

    /// Lets all sums fail from now on, in every process: the ranks are no longer in step.
    pub fn fail(&self, rank: usize) {
        let _ = self
            .failure()
            .compare_exchange(0, rank as u32 + 1, SeqCst, SeqCst);
    }

    /// The rank that failed first, if one did.
    pub fn failed(&self) -> Option<usize> {
        (self.failure().load(SeqCst) as usize).checked_sub(1)
    }

    fn failure(&self) -> &AtomicU32 {
        // SAFETY: the first word of the memory is only used as this.
        unsafe { &*self.base.cast() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.base.cast(), self.layout.bytes()) };
    }
}

/// The process of a rank, on this machine.
///
/// - `task`: its name in messages.
/// - `pid`, `started`: what tells it from all others: its number, and when it started, in the
///   machine's clock ticks.
#[derive(Clone, Debug)]
pub struct Peer {
    pub task: String,
    pub pid: u32,
    pub started: u64,
}

impl Peer {
    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) else {
            return true;
        };
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let is_dead = matches!(fields.first(), Some(&("Z" | "X" | "x")));
        is_dead || fields.get(19).and_then(|text| text.parse().ok()) != Some(self.started)
    }

    /// This process, for tests in it.
    #[cfg(test)]
    pub fn this(task: &str) -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields = stat.rsplit(')').next().unwrap();
        Self {
            task: task.to_string(),
            pid: std::process::id(),
            started: fields.split_whitespace().nth(19).unwrap().parse().unwrap(),
        }
    }
}
