//! Ranks as threads of this process.

use super::layout::{Layout, LARGE_CHANNELS, LARGE_PIECE};
use super::numbers::Kind;
use super::operands::{Array, Operands};
use super::reduction::Reduction;
use super::segment::Peer;
use super::segment::Segment;
use crate::kernels::xla::c_api::{F32, S64};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const PATIENT: Duration = Duration::from_secs(60);

fn segment(peers: Vec<Peer>, limit: Duration) -> Arc<Segment> {
    let layout = Layout { ranks: peers.len() };
    let descriptor = unsafe { libc::memfd_create(c"drumline-test".as_ptr(), 0) };
    assert!(descriptor >= 0);
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    assert_eq!(
        unsafe { libc::ftruncate(file.as_raw_fd(), layout.bytes() as i64) },
        0
    );
    Arc::new(Segment::map(file.as_raw_fd(), peers, limit).unwrap())
}

fn threads(ranks: usize) -> Arc<Segment> {
    let peers = (0..ranks).map(|rank| Peer::this(&format!("worker:{rank}")));
    segment(peers.collect(), PATIENT)
}

fn reduction<T>(
    segment: &Arc<Segment>,
    place: (usize, usize),
    dtype: i32,
    arrays: &[Vec<T>],
    sums: &mut [Vec<T>],
) -> Result<Reduction, String> {
    let array = |(input, output): (&Vec<T>, &mut Vec<T>)| Array {
        input: input.as_ptr().cast(),
        output: output.as_mut_ptr().cast(),
        bytes: size_of_val(&input[..]),
    };
    let arrays = arrays.iter().zip(sums).map(array).collect();
    let operands = unsafe { Operands::new(Kind::of(dtype).unwrap(), arrays) };
    Reduction::new(Arc::clone(segment), place.0, place.1, operands)
}

/// Numbers whose sums depend on the order.
fn numbers(rank: usize, seed: usize, len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 7 + seed * 13 + rank * 101) % 97) as f32 * 1.1f32.powi((i % 60) as i32))
        .collect()
}

#[test]
fn many_sums_of_many_sizes_on_channels_in_any_order() {
    let sizes: [&[usize]; 4] = [
        &[1],
        &[3, 1000, 0, 5],
        &[LARGE_PIECE / 4 * 6 + 7, 2],
        &[LARGE_PIECE / 4, LARGE_PIECE / 4, 1],
    ];
    let segment = threads(3);
    let rank = |rank: usize| {
        for step in 0..16 {
            let sizes = sizes[step % sizes.len()];
            // Two at a time, started in an order that differs from rank to rank.
            let channels = [step % LARGE_CHANNELS, LARGE_CHANNELS + step % 5];
            let inputs = channels.map(|channel| {
                let array = |(i, &len): (usize, &usize)| numbers(rank, channel + i, len);
                sizes.iter().enumerate().map(array).collect::<Vec<_>>()
            });
            let mut sums = inputs.clone();
            let mut under_way = Vec::new();
            for (i, sums) in sums.iter_mut().enumerate() {
                let place = (channels[i], rank);
                under_way.push(reduction(&segment, place, F32, &inputs[i], sums).unwrap());
            }
            if rank % 2 == 1 {
                under_way.reverse();
            }
            while !under_way.is_empty() {
                under_way.retain_mut(|each| !each.resume(Duration::from_micros(50)).unwrap());
            }
            for (sums, channel) in sums.iter().zip(channels) {
                for (i, (sum, &len)) in sums.iter().zip(sizes).enumerate() {
                    let [a, b, c] = [0, 1, 2].map(|rank| numbers(rank, channel + i, len));
                    let expected: Vec<f32> = (0..len).map(|i| a[i] + b[i] + c[i]).collect();
                    assert!(
                        *sum == expected,
                        "step {step}, channel {channel}, array {i}"
                    );
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn(move || rank(number));
        }
    });
}

#[test]
fn sums_may_go_where_the_numbers_were() {
    let segment = threads(2);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let segment = &segment;
            scope.spawn(move || {
                let mut values = vec![vec![i64::MAX - 1 + rank as i64; 100_000]];
                let inputs = unsafe { std::slice::from_raw_parts(values.as_ptr(), 1) };
                let mut reduction =
                    reduction(segment, (0, rank), S64, inputs, &mut values).unwrap();
                assert!(reduction.resume(PATIENT).unwrap());
                assert!(values[0].iter().all(|&sum| sum == -3));
            });
        }
    });
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let peers = ["worker:0", "worker:1", "chief:0"].map(Peer::this).to_vec();
    let segment = segment(peers, Duration::from_millis(300));
    let (values, mut sums) = (vec![vec![1f32]], vec![vec![0f32]]);
    let mut late = reduction(&segment, (0, 0), F32, &values, &mut sums).unwrap();
    assert!(!late.resume(Duration::from_millis(1)).unwrap());
    let error = late.resume(PATIENT).unwrap_err();
    assert!(error.contains("worker:1 (replica 1), chief:0 (replica 2) did not come within 0.3 s"));
    assert!(error.starts_with("timed out"));
    drop(late);
    let mut other = reduction(&segment, (1, 1), F32, &values, &mut sums).unwrap();
    let error = other.resume(PATIENT).unwrap_err();
    assert_eq!(error, "worker:0 has failed in one before");
}

#[test]
fn a_process_that_has_ended_is_not_waited_for() {
    let mut peers = vec![Peer::this("worker:0"), Peer::this("worker:1")];
    peers[1].started += 1;
    let segment = segment(peers, PATIENT);
    let (values, mut sums) = (vec![vec![1f32]], vec![vec![0f32]]);
    let mut alone = reduction(&segment, (0, 0), F32, &values, &mut sums).unwrap();
    assert_eq!(alone.resume(PATIENT).unwrap_err(), "worker:1 has ended");
}

#[test]
fn ranks_that_bring_different_arrays_are_refused() {
    let segment = threads(2);
    let errors: Vec<String> = std::thread::scope(|scope| {
        let rank = |rank: usize| {
            let values = vec![vec![1f32; 5 + rank]];
            let mut sums = values.clone();
            let place = (LARGE_CHANNELS, rank);
            let mut reduction = reduction(&segment, place, F32, &values, &mut sums).unwrap();
            reduction.resume(PATIENT).unwrap_err()
        };
        let threads = [0, 1].map(|number| scope.spawn(move || rank(number)));
        threads.map(|thread| thread.join().unwrap()).to_vec()
    });
    let explained = |error: &&String| error.contains("the same steps in the same order");
    assert!(errors.iter().any(|error| explained(&error)), "{errors:?}");
}

#[test]
fn a_channel_is_for_one_sum_at_a_time() {
    let segment = threads(2);
    let (values, mut sums) = (vec![vec![1f32]], vec![vec![0f32]]);
    let place = (3, 1);
    let first = reduction(&segment, place, F32, &values, &mut sums).unwrap();
    let second = reduction(&segment, place, F32, &values, &mut sums);
    assert!(second.err().unwrap().contains("two sums at a time"));
    drop(first);
    assert!(reduction(&segment, place, F32, &values, &mut sums).is_ok());
    assert!(reduction(&segment, (64, 0), F32, &values, &mut sums).is_err());
    assert!(reduction(&segment, (0, 2), F32, &values, &mut sums).is_err());
}
