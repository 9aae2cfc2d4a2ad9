//! `cargo xtask test --mutations`: checks that the tests detect code that is broken on purpose.
//!
//! `tests/mutations.json` lists the changes, each with the tests that must fail. The changes are made in
//! a copy of the sources, so that the checkout stays untouched. The copy uses the dependencies that have
//! been compiled for the sources.
//!
//! All changes are compiled at once, as branches that an environment variable selects at run time: an
//! expression or some statements are replaced by `if it is chosen { with } else { replace }`.
//!
//! One call of cargo compiles the tests of all suites, so that they share dependencies, and the programs
//! are run without cargo, which would take longer than many of the tests.

mod copy;
mod program;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use proc_macro2::TokenStream;
use serde::Deserialize;
use warpfold_suite::say;
use warpfold_suite_build::parallel::in_order;

use crate::{suite, workspace::Workspace};

use self::{
    copy::Copy,
    program::{Suite, Tests, is_noticed, require_passed},
};

const LIST: &str = "tests/mutations.json";

/// The environment variable with the name of the selected change.
const CHOSEN: &str = "WARPFOLD_MUTATION";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// A description of the fault.
    name: String,
    /// The changed file, relative to the root.
    file: PathBuf,
    /// Statements or an expression, which occur once in the file. They, or their part between `⟦` and
    /// `⟧`, are replaced.
    replace: String,
    /// The replacement of `replace`, or of its part between `⟦` and `⟧`.
    with: String,
    /// Arguments of `cargo test`: a suite, and after `--` the names of its tests that must fail.
    test: Tests,
}

/// Tries all changes whose name contains `name`. Exits 1 if the tests pass with one of them.
pub fn run(name: &str) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let all = read(&workspace.root)?;
    let chosen: Vec<&Mutation> = all.iter().filter(|mutation| mutation.name.contains(name)).collect();
    ensure!(!chosen.is_empty(), "no mutation has {name:?} in its name; {LIST} lists all");
    // Builds the PTX that the suite's tests run in the copy.
    suite::sources_ptx(&workspace)?;
    let suites = chosen.iter().map(|mutation| mutation.test.suite.clone()).collect();
    let copy = Copy::make(&workspace, &all)?;
    let programs = copy.compiled(suites)?;
    let passes =
        |tests: &Tests| require_passed(tests, &copy.tested(&programs[&tests.suite], tests, None)?);
    in_order(&unchanged(&chosen), passes, |tests, ()| say!("unchanged: {tests}"))?;
    let mut survivors = 0;
    let notices = |Mutation { name, test, .. }: &&Mutation| {
        let output = copy.tested(&programs[&test.suite], test, Some(name));
        is_noticed(name, &output.with_context(|| name.clone())?)
    };
    in_order(&chosen, notices, |mutation, noticed| {
        say!("{:9} {}", if noticed { "noticed" } else { "SURVIVED" }, mutation.name);
        survivors += usize::from(!noticed);
    })?;
    say!("{} of {} mutations noticed", chosen.len() - survivors, chosen.len());
    Ok(ExitCode::from(u8::from(survivors > 0)))
}

/// Returns the mutations whose statements are no longer in their files.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let made_in = |mutation: &Mutation| {
        let text = fs::read_to_string(root.join(&mutation.file));
        text.with_context(|| format!("{} cannot be read", mutation.file.display()))
            .and_then(|text| mutation.made_in(&text))
    };
    let failed = read(root)?.iter().filter_map(|mutation| made_in(mutation).err()).collect::<Vec<_>>();
    Ok(failed.iter().map(|error| format!("{LIST}: {error:#}")).collect())
}

fn read(root: &Path) -> Result<Vec<Mutation>> {
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("{LIST} cannot be read"))?;
    serde_json::from_str(&text).with_context(|| format!("{LIST} is not a list of mutations"))
}

/// Returns the tests to run without a change: those that mutations name, grouped by suite, and each
/// suite as a whole for which a mutation names no tests.
fn unchanged(chosen: &[&Mutation]) -> Vec<Tests> {
    let mut suites = BTreeMap::<(&Suite, bool), BTreeSet<String>>::new();
    for Mutation { test: Tests { suite, names }, .. } in chosen {
        suites.entry((suite, !names.is_empty())).or_default().extend(names.iter().cloned());
    }
    suites.into_iter().map(|((suite, _), names)| Tests { suite: suite.clone(), names }).collect()
}

impl Mutation {
    /// Returns a file's text with the change in a branch.
    fn made_in(&self, text: &str) -> Result<String> {
        let Self { name, file, replace, with, .. } = self;
        let (before, original, after) = marked(replace);
        let whole = format!("{before}{original}{after}");
        let times = text.matches(&whole).count();
        ensure!(
            times == 1,
            "{name}: `{whole}` occurs {times} times in {}; it must occur once",
            file.display()
        );
        for part in [original, with] {
            ensure!(
                part.parse::<TokenStream>().is_ok(),
                "{name}: `{part}` has brackets without their counterparts"
            );
        }
        let is_chosen = format!("::std::env::var_os({CHOSEN:?}).is_some_and(|it| it == {name:?})");
        let branch = format!(
            "{{ static CHOSEN: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
            if *CHOSEN.get_or_init(|| {is_chosen}) {{ {with} }} else {{ {original} }} }}"
        );
        // A marked expression may be where a block is not allowed.
        let is_marked = original.len() < replace.len();
        let branch = if is_marked { format!("({branch})") } else { branch };
        Ok(text.replace(&whole, &format!("{before}{branch}{after}")))
    }
}

/// Splits a text into the parts before, between and after `⟦` and `⟧`; without them, all is "between".
fn marked(replace: &str) -> (&str, &str, &str) {
    let found = replace.split_once('⟦').and_then(|(before, rest)| {
        let (original, after) = rest.split_once('⟧')?;
        Some((before, original, after))
    });
    found.unwrap_or(("", replace, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_is_tried_once_with_all_the_tests_that_are_named() {
        let list = r#"[
            {"test": ["--package", "p", "--lib", "--", "b", "a"]},
            {"test": ["--package", "p", "--test", "x"]},
            {"test": ["--package", "p", "--lib", "--", "c", "a"]},
            {"test": ["--package", "p", "--test", "x"]},
            {"test": ["--package", "p", "--lib"]}
        ]"#;
        let list = list.replace('{', r#"{"name": "", "file": "", "replace": "", "with": "", "#);
        let all: Vec<Mutation> = serde_json::from_str(&list).unwrap();
        let found: Vec<String> =
            unchanged(&all.iter().collect::<Vec<_>>()).iter().map(Tests::to_string).collect();
        let expected = ["--lib", "--lib -- a b c", "--test x"];
        assert_eq!(found, expected.map(|suite| format!("cargo test --package p {suite}")));
    }

    fn mutation(replace: &str) -> Mutation {
        let (name, file) = ("a".to_owned(), "b.rs".into());
        let (replace, with) = (replace.to_owned(), "2".to_owned());
        let test = ["--package", "p", "--lib"].map(str::to_owned).to_vec().try_into().unwrap();
        Mutation { name, file, replace, with, test }
    }

    #[test]
    fn mutation_becomes_a_branch_with_the_original_code() {
        let made = mutation("x = ⟦1⟧;").made_in("let x = 1;\nlet y = 1;").unwrap();
        assert!(made.starts_with("let x = ({ static CHOSEN"), "{made}");
        assert!(made.contains(r#""WARPFOLD_MUTATION").is_some_and(|it| it == "a")"#), "{made}");
        assert!(made.ends_with("{ 2 } else { 1 } });\nlet y = 1;"), "{made}");
        // Another change of the same text nests inside the first.
        let again = mutation("1").made_in("f(1)").unwrap();
        assert!(mutation("1").made_in(&again).unwrap().ends_with("else { 1 } } } })"));
    }

    #[test]
    fn part_of_a_call_is_an_error() {
        let error = mutation("⟦f(&S⟧ {})").made_in("f(&S {})").unwrap_err().to_string();
        assert_eq!(error, "a: `f(&S` has brackets without their counterparts");
    }

    #[test]
    fn text_not_found_exactly_once_is_an_error() {
        for (text, times) in [("x", "0 times"), ("1 + 1", "2 times")] {
            let error = mutation("1").made_in(text).unwrap_err().to_string();
            assert!(error.contains(times) && error.contains("b.rs"), "{error}");
        }
    }
}
