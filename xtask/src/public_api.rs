//! `cargo xtask public-api`: lists the public items of the published libraries.
//!
//! Each list is a file of `docs/public-api`, so that an API change is visible as a changed line. The
//! items come from rustdoc's JSON, which the pinned compiler writes with `RUSTC_BOOTSTRAP=1`, and which
//! the crate `public-api` of the same format version reads.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_suite::say;

use crate::{
    files,
    packages::{self, Package},
    workspace::Workspace,
};

const LISTS: &str = "docs/public-api";

/// Auto traits that are left out. `Send` and `Sync` are part of the API and are listed.
const DERIVED: [&str; 5] = [
    "impl core::marker::Freeze for ",
    "impl core::marker::Unpin for ",
    "impl core::marker::UnsafeUnpin for ",
    "impl core::panic::unwind_safe::RefUnwindSafe for ",
    "impl core::panic::unwind_safe::UnwindSafe for ",
];

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Packages to list [default: all published libraries]
    pub packages: Vec<String>,
    /// Write nothing; exit 1 if a library's public items differ from its list
    #[arg(long)]
    pub check: bool,
}

/// Runs the command. Exits 1 if `--check` finds an outdated list.
///
/// # Errors
/// Fails for an unknown package, and with errors of rustdoc or of the crate that reads its output.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    run_in(&workspace.root, args)
}

/// Does the work of [`run`] for the workspace in a folder.
///
/// # Errors
/// As for [`run`].
pub fn run_in(root: &Path, args: &Args) -> Result<ExitCode> {
    let (packages, target) = packages::of(root)?;
    let mut stale = false;
    for package in chosen(&packages, &args.packages)? {
        let path = root.join(LISTS).join(&package.name).with_extension("txt");
        let new = items(root, &target, package)?;
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old == new {
            continue;
        }
        let shown = format!("{LISTS}/{}.txt", package.name);
        if args.check {
            stale = true;
            say!("{shown} is not what {} has:", package.name);
            difference(&old, &new).iter().for_each(|line| say!("{line}"));
        } else {
            fs::create_dir_all(root.join(LISTS)).with_context(|| format!("{LISTS} cannot be made"))?;
            files::replace(&path, new)?;
            say!("{shown}: written");
        }
    }
    if stale {
        say!("`cargo xtask public-api` renews it; what is taken away or changed breaks programs");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the named packages, or else all published ones with a library.
fn chosen<'a>(packages: &'a [Package], named: &[String]) -> Result<Vec<&'a Package>> {
    let known: Vec<&Package> = packages
        .iter()
        .filter(|package| package.is_published() && package.library().is_some())
        .collect();
    if named.is_empty() {
        ensure!(!known.is_empty(), "no package of this workspace may be published");
        return Ok(known);
    }
    let find = |name: &String| {
        known.iter().find(|package| package.name == *name).copied().with_context(|| {
            let names: Vec<&str> = known.iter().map(|package| package.name.as_str()).collect();
            format!("no published library is called `{name}`; there are {}", names.join(", "))
        })
    };
    named.iter().map(find).collect()
}

/// Returns the public items of a library with all its features, one per line, sorted.
fn items(root: &Path, target: &Path, package: &Package) -> Result<String> {
    let json = rustdoc_json(root, target, package)?;
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .build()
        .with_context(|| format!("{} is not understood", json.display()))?;
    let mut items: Vec<String> = api.items().map(|item| item.to_string()).collect();
    items.retain(|item| !DERIVED.iter().any(|derived| item.starts_with(derived)));
    items.sort();
    items.dedup();
    Ok(items.iter().map(|item| format!("{item}\n")).collect())
}

fn rustdoc_json(root: &Path, target: &Path, package: &Package) -> Result<PathBuf> {
    let library = package.library().context("only libraries have public items")?;
    // RUSTC_BOOTSTRAP invalidates build scripts: in the usual folder all would be recompiled, twice.
    let target = target.join("public-api");
    let said = packages::cargo(root)
        .args(["rustdoc", "--quiet", "--lib", "--all-features", "-p", &package.name])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format", "json"])
        // The format is unstable, but the compiler is pinned.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTDOCFLAGS")
        .output()
        .context("cargo does not start")?;
    if !said.status.success() {
        let errors = String::from_utf8_lossy(&said.stderr);
        let first = errors.lines().find(|line| line.starts_with("error")).unwrap_or("failed");
        bail!("rustdoc of {}: {first}", package.name);
    }
    Ok(target.join("doc").join(library).with_extension("json"))
}

/// Returns the lines that only one list has, with the sign of a patch.
fn difference(old: &str, new: &str) -> Vec<String> {
    let lacks = |list: &str, line: &str| !list.lines().any(|other| other == line);
    let gone = old.lines().filter(|line| lacks(new, line)).map(|line| format!("-{line}"));
    let come = new.lines().filter(|line| lacks(old, line)).map(|line| format!("+{line}"));
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(publish: &str, source: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let manifest = format!(
            "[workspace]\n[package]\nname = \"a-crate\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{publish}\
             [features]\nmore = []\n"
        );
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        folder
    }

    fn exit(root: &Path, check: bool) -> String {
        format!("{:?}", run_in(root, &Args { packages: Vec::new(), check }).unwrap())
    }

    const SOURCE: &str = "pub struct Promise(pub u32);\n\
        impl Promise { pub fn kept(&self) -> bool { true } }\n\
        #[cfg(feature = \"more\")]\npub fn more() {}\nstruct Private;\npub struct Local(*const u8);\n";

    #[test]
    fn a_change_of_the_promise_is_found() {
        let [fresh, stale] = [ExitCode::SUCCESS, ExitCode::FAILURE].map(|code| format!("{code:?}"));
        let folder = workspace("", SOURCE);
        let root = folder.path();
        assert_eq!(exit(root, true), stale, "there is no list yet");
        assert_eq!(exit(root, false), fresh);
        assert_eq!(exit(root, true), fresh);
        let list = fs::read_to_string(root.join("docs/public-api/a-crate.txt")).unwrap();
        for item in [
            "pub fn a_crate::Promise::kept(&self) -> bool",
            "pub fn a_crate::more()",
            "impl core::marker::Send for a_crate::Promise",
            "impl !core::marker::Send for a_crate::Local",
        ] {
            assert!(list.lines().any(|line| line == item), "no {item} in {list}");
        }
        assert!(!list.contains("Private") && !list.contains("UnwindSafe"), "{list}");
        // A body is not part of the API, a signature is.
        fs::write(root.join("src/lib.rs"), SOURCE.replace("true", "false")).unwrap();
        assert_eq!(exit(root, true), fresh);
        fs::write(root.join("src/lib.rs"), SOURCE.replace("(&self)", "(&mut self)")).unwrap();
        assert_eq!(exit(root, true), stale);
    }

    #[test]
    fn what_is_no_published_library_is_one_line() {
        let folder = workspace("", SOURCE);
        let args = Args { packages: vec!["another".to_owned()], check: true };
        let error = format!("{:#}", run_in(folder.path(), &args).unwrap_err());
        assert_eq!(error, "no published library is called `another`; there are a-crate");
        let folder = workspace("publish = false\n", SOURCE);
        let args = Args { packages: Vec::new(), check: true };
        let error = format!("{:#}", run_in(folder.path(), &args).unwrap_err());
        assert_eq!(error, "no package of this workspace may be published");
        let folder = workspace("", "pub fn broken( {}\n");
        let error = format!("{:#}", run_in(folder.path(), &args).unwrap_err());
        assert!(error.starts_with("rustdoc of a-crate: error") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn a_difference_has_what_is_gone_and_what_has_come() {
        assert_eq!(difference("a\nb\nc\n", "a\nd\nc\n"), ["-b", "+d"]);
        assert!(difference("a\n", "a\n").is_empty());
    }
}
