//! Running inputs through a case: none may panic, hang, or take too much memory.

use super::changes::Inputs;
use super::memory::most_during;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long one input may take, with other tests beside it.
const LONGEST: Duration = Duration::from_secs(30);

type Case = fn(&[u8]);

/// Runs so many inputs, and the seeds themselves, through a case.
pub fn pass(name: &str, case: Case, inputs: usize, most: usize) {
    let rounds = std::env::var("HOSTILE_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let seeds = seeds(name);
    let tried = Arc::new(Mutex::new(Vec::new()));
    let (done, waits) = channel();
    let thread = {
        let tried = Arc::clone(&tried);
        thread::spawn(move || run(case, seeds, inputs * rounds, most, &tried, &done))
    };
    let problem = loop {
        match waits.recv_timeout(LONGEST) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => break Some(format!("took {LONGEST:?} or more")),
            Err(RecvTimeoutError::Disconnected) => {
                break thread.join().err().map(|_| "panicked".to_string());
            }
        }
    };
    if let Some(problem) = problem {
        let input = tried.lock().unwrap_or_else(PoisonError::into_inner);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{name}"));
        fs::write(&path, &*input).unwrap();
        panic!("{name} {problem}; the input is in {}", path.display());
    }
}

fn run(
    case: Case,
    seeds: Vec<Vec<u8>>,
    inputs: usize,
    most: usize,
    tried: &Mutex<Vec<u8>>,
    done: &Sender<()>,
) {
    let mut changed = Inputs::new(seeds.clone());
    let changed = (0..inputs).map(|turn| changed.next(turn));
    for input in seeds.into_iter().chain(changed) {
        tried.lock().unwrap().clone_from(&input);
        let held = most_during(|| case(&input));
        assert!(
            held <= most,
            "{held} bytes were held for one of {}",
            input.len()
        );
        done.send(()).unwrap();
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(name);
    let files = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .collect()
}
