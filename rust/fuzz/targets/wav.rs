#![no_main]

#[path = "../cases/wav.rs"]
mod case;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| case::run(bytes));
