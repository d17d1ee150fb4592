//! Sets `avx512` where the compiler knows these instructions: Rust 1.89 and newer, on x86-64.

use std::process::Command;

const FIRST_MINOR: u32 = 89;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(avx512)");
    let on_x86 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    if on_x86 && minor_version().is_some_and(|minor| minor >= FIRST_MINOR) {
        println!("cargo:rustc-cfg=avx512");
    }
}

fn minor_version() -> Option<u32> {
    let rustc = std::env::var_os("RUSTC")?;
    let output = Command::new(rustc).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split('.').nth(1)?.parse().ok()
}
