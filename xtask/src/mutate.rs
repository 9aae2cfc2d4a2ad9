//! `cargo xtask mutate`: whether the tests notice when the code is broken on purpose.
//!
//! `tests/mutations.json` lists changes to make, each with the tests that must fail then. They are made
//! in a copy of the sources, so that nothing of the checkout is touched. What the copy is built of from
//! elsewhere is built already.
//!
//! All changes are compiled at once, in branches that an environment variable chooses when the tests
//! run: an expression or some statements each, which become `if it is chosen { with } else { replace }`.
//! What cannot be said so is compiled alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use warpfold_suite::{PTX_DIR, say};

use crate::{failure::Failure, packages, suite, workspace::Workspace};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only mutations whose name contains this
    pub name: Option<String>,
}

/// The environment variable that has the name of the change that is chosen.
const CHOSEN: &str = "WARPFOLD_MUTATION";

/// A change that breaks the code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// What is wrong then.
    name: String,
    /// The file that is changed, from the root.
    file: PathBuf,
    /// Text that is there once: an expression or statements, or with these between `⟦` and `⟧`.
    replace: String,
    /// What stands in its place, or in that of what is between `⟦` and `⟧`.
    with: String,
    /// Whether it is compiled alone, because it is neither an expression nor statements.
    #[serde(default)]
    alone: bool,
    /// Arguments of `cargo test`: a suite, and behind `--` the names of those of its tests that must
    /// fail.
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
    // What the suite's tests run in the copy.
    suite::sources_ptx(&workspace)?;
    let copy = Copy::make(&workspace, &all)?;
    for suite in suites(&chosen) {
        say!("unchanged: cargo test {}", suite.join(" "));
        let output = copy.tested(&suite, None)?;
        if !output.status.success() {
            return Err(fails_unchanged(&suite, &output).into());
        }
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

/// What the mutations are tried with: each suite once with all of its tests that any of them names, and
/// once as a whole where one names none.
fn suites(chosen: &[&Mutation]) -> Vec<Vec<String>> {
    let mut suites = BTreeMap::<(&[String], bool), BTreeSet<&String>>::new();
    for Mutation { test, .. } in chosen {
        let end = test.iter().position(|argument| argument == "--");
        let (suite, names) = test.split_at(end.map_or(test.len(), |end| end + 1));
        suites.entry((suite, end.is_some())).or_default().extend(names);
    }
    let with_names = |((suite, _), names): ((&[String], bool), BTreeSet<&String>)| {
        suite.iter().chain(names).cloned().collect()
    };
    suites.into_iter().map(with_names).collect()
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
    /// The suite's PTX as it is built: the copy builds none.
    ptx: PathBuf,
}

impl Copy {
    fn make(workspace: &Workspace, mutations: &[Mutation]) -> Result<Self> {
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
            let from = workspace.root.join(file);
            let mut bytes =
                fs::read(&from).with_context(|| format!("{} cannot be read", from.display()))?;
            for mutation in mutations.iter().filter(|mutation| mutation.file == **file) {
                let text =
                    String::from_utf8(bytes).with_context(|| format!("{} is no text", from.display()));
                bytes = mutation.made_in(&text?)?.into_bytes();
            }
            write_if_changed(&root.join(file), &bytes)?;
        }
        for Mutation { name, file, .. } in mutations {
            ensure!(files.contains(&file.as_path()), "{name}: there is no {}", file.display());
        }
        let apart =
            packages::of(&workspace.root)?.0.iter().map(|package| apart(&package.name)).collect();
        Ok(Self { root, build: workspace.target.clone(), apart, ptx: workspace.target.join("ptx") })
    }

    /// What tests print, with a change if one is named.
    fn tested(&self, test: &[String], change: Option<&str>) -> Result<Output> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["test", "--quiet"])
            .args(self.apart.iter().flat_map(|setting| ["--config", setting]))
            .args(test)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.build)
            .env_remove(CHOSEN);
        // The library has its PTX inside of it, and the suite's folder has none of it.
        if is_of_the_library(test) {
            command.env_remove(PTX_DIR);
        } else {
            command.env(PTX_DIR, &self.ptx);
        }
        if let Some(name) = change {
            command.env(CHOSEN, name);
        }
        let output = command.output().context("cargo does not start")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("could not compile") {
            let first = format!("cargo test {} does not compile:", test.join(" "));
            let rest = stderr.trim().lines().map(str::to_owned);
            return Err(Failure::new(std::iter::once(first).chain(rest)).into());
        }
        Ok(output)
    }

    /// Whether the tests fail with a change.
    fn notices(&self, mutation: &Mutation) -> Result<bool> {
        let Mutation { name, file, alone, test, .. } = mutation;
        if !alone {
            let output = self.tested(test, Some(name)).with_context(|| name.clone())?;
            return Ok(!output.status.success());
        }
        let path = self.root.join(file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{name}: {} cannot be read", file.display()))?;
        fs::write(&path, mutation.replaced_in(&text, &mutation.with)?)?;
        let output = self.tested(test, None);
        fs::write(&path, &text)?;
        Ok(!output.with_context(|| name.clone())?.status.success())
    }
}

impl Mutation {
    /// A file's text with the change in a branch; as it is, if the change is compiled alone.
    fn made_in(&self, text: &str) -> Result<String> {
        let Self { name, replace, with, alone, .. } = self;
        let (_, original, _) = marked(replace);
        let is_chosen = format!("::std::env::var_os({CHOSEN:?}).is_some_and(|it| it == {name:?})");
        let branch = format!(
            "{{ static CHOSEN: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
            if *CHOSEN.get_or_init(|| {is_chosen}) {{ {with} }} else {{ {original} }} }}"
        );
        // What is marked is an expression, which may stand where a block may not.
        let is_marked = original.len() < replace.len();
        let branch = if is_marked { format!("({branch})") } else { branch };
        let changed = self.replaced_in(text, &branch)?;
        Ok(if *alone { text.to_owned() } else { changed })
    }

    /// A file's text with something else in the place of what is changed.
    fn replaced_in(&self, text: &str, with: &str) -> Result<String> {
        let Self { name, file, replace, .. } = self;
        let (before, original, after) = marked(replace);
        let whole = format!("{before}{original}{after}");
        let times = text.matches(&whole).count();
        ensure!(times == 1, "{name}: `{whole}` is {times} times in {}, not once", file.display());
        Ok(text.replace(&whole, &format!("{before}{with}{after}")))
    }
}

/// Whether `cargo test` with these arguments tests the library, whose package is `warpfold`.
fn is_of_the_library(test: &[String]) -> bool {
    test.windows(2).any(|pair| pair == ["--package", "warpfold"])
}

/// Says which tests fail as the sources are, and what they print.
fn fails_unchanged(suite: &[String], output: &Output) -> Failure {
    let first = format!("cargo test {} fails without any change:", suite.join(" "));
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let rest = printed.iter().flat_map(|text| text.lines()).map(str::to_owned);
    Failure::new(std::iter::once(first).chain(rest))
}

/// What is before the marks, between them, and behind them; without marks all is between.
fn marked(replace: &str) -> (&str, &str, &str) {
    let found = replace.split_once('⟦').and_then(|(before, rest)| {
        let (original, after) = rest.split_once('⟧')?;
        Some((before, original, after))
    });
    found.unwrap_or(("", replace, ""))
}

/// A profile that differs from the sources' own in nothing that matters: by default there are 256.
fn apart(package: &str) -> String {
    format!("profile.dev.package.{package}.codegen-units=255")
}

/// Writes a file only where it differs, so that cargo compiles nothing again that is as it was.
fn write_if_changed(to: &Path, bytes: &[u8]) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_is_tried_once_with_all_the_tests_that_are_named() {
        let list = r#"[
            {"test": ["--lib", "--", "b", "a"]},
            {"test": ["--test", "x"]},
            {"test": ["--lib", "--", "c", "a"]},
            {"test": ["--test", "x"]},
            {"test": ["--lib"], "alone": true}
        ]"#;
        let list = list.replace('{', r#"{"name": "", "file": "", "replace": "", "with": "", "#);
        let all: Vec<Mutation> = serde_json::from_str(&list).unwrap();
        let found: Vec<String> =
            suites(&all.iter().collect::<Vec<_>>()).iter().map(|suite| suite.join(" ")).collect();
        assert_eq!(found, ["--lib", "--lib -- a b c", "--test x"]);
    }

    #[test]
    fn what_fails_unchanged_is_shown() {
        let output = Command::new("sh").args(["-c", "echo a; echo b >&2; exit 1"]).output().unwrap();
        let error = fails_unchanged(&["--lib".to_owned()], &output).to_string();
        assert_eq!(error, "cargo test --lib fails without any change:\na\nb");
    }

    #[test]
    fn only_the_library_goes_without_the_folder_of_ptx() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_of_the_library(&words("--package warpfold --test library -- a")));
        assert!(!is_of_the_library(&words("--package warpfold-tests --test faults")));
    }

    fn mutation(replace: &str, alone: bool) -> Mutation {
        let (name, file) = ("a".to_owned(), "b.rs".into());
        let (replace, with) = (replace.to_owned(), "2".to_owned());
        Mutation { name, file, replace, with, alone, test: Vec::new() }
    }

    #[test]
    fn a_change_becomes_a_branch_with_what_was_there() {
        let made = mutation("x = ⟦1⟧;", false).made_in("let x = 1;\nlet y = 1;").unwrap();
        assert!(made.starts_with("let x = ({ static CHOSEN"), "{made}");
        assert!(made.contains(r#""WARPFOLD_MUTATION").is_some_and(|it| it == "a")"#), "{made}");
        assert!(made.ends_with("{ 2 } else { 1 } });\nlet y = 1;"), "{made}");
        // Another one of the same text is made within.
        let again = mutation("1", false).made_in("f(1)").unwrap();
        assert!(mutation("1", false).made_in(&again).unwrap().ends_with("else { 1 } } } })"));
    }

    #[test]
    fn a_change_that_is_compiled_alone_is_made_later() {
        let change = mutation("x: ⟦1⟧", true);
        assert_eq!(change.made_in("x: 1, y: 1").unwrap(), "x: 1, y: 1");
        assert_eq!(change.replaced_in("x: 1, y: 1", "2").unwrap(), "x: 2, y: 1");
    }

    #[test]
    fn what_is_not_there_once_is_an_error() {
        for (text, times) in [("x", "0 times"), ("1 + 1", "2 times")] {
            let error = mutation("1", true).made_in(text).unwrap_err().to_string();
            assert!(error.contains(times) && error.contains("b.rs"), "{error}");
        }
    }
}
