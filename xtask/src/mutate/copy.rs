//! The copy of the sources that is changed, compiled and run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use warpfold_suite::PTX_DIR;

use super::{
    CHOSEN, Mutation,
    program::{Program, Suite, Tests, shown},
};
use crate::{
    packages::{self, Package},
    workspace::Workspace,
};

pub(super) struct Copy {
    root: PathBuf,
    build: PathBuf,
    packages: Vec<Package>,
    /// The packages whose tests mutations name. They are all compiled also if fewer mutations are tried,
    /// because another selection could enable other features of dependencies, and so recompile them.
    tested: BTreeSet<String>,
    settings: Vec<String>,
    /// The suite's prebuilt PTX; the copy builds none.
    ptx: PathBuf,
}

impl Copy {
    pub(super) fn make(workspace: &Workspace, mutations: &[Mutation]) -> Result<Self> {
        let root = workspace.target.join("mutate");
        let files = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&workspace.root)
            .stderr(Stdio::inherit())
            .output()
            .context("git, which lists the sources, does not start")?;
        ensure!(files.status.success(), "git cannot list the sources");
        let files = String::from_utf8(files.stdout).context("the name of a file is not UTF-8")?;
        let files: Vec<&Path> = files.split_terminator('\0').map(Path::new).collect();
        remove_others(&root, &files)?;
        for file in files.iter().filter(|file| workspace.root.join(file).is_file()) {
            let from = workspace.root.join(file);
            let mut bytes =
                fs::read(&from).with_context(|| format!("{} cannot be read", from.display()))?;
            for mutation in mutations.iter().filter(|mutation| mutation.file == **file) {
                let text = String::from_utf8(bytes)
                    .with_context(|| format!("{} is not UTF-8 text", from.display()));
                bytes = mutation.made_in(&text?)?.into_bytes();
            }
            write_if_changed(&root.join(file), &bytes)?;
        }
        for Mutation { name, file, .. } in mutations {
            ensure!(
                files.contains(&file.as_path()),
                "{name}: {} is not a source that git lists",
                file.display()
            );
        }
        let tested = mutations.iter().map(|mutation| mutation.test.suite.package.clone()).collect();
        let packages = packages::of(&root)?.0;
        let settings = packages.iter().map(apart).chain([same_link(workspace)]).collect();
        let (build, ptx) = (workspace.target.clone(), workspace.target.join("ptx"));
        Ok(Self { root, build, packages, tested, settings, ptx })
    }

    pub(super) fn compiled(&self, suites: BTreeSet<Suite>) -> Result<BTreeMap<Suite, Program>> {
        let targets: BTreeSet<Vec<&str>> = suites.iter().map(Suite::target).collect();
        let output = packages::cargo(&self.root)
            .args(["test", "--quiet", "--no-run", "--message-format", "json-render-diagnostics"])
            .args(self.settings.iter().flat_map(|setting| ["--config", setting]))
            .args(self.tested.iter().flat_map(|package| ["--package", package]))
            .args(targets.iter().flatten())
            .env("CARGO_TARGET_DIR", &self.build)
            .env_remove(CHOSEN)
            .output()
            .context("cargo does not start")?;
        if !output.status.success() {
            // Standard output has cargo's messages as JSON, which are not shown.
            let output = Output { stdout: Vec::new(), ..output };
            return Err(shown("the tests do not compile:", &output).into());
        }
        let program = |suite| {
            let program = Program::of(&suite, &self.packages, &output.stdout)?;
            Ok((suite, program))
        };
        suites.into_iter().map(program).collect()
    }

    /// Runs a program as cargo would, with the change named `change` if any, and returns its output.
    pub(super) fn tested(
        &self,
        program: &Program,
        tests: &Tests,
        change: Option<&str>,
    ) -> Result<Output> {
        let mut command = Command::new(&program.path);
        command
            .args(&tests.names)
            .current_dir(&program.folder)
            // Replaces the values for xtask, inherited from the cargo that runs it.
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("CARGO_MANIFEST_PATH", program.folder.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &tests.suite.package)
            .env("CARGO_TARGET_DIR", &self.build)
            .env_remove(CHOSEN);
        // The library embeds its PTX, which the suite's folder lacks.
        if tests.suite.package == "warpfold" {
            command.env_remove(PTX_DIR);
        } else {
            command.env(PTX_DIR, &self.ptx);
        }
        if let Some(name) = change {
            command.env(CHOSEN, name);
        }
        command.output().with_context(|| format!("{} does not start", program.path.display()))
    }
}

/// Returns a profile setting that keeps cargo's build of the copy separate from that of the sources.
/// Both use one target folder, so that dependencies are compiled once. There cargo distinguishes the
/// packages of two workspaces only by their profiles: without this setting, it took programs of the copy
/// for programs of the sources. The default number is 256, so that the code is the same.
fn apart(package: &Package) -> String {
    format!("profile.dev.package.{}.codegen-units=255", package.name)
}

/// Makes cust's build script use the link folder of the sources instead of that of the copy. Another
/// path would recompile cust and all its dependents, here and in the next build of the sources.
fn same_link(workspace: &Workspace) -> String {
    // A JSON string is also a TOML string.
    let link = serde_json::json!(workspace.root.join("driver/link"));
    format!("env.CUDA_LIBRARY_PATH.value={link}")
}

/// Writes a file only if it differs, so that cargo does not rebuild unchanged code.
fn write_if_changed(to: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::write(to, bytes).with_context(|| format!("{} cannot be written", to.display()))
}

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
    use crate::mutate::program::{is_noticed, require_passed};

    const SOURCE: &str = r#"pub fn a() -> i32 { 1 }
        pub fn b() -> i32 { 1 }
        #[test] fn a_is_one() { assert_eq!(a(), 1); }
        #[test] fn b_is_one() { assert_eq!(b(), 1); }
        #[test] fn is_run_as_by_cargo() {
            assert!(std::path::Path::new("src/lib.rs").is_file());
            assert!(std::env::var_os("CARGO_MANIFEST_DIR").unwrap() == *env!("CARGO_MANIFEST_DIR"));
        }"#;

    fn mutation(name: &str, replace: &str, with: &str, test: &str) -> Mutation {
        let test = ["--package", "p", "--lib", "--", test];
        serde_json::from_value(serde_json::json!({
            "name": name, "file": "src/lib.rs", "replace": replace, "with": with, "test": test
        }))
        .unwrap()
    }

    fn copy(folder: &Path, mutations: &[Mutation]) -> Copy {
        let source = mutations
            .iter()
            .fold(SOURCE.to_owned(), |source, mutation| mutation.made_in(&source).unwrap());
        let manifest = "[package]\nname = 'p'\nedition = '2024'\n[workspace]";
        write_if_changed(&folder.join("Cargo.toml"), manifest.as_bytes()).unwrap();
        write_if_changed(&folder.join("src/lib.rs"), source.as_bytes()).unwrap();
        let root = fs::canonicalize(folder).unwrap();
        let packages = packages::of(&root).unwrap().0;
        Copy {
            build: root.join("target"),
            settings: packages.iter().map(apart).collect(),
            packages,
            tested: BTreeSet::from(["p".to_owned()]),
            ptx: root.clone(),
            root,
        }
    }

    #[test]
    fn each_change_is_detected_by_its_own_test_and_by_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let all = [
            mutation("wrong", "a() -> i32 { ⟦1⟧", "2", "a_is_one"),
            mutation("equal", "b() -> i32 { ⟦1⟧", "2 - 1", "b_is_one"),
            mutation("tested elsewhere", "{ assert_eq!(⟦b()⟧", "0", "a_is_one"),
        ];
        let copy = copy(folder.path(), &all);
        let suite = &all[0].test.suite;
        let programs = copy.compiled(BTreeSet::from([suite.clone()])).unwrap();
        let noticed = |mutation: &Mutation| {
            let output = copy.tested(&programs[suite], &mutation.test, Some(&mutation.name));
            is_noticed(&mutation.name, &output.unwrap()).unwrap()
        };
        assert_eq!(all.each_ref().map(noticed), [true, false, false]);
        let whole = Tests { names: BTreeSet::new(), ..all[0].test.clone() };
        require_passed(&whole, &copy.tested(&programs[suite], &whole, None).unwrap()).unwrap();
    }

    #[test]
    fn mutation_that_does_not_compile_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mutation = mutation("broken", "a() -> i32 { ⟦1⟧", "one", "a_is_one");
        let suites = BTreeSet::from([mutation.test.suite.clone()]);
        let error = copy(folder.path(), &[mutation]).compiled(suites).unwrap_err().to_string();
        assert!(error.starts_with("the tests do not compile:"), "{error}");
        assert!(error.contains("cannot find value `one`"), "{error}");
    }
}
