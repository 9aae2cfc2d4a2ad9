//! Test programs and their output.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    process::Output,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{failure::Failure, packages::Package};

/// The tests that cargo compiles to one program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suite {
    pub(super) package: String,
    /// A file or folder of `tests/`; `None` for the library's unit tests.
    file: Option<String>,
}

impl Suite {
    /// Returns the arguments of cargo that select this suite among all targets of the packages.
    pub(super) fn target(&self) -> Vec<&str> {
        self.file.as_deref().map_or_else(|| vec!["--lib"], |file| vec!["--test", file])
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct Tests {
    pub(super) suite: Suite,
    /// The tests' names or parts of these; empty for all tests.
    pub(super) names: BTreeSet<String>,
}

impl TryFrom<Vec<String>> for Tests {
    type Error = anyhow::Error;

    fn try_from(arguments: Vec<String>) -> Result<Self> {
        let (package, file, names) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["--package", package, "--lib"] => (package, None, 4),
            ["--package", package, "--lib", "--", ..] => (package, None, 4),
            ["--package", package, "--test", file] => (package, Some(file), 5),
            ["--package", package, "--test", file, "--", ..] => (package, Some(file), 5),
            _ => bail!(
                "`{}` is not a suite of tests; give --package, and --lib or --test",
                arguments.join(" ")
            ),
        };
        let suite = Suite { package: package.to_owned(), file: file.map(str::to_owned) };
        Ok(Self { suite, names: arguments.iter().skip(names).cloned().collect() })
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo test --package {} {}", self.suite.package, self.suite.target().join(" "))?;
        if !self.names.is_empty() {
            write!(f, " --")?;
        }
        self.names.iter().try_for_each(|name| write!(f, " {name}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The package's folder, used as working directory as by cargo.
    pub(super) folder: PathBuf,
}

/// The used fields of cargo's messages about compiled artifacts.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Message {
    /// Returns whether the message is about the suite's program; `manifest` is the package's.
    fn is_of(&self, suite: &Suite, manifest: &Path) -> bool {
        let is_target = self.target.as_ref().is_some_and(|Target { name, kind }| match &suite.file {
            Some(file) => kind == &["test"] && name == file,
            None => kind.iter().any(|kind| kind == "lib"),
        });
        let is_test = self.profile.as_ref().is_some_and(|profile| profile.test);
        self.reason == "compiler-artifact" && is_test && is_target && self.manifest_path == manifest
    }
}

impl Program {
    pub(super) fn of(suite: &Suite, packages: &[Package], said: &[u8]) -> Result<Self> {
        let package = packages.iter().find(|package| package.name == suite.package);
        let manifest =
            &package.with_context(|| format!("the package {} does not exist", suite.package))?.manifest;
        let folder = manifest.parent().context("a manifest is in a folder")?.to_owned();
        for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: Message =
                serde_json::from_slice(line).context("a message of cargo cannot be parsed")?;
            if message.is_of(suite, manifest) {
                let path = message.executable.context("tests are compiled to a program")?;
                return Ok(Self { path, folder });
            }
        }
        bail!("cargo has compiled no program of {} {}", suite.package, suite.target().join(" "))
    }
}

/// Requires that the tests pass, including all that are named.
pub(super) fn require_passed(tests: &Tests, output: &Output) -> Result<()> {
    if !output.status.success() {
        return Err(shown(&format!("{tests} fails without any change:"), output).into());
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let passed: Vec<&str> = stdout.lines().filter_map(passed).collect();
    ensure!(!passed.is_empty(), "{tests} has no test that passes");
    for name in &tests.names {
        ensure!(passed.iter().any(|test| test.contains(name.as_str())), "{tests}: no {name} passes");
    }
    Ok(())
}

fn passed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

/// Returns whether a test fails with a change, or an error if the program ends without reporting tests.
pub(super) fn is_noticed(name: &str, output: &Output) -> Result<bool> {
    const FAILED: i32 = 101;
    if output.status.success() {
        return Ok(false);
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    // The indented names of the failed tests follow the last line `failures:`.
    let names = stdout.rsplit_once("\nfailures:\n").map_or("", |(_, names)| names);
    if output.status.code() == Some(FAILED) && names.starts_with("    ") {
        return Ok(true);
    }
    let first = format!("{name}: the tests end with {}, and none of them fails:", output.status);
    Err(shown(&first, output).into())
}

pub(super) fn shown(first: &str, output: &Output) -> Failure {
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let rest = printed.iter().flat_map(|text| text.lines()).map(str::to_owned);
    Failure::new(std::iter::once(first.to_owned()).chain(rest))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn tests(arguments: &str) -> Result<Tests> {
        arguments.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into()
    }

    fn output(script: &str) -> Output {
        Command::new("sh").args(["-c", script]).output().unwrap()
    }

    #[test]
    fn a_suite_is_named_as_cargo_names_it() {
        for text in ["--package a --lib", "--package a --test b", "--package a --test b -- c d"] {
            assert_eq!(tests(text).unwrap().to_string(), format!("cargo test {text}"));
        }
        let error = tests("--package a --bins").unwrap_err().to_string();
        assert_eq!(
            error,
            "`--package a --bins` is not a suite of tests; give --package, and --lib or --test"
        );
    }

    #[test]
    fn program_is_found_by_package_and_target() {
        let artifact = |folder: &str, name: &str, kind: &str, test: bool, path: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/{folder}/Cargo.toml",
                "target": {{"name": "{name}", "kind": ["{kind}"]}}, "profile": {{"test": {test}}},
                "executable": {path}}}"#
            )
            .replace('\n', " ")
        };
        let said = [
            r#"{"reason": "build-script-executed", "package_id": "a"}"#.to_owned(),
            artifact("a", "a", "lib", false, "null"),
            artifact("b", "b", "lib", true, r#""/of-b""#),
            artifact("a", "c", "test", true, r#""/a-c""#),
            artifact("a", "a", "lib", true, r#""/of-a""#),
            artifact("b", "c", "test", true, r#""/b-c""#),
            r#"{"reason": "build-finished", "success": true}"#.to_owned(),
        ];
        let packages = ["a", "b"].map(|name| {
            let manifest = format!("/{name}/Cargo.toml");
            Package::deserialize(serde_json::json!({
                "name": name, "manifest_path": manifest, "publish": null, "features": {}, "targets": []
            }))
            .unwrap()
        });
        let found = |text: &str| {
            let suite = tests(text).unwrap().suite;
            Program::of(&suite, &packages, said.join("\n").as_bytes()).map(|program| program.path)
        };
        assert_eq!(found("--package a --lib").unwrap(), Path::new("/of-a"));
        assert_eq!(found("--package b --test c").unwrap(), Path::new("/b-c"));
        let error = found("--package b --test d").unwrap_err().to_string();
        assert_eq!(error, "cargo has compiled no program of b --test d");
    }

    #[test]
    fn failure_without_a_mutation_is_shown() {
        let tests = tests("--package a --lib").unwrap();
        let error =
            require_passed(&tests, &output("echo a; echo b >&2; exit 1")).unwrap_err().to_string();
        assert_eq!(error, "cargo test --package a --lib fails without any change:\na\nb");
    }

    #[test]
    fn each_test_that_is_named_must_be_there_and_pass() {
        let said = output("echo 'test m::one ... ok'; echo 'test m::two - should panic ... ok'");
        for names in ["one", "m:: two"] {
            require_passed(&tests(&format!("--package a --lib -- {names}")).unwrap(), &said).unwrap();
        }
        let error = require_passed(&tests("--package a --lib -- one three").unwrap(), &said);
        assert!(error.unwrap_err().to_string().ends_with("no three passes"));
        let none = require_passed(&tests("--package a --lib").unwrap(), &output("echo running 0 tests"));
        assert!(none.unwrap_err().to_string().ends_with("has no test that passes"));
    }

    #[test]
    fn only_a_failing_test_detects_a_mutation() {
        let failing = r"printf 'test a ... FAILED\n\nfailures:\n\n---- a\n\nfailures:\n    a\n\n';";
        assert!(is_noticed("x", &output(&format!("{failing} exit 101"))).unwrap());
        assert!(!is_noticed("x", &output("echo test a ... ok")).unwrap());
        let crash = format!("{failing} kill -ABRT $$");
        for other in ["kill -ABRT $$", "exit 101", "echo no such file >&2; exit 127", crash.as_str()] {
            let error = is_noticed("x", &output(other)).unwrap_err().to_string();
            assert!(
                error.contains("x: the tests end with") && error.contains("none of them"),
                "{error}"
            );
        }
    }
}
