//! Files read whole, several at once.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many files are read at once: reading waits for disks more than it computes.
const MOST_THREADS: usize = 16;

/// The contents of the files before the first that cannot be read, and why that one cannot.
pub fn read(paths: &[&[u8]]) -> (Vec<Vec<u8>>, Option<io::Error>) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(place) else {
                return done;
            };
            let content = std::fs::read(OsStr::from_bytes(path));
            if content.is_err() {
                // Files after it are not wanted; those before it are being read already.
                next.store(paths.len(), Ordering::Relaxed);
            }
            done.push((place, content));
        }
    };
    let mut found = thread::scope(|scope| {
        let others = 1..MOST_THREADS.min(paths.len());
        let others: Vec<_> = others.map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for other in others {
            found.extend(other.join().expect("reading does not panic"));
        }
        found
    });
    found.sort_unstable_by_key(|(place, _)| *place);
    let mut contents = Vec::with_capacity(found.len());
    for (_, content) in found {
        match content {
            Ok(content) => contents.push(content),
            Err(error) => return (contents, Some(error)),
        }
    }
    (contents, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_before_the_first_that_is_missing() {
        let folder = std::env::temp_dir().join(format!("whole-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths: Vec<_> = (0..40).map(|i| folder.join(format!("{i}"))).collect();
        for (i, path) in paths.iter().enumerate() {
            std::fs::write(path, vec![i as u8; i]).unwrap();
        }
        let names: Vec<_> = paths.iter().map(|p| p.as_os_str().as_bytes()).collect();
        let (contents, error) = read(&names);
        assert!(error.is_none());
        assert!((0..40).all(|i| contents[i] == vec![i as u8; i]));
        std::fs::remove_file(&paths[23]).unwrap();
        let (contents, error) = read(&names);
        assert_eq!(contents.len(), 23);
        assert_eq!(error.unwrap().kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
