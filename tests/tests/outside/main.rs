//! The published packages as seen from outside: in a folder outside this repository, without CUDA
//! variables, built only from the output of `cargo package`.
//!
//! A `directory` source holds the packages and their dependencies in place of the registry, so that
//! `cargo add` finds them by name and version, and the program needs no path, patch or workspace.

mod from_packages;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;
use warpfold_tests::root;

use from_packages::{Network, Unpacked};

struct Outside {
    folder: TempDir,
    program: PathBuf,
}

impl Outside {
    /// Creates a program of one file, with the packages as dependencies.
    fn new(text: &str, packages: &[&str]) -> Self {
        let outside = Self::empty();
        outside.cargo(&["init", "--quiet", "--vcs", "none", "--name", "program"]);
        for package in packages {
            outside.cargo(&["add", "--quiet", package]);
        }
        fs::write(outside.program.join("src/main.rs"), text).unwrap();
        outside
    }

    /// Copies the template, without the hidden folders that name packages of this repository.
    fn template() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        copy(&root().join("examples/template"), &program);
        let packages = from_packages::pack(root(), folder.path(), Network::Off).unwrap();
        fs::create_dir_all(program.join(".cargo")).unwrap();
        // Not a source in place of the registry: the kernels are compiled with the source of core, whose
        // workspace has dependencies there.
        fs::write(program.join(".cargo/config.toml"), from_packages::patches(&packages)).unwrap();
        Self { folder, program }
    }

    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        assert!(!folder.path().starts_with(root()), "{} is inside", folder.path().display());
        let registry = registry(folder.path());
        let program = folder.path().join("program");
        fs::create_dir_all(program.join(".cargo")).unwrap();
        let source = format!(
            "[source.crates-io]\nreplace-with = \"packages\"\n[source.packages]\ndirectory = \"{}\"\n",
            registry.display()
        );
        fs::write(program.join(".cargo/config.toml"), source).unwrap();
        Self { folder, program }
    }

    fn run(&self) -> String {
        self.cargo(&["run", "--quiet"])
    }

    fn cargo(&self, args: &[&str]) -> String {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.program).env_clear().args(args).arg("--offline");
        let kept = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TMPDIR"];
        cargo.envs(kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        said(&mut cargo)
    }

    fn sources(&self) -> Vec<(String, PathBuf)> {
        let metadata = self.cargo(&["metadata", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let of = |package: &Value| {
            let text = |key: &str| package[key].as_str().unwrap().to_owned();
            (text("name"), PathBuf::from(text("manifest_path")))
        };
        metadata["packages"].as_array().unwrap().iter().map(of).collect()
    }
}

/// Copies the files of a folder, without hidden ones and what a build has made.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        match name.to_str().unwrap() {
            "target" | "Cargo.lock" => {}
            hidden if hidden.starts_with('.') => {}
            _ if path.is_dir() => copy(&path, &to.join(name)),
            _ => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

fn registry(folder: &Path) -> PathBuf {
    let packages =
        from_packages::pack(root(), folder, Network::Off).unwrap_or_else(|error| panic!("{error:#}"));
    let registry = folder.join("registry");
    vendor(&packages, folder, &registry);
    for package in &packages {
        let place = registry.join(package.folder.file_name().unwrap());
        fs::rename(&package.folder, &place).unwrap();
        // No checksums: the files have just been made.
        fs::write(place.join(".cargo-checksum.json"), "{\"files\":{}}").unwrap();
    }
    registry
}

fn vendor(packages: &[Unpacked], folder: &Path, registry: &Path) {
    let scratch = folder.join("scratch");
    fs::create_dir_all(scratch.join("src")).unwrap();
    let (mut needs, mut patches) = (String::new(), String::new());
    for package in packages {
        needs += &format!("{} = \"={}\"\n", package.name, package.version);
        patches += &format!("{} = {{ path = {:?} }}\n", package.name, package.folder);
    }
    let manifest = format!(
        "[package]\nname = \"scratch\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{needs}\
         [patch.crates-io]\n{patches}"
    );
    fs::write(scratch.join("Cargo.toml"), manifest).unwrap();
    fs::write(scratch.join("src/lib.rs"), "").unwrap();
    fs::copy(root().join("Cargo.lock"), scratch.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&scratch).args(["vendor", "--quiet", "--offline", "--versioned-dirs"]);
    said(cargo.arg(registry));
    // The folder is missing if no package has dependencies.
    fs::create_dir_all(registry).unwrap();
}

fn pinned() -> String {
    let text = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = ")).expect("a channel");
    channel.trim_matches('"').to_owned()
}

fn manifests() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let metadata =
        said(cargo.current_dir(root()).args(["metadata", "--no-deps", "--format-version", "1"]));
    let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    // In the metadata, `publish = false` is an empty list; no `publish` is null.
    let published: Vec<Value> =
        packages.into_iter().filter(|package| package["publish"].is_null()).collect();
    assert!(!published.is_empty(), "no package may be published");
    published
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn documented(path: &str) -> String {
    let source = fs::read_to_string(root().join(path)).unwrap();
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = text.join("\n");
    let (_, example) = text.split_once("```\n").expect("an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    let code: Vec<&str> = example.lines().filter(|line| !line.starts_with("# Ok::<")).collect();
    let code = code.join("\n");
    let main = "fn main() -> Result<(), Box<dyn std::error::Error>>";
    format!("{main} {{\n{code}\nprintln!(\"right\");\nOk(())\n}}\n")
}

#[test]
fn published_packages_have_the_required_metadata() {
    for package in manifests() {
        let name = &package["name"];
        for key in ["license", "description", "readme", "rust_version"] {
            assert!(package[key].is_string(), "{name} has no {key}");
        }
        // The promised oldest compiler must be the one that everything is tested with.
        let (pinned, promised) = (pinned(), package["rust_version"].as_str().unwrap());
        assert!(pinned == promised || pinned.starts_with(&format!("{promised}.")), "{name}: {promised}");
        for key in ["keywords", "categories"] {
            assert!(!package[key].as_array().unwrap().is_empty(), "{name} has no {key}");
        }
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        assert!(folder.join(package["readme"].as_str().unwrap()).is_file(), "{name} has no README");
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let [own, wanted] = [folder, root()].map(|folder| fs::read_to_string(folder.join(file)));
            assert!(
                own.is_ok_and(|own| own == wanted.unwrap()),
                "{name} has no {file}, or another text"
            );
        }
        // A dependency by path alone does not exist for users of the package.
        for dependency in package["dependencies"].as_array().unwrap() {
            let is_own = dependency["path"].is_string() && dependency["kind"] != "dev";
            assert!(
                !is_own || dependency["req"] != "*",
                "{name}: {} has no version",
                dependency["name"]
            );
        }
    }
}

#[test]
fn program_builds_from_the_packages_alone() {
    let outside = Outside::new(&documented("sim/src/lib.rs"), &["warpfold-abi", "warpfold-sim"]);
    assert_eq!(outside.run(), "right\n");
    let manifest = fs::read_to_string(outside.program.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("\nwarpfold-sim = \"") && !manifest.contains("path"), "{manifest}");
    for (name, manifest) in outside.sources() {
        assert!(manifest.starts_with(outside.folder.path()), "{name} is from {}", manifest.display());
    }
}

fn readme() -> (String, String) {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = text.split_once("```rust\n").expect("a program");
    let (program, rest) = rest.split_once("```\n").expect("the program ends");
    let (_, rest) = rest.split_once("```\n").expect("what it prints");
    let (printed, _) = rest.split_once("```\n").expect("that ends as well");
    (program.to_owned(), printed.to_owned())
}

/// The build script of the program compiles its kernels, with rust-src and the packages.
#[test]
fn the_template_works_when_copied() {
    let outside = Outside::template();
    let said = outside.run();
    assert_eq!(said.split(" on ").next(), Some("36"), "{said}");
    let [kernels, readme] = ["examples/template/kernels/src/lib.rs", "device/README.md"]
        .map(|file| fs::read_to_string(root().join(file)).unwrap());
    assert!(readme.contains(&kernels), "device/README.md does not show the kernels of the template");
}

#[test]
fn the_readmes_program_works_when_pasted_into_a_new_crate() {
    let (program, printed) = readme();
    let outside = Outside::new(&program, &["warpfold"]);
    let said = outside.run();
    // On a machine with a GPU the device differs, but not the sum.
    let sum = |line: &str| line.split(" on ").next().unwrap_or_default().to_owned();
    match warpfold_suite::device::probe() {
        Ok(_) => assert_eq!(sum(&said), sum(&printed)),
        Err(_) => assert_eq!(said, printed),
    }
}
