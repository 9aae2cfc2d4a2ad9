//! Lists of the public items of the published libraries.
//!
//! Each list is a file of `docs/public-api`, so that an API change is visible as a changed line. The
//! items come from rustdoc's JSON, which the pinned compiler writes with `RUSTC_BOOTSTRAP=1`, and which
//! the crate `public-api` of the same format version reads.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_suite::say;

use crate::{
    files,
    packages::{self, Package},
    workspace::Workspace,
};

const LISTS: &str = "docs/public-api";

/// Auto traits that are left out; `Send` and `Sync` are part of the API and are listed.
const DERIVED: [&str; 5] = [
    "impl core::marker::Freeze for ",
    "impl core::marker::Unpin for ",
    "impl core::marker::UnsafeUnpin for ",
    "impl core::panic::unwind_safe::RefUnwindSafe for ",
    "impl core::panic::unwind_safe::UnwindSafe for ",
];

/// Compares the lists with the libraries, and prints the differences; returns whether there are none.
/// With `fix`, writes the lists instead.
pub fn check(fix: bool) -> Result<bool> {
    check_in(&Workspace::locate()?.root, fix)
}

fn check_in(root: &Path, fix: bool) -> Result<bool> {
    let (packages, target) = packages::of(root)?;
    let mut stale = false;
    for package in libraries(&packages)? {
        let path = root.join(LISTS).join(&package.name).with_extension("txt");
        let new = items(root, &target, package)?;
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old == new {
            continue;
        }
        let shown = format!("{LISTS}/{}.txt", package.name);
        if !fix {
            stale = true;
            say!("{shown} differs from the public items of {}:", package.name);
            difference(&old, &new).iter().for_each(|line| say!("{line}"));
        } else {
            fs::create_dir_all(root.join(LISTS))
                .with_context(|| format!("{LISTS} cannot be created"))?;
            files::replace(&path, new)?;
            say!("{shown}: written");
        }
    }
    if stale {
        say!("`cargo xtask lint api --fix` renews it; items that are removed or changed break programs");
    }
    Ok(!stale)
}

fn libraries(packages: &[Package]) -> Result<Vec<&Package>> {
    // rustdoc runs for the host.
    let is_published = |package: &&Package| {
        package.is_published() && package.library().is_some() && !package.is_for_gpu()
    };
    let known: Vec<&Package> = packages.iter().filter(is_published).collect();
    ensure!(!known.is_empty(), "no package of this workspace may be published");
    Ok(known)
}

/// Returns the public items of a library with all its features, one per line, sorted.
fn items(root: &Path, target: &Path, package: &Package) -> Result<String> {
    let json = rustdoc_json(root, target, package)?;
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .build()
        .with_context(|| format!("{} cannot be parsed", json.display()))?;
    let mut items: Vec<String> = api.items().map(|item| item.to_string()).collect();
    items.retain(|item| !DERIVED.iter().any(|derived| item.starts_with(derived)));
    items.sort();
    items.dedup();
    Ok(items.iter().map(|item| format!("{item}\n")).collect())
}

fn rustdoc_json(root: &Path, target: &Path, package: &Package) -> Result<PathBuf> {
    let library = package.library().context("only libraries have public items")?;
    // In the usual folder, the change of RUSTC_BOOTSTRAP would make other builds recompile crates.
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

/// Returns the lines that are in only one list, prefixed with `-` or `+` as in a patch.
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

    const SOURCE: &str = "pub struct Promise(pub u32);\n\
        impl Promise { pub fn kept(&self) -> bool { true } }\n\
        #[cfg(feature = \"more\")]\npub fn more() {}\nstruct Private;\npub struct Local(*const u8);\n";

    #[test]
    fn changed_public_api_is_detected() {
        let folder = workspace("", SOURCE);
        let root = folder.path();
        assert!(!check_in(root, false).unwrap(), "there is no list yet");
        assert!(check_in(root, true).unwrap());
        assert!(check_in(root, false).unwrap());
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
        assert!(check_in(root, false).unwrap());
        fs::write(root.join("src/lib.rs"), SOURCE.replace("(&self)", "(&mut self)")).unwrap();
        assert!(!check_in(root, false).unwrap());
    }

    #[test]
    fn unpublished_or_broken_library_error_is_one_line() {
        let folder = workspace("publish = false\n", SOURCE);
        let error = format!("{:#}", check_in(folder.path(), false).unwrap_err());
        assert_eq!(error, "no package of this workspace may be published");
        let folder = workspace("", "pub fn broken( {}\n");
        let error = format!("{:#}", check_in(folder.path(), false).unwrap_err());
        assert!(error.starts_with("rustdoc of a-crate: error") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn difference_lists_removed_and_added_lines() {
        assert_eq!(difference("a\nb\nc\n", "a\nd\nc\n"), ["-b", "+d"]);
        assert!(difference("a\n", "a\n").is_empty());
    }
}
