//! Compiles `libcuda.rs` to a fake driver library.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let library = folder.join(name);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake"])
        .args(["--check-cfg=cfg(stub)", "-Cpanic=abort"])
        .args(flags)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake/libcuda.rs"))
        .arg("-o")
        .arg(&library)
        .output()
        .expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
