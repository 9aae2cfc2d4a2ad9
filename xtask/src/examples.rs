//! `cargo xtask examples`: runs the examples of the library in the simulator, and compares their output
//! with the expected one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use warpfold_suite::say;

use crate::{packages, process, workspace::Workspace};

const FOLDER: &str = "warpfold/examples";

/// The maximum length of an example, so that it is read at a glance.
const LINES: usize = 60;

const LIMIT: Duration = Duration::from_secs(1800);

struct Example {
    name: &'static str,
    arguments: &'static [&'static str],
    prints: &'static str,
}

const EXAMPLES: [Example; 4] = [
    Example { name: "sum", arguments: &[], prints: "499999.5 on PTX simulator\n" },
    Example {
        name: "batch",
        arguments: &[],
        prints: "row 0: sum 500046, largest 1012 at 434\n\
                 row 1: sum 501229, largest 1012 at 447\n\
                 row 2: sum 502412, largest 1012 at 460\n\
                 row 3: sum 503595, largest 1012 at 473\n\
                 on PTX simulator\n",
    },
    Example {
        name: "stream",
        arguments: &[],
        prints: "108000000 of 2000000 elements on PTX simulator\n",
    },
    Example {
        name: "group",
        arguments: &["sim:0", "sim:1"],
        prints: "sum 499967115\nlargest 10006 at 2859\n2 devices, by Peers\n",
    },
];

/// Examples that are not programs but libraries for those of another language.
const LIBRARIES: [&str; 1] = ["dlpack"];

/// Runs the command. Exits 1 if an example prints something else, is too long, or is not run.
///
/// # Errors
/// Fails if cargo does not start.
pub fn run() -> Result<ExitCode> {
    let root = Workspace::locate()?.root;
    let mut wrong = wrong(&root.join(FOLDER))?;
    for example in &EXAMPLES {
        wrong.extend(example.wrong(&root)?);
    }
    wrong.iter().flat_map(|what| what.lines()).for_each(|line| say!("{line}"));
    if !wrong.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
    say!("{} print what they should", names.join(", "));
    Ok(ExitCode::SUCCESS)
}

fn wrong(folder: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if LIBRARIES.contains(&name.as_ref()) {
            continue;
        }
        let lines = fs::read_to_string(path)?.lines().count();
        if lines >= LINES {
            wrong.push(format!("{FOLDER}/{name}.rs has {lines} lines; it is to be below {LINES}"));
        }
        if !EXAMPLES.iter().any(|example| example.name == name) {
            wrong
                .push(format!("{FOLDER}/{name}.rs is not run: xtask/src/examples.rs has no row for it"));
        }
    }
    Ok(wrong)
}

impl Example {
    fn wrong(&self, root: &Path) -> Result<Option<String>> {
        let mut cargo = packages::cargo(root);
        cargo.args(["run", "--quiet", "-p", "warpfold", "--example", self.name, "--"]);
        // Two devices are enough for an example that uses another device. No real driver is used.
        cargo.args(self.arguments).env("WARPFOLD_SIM_DEVICES", "2");
        cargo.env("WARPFOLD_LIBCUDA", env::temp_dir().join("no/libcuda.so.1"));
        let output = process::run(&mut cargo, LIMIT)?;
        let is_right = output.status.success() && output.stdout == self.prints;
        Ok((!is_right).then(|| {
            let (name, prints, said) = (self.name, self.prints, output.stdout + &output.stderr);
            format!("{FOLDER}/{name}.rs prints\n{said}in place of\n{prints}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_short_and_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, lines: usize| fs::write(folder.path().join(name), "\n".repeat(lines));
        for (name, lines) in [("batch.rs", 59), ("dlpack.rs", 100), ("dlpack.py", 100)] {
            write(name, lines).unwrap();
        }
        assert!(wrong(folder.path()).unwrap().is_empty());
        write("sum.rs", 60).unwrap();
        write("other.rs", 1).unwrap();
        assert_eq!(
            wrong(folder.path()).unwrap(),
            [
                "warpfold/examples/other.rs is not run: xtask/src/examples.rs has no row for it",
                "warpfold/examples/sum.rs has 60 lines; it is to be below 60",
            ]
        );
    }
}
