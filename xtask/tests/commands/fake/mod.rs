//! A workspace whose compiler is made of scripts.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use warpfold_suite_build::workspace::Workspace;

const RUSTC: &str = r#"case "$*" in
-vV) case "$CARGO_ENCODED_RUSTFLAGS" in
    *codegen-backend*) echo 'rustc 1.2.3 (the one that loads the code generator)';;
    *) printf 'rustc 1.2.3 (abc 2026-01-02)\nrelease: 1.2.3\nLLVM version: 9.8.7\n';;
    esac;;
*sysroot*) echo "$ROOT/sysroot";;
*target-cpus*) printf 'Available CPUs for this target:\n    sm_75\n    sm_80\n    sm_90 - a remark\n    sm_90a\n';;
esac"#;

/// Creates a workspace in `root`/work that pins rustc 1.2.3, with this text as kernels/src/lib.rs and
/// this script as cargo. Scripts can use `root` as `$ROOT`.
pub(crate) fn workspace(root: &Path, kernels: &str, cargo: &str) -> Workspace {
    write(root, "work/rust-toolchain.toml", "[toolchain]\nchannel = \"1.2.3\"\n");
    write(root, "work/kernels/Cargo.toml", "");
    write(root, "work/kernels/src/lib.rs", kernels);
    write(root, "sysroot/lib/rustlib/src/rust/library/Cargo.lock", "");
    fs::create_dir_all(root.join("bin")).unwrap();
    program(root, "rustc", RUSTC);
    program(root, "cargo", cargo);
    let mut workspace = Workspace::at(&root.join("work")).unwrap();
    workspace.path = Some(root.join("bin").into());
    workspace
}

pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a script to `root`/bin.
///
/// Another process writes the script: children of concurrent tests would inherit the open file, and a
/// file that is open for writing cannot be executed.
pub(crate) fn program(root: &Path, name: &str, script: &str) {
    let text = format!("#!/bin/sh\nPATH=/usr/bin:/bin\nROOT='{}'\n{script}\n", root.display());
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat >\"$0\" && chmod +x \"$0\""]).arg(root.join("bin").join(name));
    let mut writer = writer.stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}
