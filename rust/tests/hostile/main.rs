//! Hostile bytes for every parser: the seeds of `fuzz/seeds`, changed at random but the same in every
//! run, go through the cases that `make fuzz` runs with other bytes and AddressSanitizer.
//!
//! `HOSTILE_ROUNDS` is by how many times to multiply the number of inputs.

mod cases;
mod changes;
mod memory;
mod watch;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

macro_rules! hostile {
    ($($case:ident: $inputs:literal inputs of $most:literal MiB at most;)*) => {
        $(#[test] fn $case() {
            watch::pass(stringify!($case), cases::$case::run, $inputs, $most << 20);
        })*
    };
}

hostile! {
    csv: 30000 inputs of 8 MiB at most;
    example_messages: 30000 inputs of 1 MiB at most;
    images: 10000 inputs of 64 MiB at most;
    records: 30000 inputs of 65 MiB at most;
    strings: 5000 inputs of 64 MiB at most;
    tar: 20000 inputs of 8 MiB at most;
    tensors: 50000 inputs of 16 MiB at most;
    values: 50000 inputs of 1 MiB at most;
    wav: 50000 inputs of 8 MiB at most;
}
