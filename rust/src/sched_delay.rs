//! How long a thread waited for a processor, as Linux counts it (`proc_pid_schedstat`).

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PATH: &str = "/proc/thread-self/schedstat";

thread_local! {
    /// The kernel's counts for the thread that opens them.
    static COUNTS: RefCell<Option<File>> = RefCell::new(File::open(PATH).ok());
}

/// Nanoseconds that this thread could have run but waited; 0 where the system counts none.
pub fn sched_delay() -> u64 {
    let mut text = [0; 80];
    COUNTS.with_borrow(|file| {
        let read = file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        read.and_then(|length| second(&text[..length])).unwrap_or(0)
    })
}

/// The second of numbers between blanks.
fn second(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{sched_delay, second, PATH};
    use std::fs;

    #[test]
    fn the_second_number_is_the_delay() {
        assert_eq!(second(b"12 345 6\n"), Some(345));
        assert_eq!(second(b"12"), None);
        assert_eq!(second(b"12 \xff"), None);
    }

    #[test]
    fn it_is_what_the_kernel_counts_for_this_thread() {
        let counted = || {
            fs::read(PATH)
                .ok()
                .and_then(|text| second(&text))
                .unwrap_or(0)
        };
        for _ in 0..100 {
            let before = counted();
            let found = sched_delay();
            assert!((before..=counted()).contains(&found));
        }
        std::thread::spawn(|| assert!(sched_delay() <= 1_000_000_000))
            .join()
            .expect("a thread");
    }
}
