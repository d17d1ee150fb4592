//! The process that a rank runs in.

/// A process of this machine.
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
