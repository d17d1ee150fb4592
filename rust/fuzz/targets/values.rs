#![no_main]

#[path = "../cases/values.rs"]
mod case;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| case::run(bytes));
