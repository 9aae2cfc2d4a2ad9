//! `cargo xtask doctor`: lists what this machine has, what each piece is for, and how to get what is
//! missing.
//!
//! A missing piece is reported and is not an error. The same checks decide whether a code generator is
//! available.

mod checks;

use std::io::Write;

use anyhow::Result;
use warpfold_suite::cli::{
    self,
    table::{terminal_width, wrapped},
};

use crate::{cuda_toolkit, workspace::Workspace};

pub(crate) use warpfold_suite_build::machine::version_of;
pub use warpfold_suite_build::{
    machine::{Check, Machine, State},
    rust_cuda,
};

const PLACES: &str = "CUDA_PATH, CUDA_HOME, target/cuda and /usr/local/cuda";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object per check
    #[arg(long)]
    pub json: bool,
    /// Instead, fetch NVIDIA's CUDA compiler and tools from PyPI to target/cuda, without the driver
    #[arg(long, conflicts_with = "json")]
    pub fetch_cuda: bool,
}

/// The GPUs of a working driver, or the reason why there is none.
pub type Driver = Result<Gpus, String>;

/// A working driver.
#[derive(Debug, Clone)]
pub struct Gpus {
    /// The CUDA version that the driver supports, as displayed.
    pub version: String,
    pub gpus: Vec<Gpu>,
}

#[derive(Debug, Clone)]
pub struct Gpu {
    pub name: String,
    /// The GPU's architecture, as `sm_NN`.
    pub arch: String,
    pub memory_bytes: u64,
}

pub fn run(args: &Args, driver: &Driver) -> Result<()> {
    let workspace = Workspace::locate()?;
    if args.fetch_cuda {
        return cuda_toolkit::fetch(&workspace);
    }
    let checks = examine(&workspace, &Machine::this(&workspace), driver);
    let report = if args.json {
        checks.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join("\n")
    } else {
        let width = terminal_width().unwrap_or(usize::MAX);
        let places = format!("NVIDIA's tools were looked for on the PATH and in {PLACES}.");
        format!("{}\n\n{}", text(&checks, width), wrapped(&places, width).join("\n"))
    };
    Ok(writeln!(cli::stdout(), "{report}")?)
}

pub fn examine(workspace: &Workspace, machine: &Machine, driver: &Driver) -> Vec<Check> {
    let mut checks = checks::toolchain(workspace, machine);
    checks.push(checks::linker(machine));
    checks.extend(checks::gpus(driver));
    checks.extend(checks::tools(machine));
    checks.extend(checks::helpers(machine));
    checks.extend(rust_cuda::checks(machine));
    checks
}

/// Formats the checks for people: each with its purpose, and below that its location or how to get it.
/// Words are never broken, so that paths can be copied.
fn text(checks: &[Check], width: usize) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let (mark, details) = match &check.state {
            State::Found { version, place } => ("found", [version, place]),
            State::Missing { why, get } => ("missing", [why, get]),
        };
        let head = format!("{}: {}", check.name, check.purpose);
        lines.extend(indented(&format!("{mark:9}"), &head, width));
        for detail in details {
            lines.extend(indented(&" ".repeat(11), detail, width));
        }
    }
    lines.join("\n")
}

/// Wraps text to lines of at most `width` characters, with `front` before the first line and blanks
/// before the others.
fn indented(front: &str, text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(front.len());
    let lines = wrapped(text, room).into_iter().enumerate();
    let blank = " ".repeat(front.len());
    lines.map(|(line, text)| format!("{}{text}", if line == 0 { front } else { &blank })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(driver: &Driver) -> Vec<Check> {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path()).unwrap();
        examine(&workspace, &Machine::empty(folder.path()), driver)
    }

    #[test]
    fn a_bare_machine_gets_a_report_that_names_everything() {
        let checks = report(&Err("libcuda.so.1 is not on this machine".to_owned()));
        assert!(checks.iter().all(|check| !check.is_found()), "{checks:#?}");
        for name in [
            "rustc",
            "cargo",
            "rust-src",
            "cc",
            "gpu driver",
            "nvcc",
            "ptxas",
            "ncu",
            "python3",
            "chromium",
            "firefox",
            "llvm 7",
            "libnvvm",
            "git",
        ] {
            assert!(checks.iter().any(|check| check.name.contains(name)), "{name} is not in the report");
        }
        for check in &checks {
            let line = check.complaint().unwrap();
            assert!(line.is_ascii() && !line.contains('\n') && line.contains("; "), "{line}");
        }
        assert!(text(&checks, usize::MAX).contains("libcuda.so.1 is not on this machine"));
    }

    #[test]
    fn paths_are_not_wrapped() {
        let place = "/home/somebody/.rustup/toolchains/1.95.0-x86_64-unknown-linux-gnu/bin/rustc";
        let checks = [Check::found("rustc", "compiles everything", "1.95.0 of the spring", place)];
        let told = text(&checks, 24);
        assert_eq!(
            told,
            format!(
                "found    rustc: compiles\n{0}everything\n{1}1.95.0 of the\n{1}spring\n{1}{place}",
                " ".repeat(9),
                " ".repeat(11)
            )
        );
    }

    #[test]
    fn gpus_are_listed() {
        let gpu = Gpu { name: "A GPU".into(), arch: "sm_90".into(), memory_bytes: 139 << 30 };
        let checks = report(&Ok(Gpus { version: "13.0".into(), gpus: vec![gpu] }));
        let found: Vec<_> = checks.iter().filter(|check| check.is_found()).collect();
        assert_eq!(found.len(), 2);
        let json = serde_json::to_string(found[1]).unwrap();
        assert_eq!(
            json,
            r#"{"name":"gpu 0","purpose":"runs the kernels","state":"found","version":"sm_90","place":"A GPU, 139 GiB"}"#
        );
    }
}
