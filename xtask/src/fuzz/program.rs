//! Runs the program `warpfold` on files of any bytes, each in a process with limited memory and time: it
//! must exit with 0 and a result, or with 2 and one line that says why not.

use std::{env, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};
use warpfold_io::npy;

use crate::{packages, process, workspace::Workspace};

const MEMORY_KIB: u64 = 512 << 10;

const CPU_SECONDS: u64 = 10;

/// The wall time limit of a run, on a busy machine.
const HANGS: Duration = Duration::from_secs(18);

/// File name of the array that offsets and keys refer to.
pub(super) const ARRAY: &str = "v.npy";
const ELEMENTS: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

pub(super) fn array() -> Vec<u8> {
    let elements: Vec<u8> = ELEMENTS.iter().flat_map(|element| element.to_le_bytes()).collect();
    npy::file("<f4", &[ELEMENTS.len()], &elements)
}

const BUILD: Duration = Duration::from_secs(1800);

pub(super) fn build(workspace: &Workspace) -> Result<()> {
    let mut build = packages::cargo(&workspace.root);
    // All packages are selected, so that dependencies have the same features as in other builds.
    build.args(["build", "--locked", "--workspace", "--bin", "warpfold"]);
    build.args((!cfg!(debug_assertions)).then_some("--release"));
    process::run(&mut build, BUILD)?.success().context("the program warpfold cannot be built")?;
    Ok(())
}

/// Runs the program in a folder; returns its error message, or that it has a result. Panics if it ends
/// otherwise, prints more than a line, or takes too long.
pub(super) fn run(folder: &Path, arguments: &str) -> Result<String> {
    let program =
        env::current_exe().context("the path of this program is unknown")?.with_file_name("warpfold");
    let limits = format!("ulimit -v {MEMORY_KIB} && ulimit -t {CPU_SECONDS} && ulimit -c 0");
    let script = format!("{limits} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program).args(arguments.split(' ')).args(["--device", "cpu"]);
    // Each thread of the CPU's pool reserves address space.
    shell.env("RAYON_NUM_THREADS", "2").env("RUST_BACKTRACE", "0").current_dir(folder);
    let ended = process::run(&mut shell, HANGS);
    let process::Output { status, stdout, stderr } =
        ended.unwrap_or_else(|error| panic!("{arguments}: {error:#}"));
    assert!(matches!(status.code(), Some(0 | 2)), "{arguments}: {status}: {stderr}");
    if status.success() {
        assert!(stderr.is_empty(), "{arguments}: a result, and {stderr}");
        return Ok("a result".to_owned());
    }
    assert!(stdout.is_empty(), "{arguments}: refused, and has a result");
    let line = stderr.strip_prefix("error: ").and_then(|line| line.strip_suffix('\n'));
    let line = line.filter(|line| !line.contains('\n'));
    Ok(line.unwrap_or_else(|| panic!("{arguments}: no line: {stderr:?}")).to_owned())
}
