//! The program as a user runs it: files of every format against values that are computed here, and one
//! line with exit status 2 for every user error.
//!
//! The tests show that each operation of each type has the same result on the simulator as the library
//! has on the CPU; the library's own tests show that the kernels are right.

mod accepted;
mod damaged;
mod expressions;
mod files;
mod formats;
mod lying;
mod operations;
mod pieces;
mod ranks;
mod readme;
mod refused;
#[cfg(target_os = "linux")]
#[path = "../../../warpfold/tests/nccl/mod.rs"]
mod stand_in;
mod streamed;
mod sums;
mod written;

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpfold"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1").env_remove("COLUMNS");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn fed(mut command: Command, content: &[u8]) -> Output {
    let piped = || Stdio::piped();
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    // A run that refuses its options does not read its input.
    let _ = child.stdin.take().unwrap().write_all(content);
    child.wait_with_output().unwrap()
}

fn lines_of(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines(folder: &Path, arguments: &str) -> Vec<Value> {
    let device = if arguments.contains("--device") { "" } else { " --device cpu" };
    lines_of(&command(folder, &format!("{arguments} --json{device}")).output().unwrap())
}

fn all(lines: &[Value], field: &str) -> Value {
    lines.iter().map(|line| line[field].clone()).collect()
}

/// Fails unless the run ended with status 2, nothing on standard output and one line on standard error
/// that contains all of `says`.
fn assert_refused(arguments: &str, output: &Output, says: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{arguments}");
    assert_eq!(stderr.lines().count(), 1, "{arguments}: {stderr}");
    assert!(stderr.starts_with("error: "), "{arguments}: {stderr}");
    for expected in says {
        assert!(stderr.contains(expected), "{arguments}: no `{expected}` in: {stderr}");
    }
}
