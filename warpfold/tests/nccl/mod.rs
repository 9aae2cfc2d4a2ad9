//! Builds the simulator's driver as a library and a stand-in for NCCL on its GPUs, for the tests of this
//! package and of the program.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// Environment variable with the path of the stand-in.
pub(crate) const LIBRARY: &str = "WARPFOLD_LIBNCCL";
/// Environment variable with the faults of the stand-in.
pub(crate) const FAULTS: &str = "STAND_IN_NCCL";

pub(crate) fn libraries() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| [driver(), stand_in()])
}

/// Builds the simulator as `libcuda.so.1`, like `cargo xtask build-sim`.
fn driver() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcuda");
    ran(Command::new(env!("CARGO"))
        .args(["build", "--locked", "--manifest-path"])
        .arg(root().join("sim/libcuda/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target));
    target.join("debug/libcuda.so")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn stand_in() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nccl");
    std::fs::create_dir_all(&folder).unwrap();
    // Another process may use the existing one, so it is replaced by a rename.
    let (new, library) =
        (folder.join(format!("{}.so", std::process::id())), folder.join("libnccl.so.2"));
    ran(Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=nccl",
            "-Cpanic=abort",
            "-Copt-level=1",
        ])
        .arg(root().join("warpfold/tests/nccl/libnccl.rs"))
        .arg("-o")
        .arg(&new));
    std::fs::rename(new, &library).unwrap();
    library
}

pub(crate) fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat();
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Makes a process find the simulated GPUs that `devices` describes, and the stand-in for NCCL with the
/// faults `faults`.
pub(crate) fn with_stand_in<'c>(
    command: &'c mut Command,
    devices: &str,
    faults: &str,
    folder: &Path,
) -> &'c mut Command {
    let [driver, library] = libraries();
    command
        .env("WARPFOLD_LIBCUDA", driver)
        .env(LIBRARY, library)
        .env("WARPFOLD_SIM_DEVICES", devices)
        .env(FAULTS, faults)
        .env("TMPDIR", folder)
}
