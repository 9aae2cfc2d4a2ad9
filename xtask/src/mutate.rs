//! `cargo xtask mutate`: whether the tests notice when the code is broken on purpose.
//!
//! `tests/mutations.json` lists changes to make, each with the tests that must fail then. They are made
//! in a copy of the sources, so that nothing of the checkout is touched. What the copy is built of from
//! elsewhere is built already.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use warpfold_suite::say;

use crate::{failure::Failure, packages, workspace::Workspace};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only mutations whose name contains this
    pub name: Option<String>,
}

/// A change that breaks the code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// What is wrong then.
    name: String,
    /// The file that is changed, from the root.
    file: PathBuf,
    /// Text that is there once.
    replace: String,
    /// What stands in its place.
    with: String,
    /// Arguments of `cargo test`.
    test: Vec<String>,
}

/// Makes one change after the other. Exits 1 when the tests pass with one of them.
///
/// # Errors
/// A change that cannot be made, and tests that fail without any.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let list = workspace.root.join("tests/mutations.json");
    let text =
        fs::read_to_string(&list).with_context(|| format!("{} cannot be read", list.display()))?;
    let all: Vec<Mutation> =
        serde_json::from_str(&text).with_context(|| format!("{} is no list", list.display()))?;
    let wanted = |mutation: &&Mutation| {
        args.name.as_ref().is_none_or(|name| mutation.name.contains(name.as_str()))
    };
    let chosen: Vec<&Mutation> = all.iter().filter(wanted).collect();
    ensure!(
        !chosen.is_empty(),
        "no mutation has {:?} in its name; {} has them",
        args.name,
        list.display()
    );
    let copy = Copy::make(&workspace)?;
    let mut suites: Vec<&[String]> = chosen.iter().map(|mutation| &mutation.test[..]).collect();
    suites.sort_unstable();
    suites.dedup();
    for suite in suites {
        say!("unchanged: cargo test {}", suite.join(" "));
        ensure!(copy.passes(suite)?, "cargo test {} fails without any change", suite.join(" "));
    }
    let mut survivors = 0;
    for mutation in &chosen {
        let noticed = copy.notices(mutation)?;
        say!("{:9} {}", if noticed { "noticed" } else { "SURVIVED" }, mutation.name);
        survivors += usize::from(!noticed);
    }
    say!("{} of {} mutations noticed", chosen.len() - survivors, chosen.len());
    Ok(ExitCode::from(u8::from(survivors > 0)))
}

/// The sources, to be changed.
struct Copy {
    root: PathBuf,
    build: PathBuf,
    /// Makes cargo keep what it compiles of the copy apart from what it compiles of the sources. Both
    /// are in one folder, which spares compiling what they depend on again, and cargo tells the packages
    /// of two workspaces there by their profile alone: without this it took code with a mutation for the
    /// sources' own.
    apart: Vec<String>,
    /// PTX as it is built: the copy builds none.
    ptx: PathBuf,
}

impl Copy {
    fn make(workspace: &Workspace) -> Result<Self> {
        let root = workspace.target.join("mutate");
        let files = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&workspace.root)
            .stderr(Stdio::inherit())
            .output()
            .context("git does not start, which lists the sources")?;
        ensure!(files.status.success(), "git does not list the sources");
        let files = String::from_utf8(files.stdout).context("the name of a file is no UTF-8")?;
        let files: Vec<&Path> = files.split_terminator('\0').map(Path::new).collect();
        remove_others(&root, &files)?;
        for file in files.iter().filter(|file| workspace.root.join(file).is_file()) {
            copy_if_changed(&workspace.root.join(file), &root.join(file))?;
        }
        let apart =
            packages::of(&workspace.root)?.0.iter().map(|package| apart(&package.name)).collect();
        Ok(Self { root, build: workspace.target.clone(), apart, ptx: workspace.target.join("ptx") })
    }

    fn passes(&self, test: &[String]) -> Result<bool> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["test", "--quiet"])
            .args(self.apart.iter().flat_map(|setting| ["--config", setting]))
            .args(test)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.build)
            .env("WARPFOLD_PTX_DIR", &self.ptx)
            .output()
            .context("cargo does not start")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("could not compile") {
            let first = format!("cargo test {} does not compile:", test.join(" "));
            let rest = stderr.trim().lines().map(str::to_owned);
            return Err(Failure::new(std::iter::once(first).chain(rest)).into());
        }
        Ok(output.status.success())
    }

    /// Whether the tests fail with a change, which is taken back.
    fn notices(&self, mutation: &Mutation) -> Result<bool> {
        let Mutation { name, file, replace, with, test } = mutation;
        let path = self.root.join(file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{name}: {} cannot be read", file.display()))?;
        let times = text.matches(replace.as_str()).count();
        ensure!(times == 1, "{name}: `{replace}` is {times} times in {}, not once", file.display());
        fs::write(&path, text.replace(replace, with))?;
        let passed = self.passes(test);
        fs::write(&path, &text)?;
        Ok(!passed.with_context(|| name.clone())?)
    }
}

/// A profile that differs from the sources' own in nothing that matters: by default there are 256.
fn apart(package: &str) -> String {
    format!("profile.dev.package.{package}.codegen-units=255")
}

/// Writes a file only where it differs, so that cargo compiles nothing again that is as it was.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("{} cannot be read", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::write(to, bytes).with_context(|| format!("{} cannot be written", to.display()))
}

/// Removes what an earlier copy had and the sources have no more.
fn remove_others(root: &Path, files: &[&Path]) -> Result<()> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if !files.contains(&path.strip_prefix(root)?) {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
}
