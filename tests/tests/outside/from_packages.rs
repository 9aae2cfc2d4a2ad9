//! A rehearsal of publishing: builds the published packages, and with these alone goes from
//! `cargo add warpfold` to a sum in the simulator, as a new user does.
//!
//! The environment is bare: a separate `CARGO_HOME`, a project outside of the repository, a toolchain
//! without rust-src, and a PATH with cargo, rustc and a linker, but neither git nor anything of CUDA.
//! Dependencies come from the sources that this machine's cargo is configured for. Nothing is published.

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use warpfold_suite::say;
use warpfold_suite_build::{
    failure::Failure, machine::Machine, process, toolchain::Toolchain, workspace::Workspace,
};
use xtask::packages::{self, Package};

const ADDED: &str = "warpfold";

/// The example of `warpfold` that the new program runs, and its output.
const EXAMPLE: &str = "examples/sum.rs";
const PRINTED: &str = "499999.5 on PTX simulator\n";

const PAPERS: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

const LARGEST: u64 = 10 << 20;

/// Time limit of a command, far above the time of a build on a slow machine with a slow network.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
#[ignore = "downloads the dependencies, and compiles them in a home of its own"]
fn a_new_program_needs_the_packages_alone() {
    let workspace = Workspace::locate().unwrap();
    let folder = tempfile::Builder::new().prefix("warpfold-").tempdir().unwrap();
    let rehearsed = rehearse(&workspace.root, &folder.path().join("rehearsal")).unwrap();
    let unpacked = pack(&workspace.root, folder.path(), Network::On).unwrap();
    if rehearsed {
        say!("cargo publish --dry-run takes all {} packages", unpacked.len());
    } else {
        say!(
            "not rehearsed: cargo publish asks crates.io itself, and packages come from elsewhere here"
        );
    }
    let home = Home::new(&workspace, folder.path()).unwrap();
    home.patch(&unpacked).unwrap();
    let added = unpacked.iter().find(|package| package.name == ADDED).unwrap();
    let taken = home.sum(&added.folder).unwrap();
    say!("from `cargo add {ADDED}` to {} in {:.0} s", PRINTED.trim_end(), taken.as_secs_f64());
}

#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The folder with its files, `<name>-<version>`.
    pub(crate) folder: PathBuf,
}

/// Permission to look for newer versions of dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    On,
    Off,
}

/// Runs cargo's publish of all packages without the upload, including its queries of the registry. The
/// output files are not used: [`pack`] makes the packages that are built. Returns `false` if cargo is
/// configured to replace crates.io, and therefore publishes nothing.
fn rehearse(root: &Path, folder: &Path) -> Result<bool> {
    let mut cargo = packages::cargo(root);
    cargo.args(["publish", "--dry-run", "--workspace", "--quiet", "--no-verify", "--allow-dirty"]);
    cargo.arg("--target-dir").arg(folder);
    match finish(cargo, "cargo publish --dry-run") {
        Err(error) if error.to_string().contains("crates-io is replaced") => Ok(false),
        published => published.map(|_| true),
    }
}

/// Builds the packages that a workspace publishes below a folder, and unpacks them there.
pub(crate) fn pack(root: &Path, folder: &Path, network: Network) -> Result<Vec<Unpacked>> {
    let (mut packages, _) = packages::of(root)?;
    packages.retain(Package::is_published);
    ensure!(!packages.is_empty(), "no package of this workspace may be published");
    let mut cargo = packages::cargo(root);
    // One call for all packages, so that cargo orders them by dependency. They are built later.
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir"]).arg(folder);
    for package in &packages {
        cargo.args(["-p", &package.name]);
    }
    if network == Network::Off {
        cargo.arg("--offline");
    }
    finish(cargo, "cargo package")?;
    let mut wrong = Vec::new();
    let mut unpacked = Vec::new();
    for package in &packages {
        let name = format!("{}-{}", package.name, package.version);
        let file = folder.join("package").join(format!("{name}.crate"));
        let bytes = fs::metadata(&file).with_context(|| file.display().to_string())?.len();
        if bytes > LARGEST {
            wrong.push(format!("{name} has {bytes} bytes; registries take {LARGEST}"));
        }
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&file).arg("-C").arg(folder);
        finish(tar, "tar")?;
        let place = folder.join(&name);
        let lacks = lacking(package.manifest.parent().unwrap_or(root), &place)?;
        wrong.extend(lacks.into_iter().map(|path| format!("{name} lacks {path}")));
        let (name, version) = (package.name.clone(), package.version.clone());
        unpacked.push(Unpacked { name, version, folder: place });
    }
    ensure!(wrong.is_empty(), Failure::new(wrong));
    Ok(unpacked)
}

/// Returns cargo's configuration for projects that use the packages' folders, since no registry has
/// them.
pub(crate) fn patches(packages: &[Unpacked]) -> String {
    let row = |Unpacked { name, folder, .. }: &Unpacked| format!("{name} = {{ path = {folder:?} }}\n");
    let rows: String = packages.iter().map(row).collect();
    format!("[patch.crates-io]\n{rows}")
}

fn lacking(source: &Path, unpacked: &Path) -> Result<Vec<String>> {
    let mut wanted: Vec<PathBuf> = PAPERS.map(PathBuf::from).into();
    below(&source.join("src"), &mut |path| {
        wanted.extend(path.strip_prefix(source).map(Path::to_owned));
        Ok(())
    })?;
    let lacking = wanted.into_iter().filter(|path| !unpacked.join(path).is_file());
    Ok(lacking.map(|path| path.display().to_string()).collect())
}

fn below(folder: &Path, with: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() { below(&path, with)? } else { with(&path)? }
    }
    Ok(())
}

struct Home {
    folder: PathBuf,
}

impl Home {
    fn new(workspace: &Workspace, folder: &Path) -> Result<Self> {
        let home = Self { folder: folder.join("home") };
        for name in [".cargo", "bin", "toolchain", "projects/.cargo"] {
            fs::create_dir_all(home.folder.join(name))?;
        }
        let toolchain = Toolchain::pinned(workspace)?;
        let host = toolchain.field("host").context("rustc does not say what it runs on")?;
        bare(&toolchain.sysroot()?, host, &home.folder.join("toolchain"))?;
        let machine = Machine::this(workspace);
        for linker in ["cc", "ld"] {
            let path = machine.on_path(linker).with_context(|| format!("no {linker} to link with"))?;
            symlink(fs::canonicalize(path)?, home.folder.join("bin").join(linker))?;
        }
        // Keeps this machine's configuration of package sources.
        for name in ["config.toml", "config"] {
            if let Some(text) = cargo_home().and_then(|home| fs::read(home.join(name)).ok()) {
                fs::write(home.folder.join(".cargo").join(name), text)?;
            }
        }
        Ok(home)
    }

    fn patch(&self, packages: &[Unpacked]) -> Result<()> {
        Ok(fs::write(self.folder.join("projects/.cargo/config.toml"), patches(packages))?)
    }

    fn sum(&self, package: &Path) -> Result<Duration> {
        let projects = self.folder.join("projects");
        let mut new = self.command("cargo", &projects);
        finish(with(&mut new, &["new", "--quiet", "--vcs", "none", "sum"]), "cargo new")?;
        let project = projects.join("sum");
        fs::copy(package.join(EXAMPLE), project.join("src/main.rs")).context(EXAMPLE)?;

        let start = Instant::now();
        let mut add = self.command("cargo", &project);
        finish(with(&mut add, &["add", "--quiet", "--path"]).arg(package), "cargo add")?;
        let mut run = self.command("cargo", &project);
        let printed = finish(with(&mut run, &["run", "--quiet"]), "cargo run")?;
        let taken = start.elapsed();
        ensure!(printed == PRINTED, "the program prints {printed:?}, not {PRINTED:?}");
        Ok(taken)
    }

    /// Returns a command for a program of the bare toolchain, whose environment has only the network
    /// settings of this process.
    fn command(&self, name: &str, folder: &Path) -> Command {
        let programs = self.folder.join("toolchain/bin");
        let path = env::join_paths([&programs, &self.folder.join("bin")]).expect("folders of our own");
        let mut command = Command::new(programs.join(name));
        command.current_dir(folder).env_clear().env("PATH", path);
        command.env("HOME", &self.folder).env("CARGO_HOME", self.folder.join(".cargo"));
        // Hides the driver of a GPU from the program.
        command.env("WARPFOLD_LIBCUDA", self.folder.join("no/libcuda.so.1"));
        command.envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_network)));
        command
    }
}

fn is_of_network(variable: &str) -> bool {
    variable.to_ascii_lowercase().ends_with("_proxy")
        || ["SSL_CERT_", "CARGO_HTTP_", "CARGO_NET_", "CARGO_SOURCE_", "CARGO_REGISTR"]
            .iter()
            .any(|start| variable.starts_with(start))
}

fn cargo_home() -> Option<PathBuf> {
    let default = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default)
}

/// Links the parts of a toolchain that build for its host: no rust-src, no other target.
fn bare(sysroot: &Path, host: &str, place: &Path) -> Result<()> {
    for program in ["bin/cargo", "bin/rustc"] {
        link(&sysroot.join(program), &place.join(program))?;
    }
    for entry in fs::read_dir(sysroot.join("lib"))? {
        let path = entry?.path();
        if path.is_file() {
            link(&path, &place.join("lib").join(path.file_name().unwrap_or_default()))?;
        }
    }
    let target = Path::new("lib/rustlib").join(host);
    below(&sysroot.join(&target), &mut |path| {
        link(path, &place.join(path.strip_prefix(sysroot).context("outside of the toolchain")?))
    })
}

/// Creates a hard link to a file, or a copy if it is on another disk. Not a symbolic link, which rustc
/// would follow to the sysroot with rust-src.
fn link(file: &Path, place: &Path) -> Result<()> {
    fs::create_dir_all(place.parent().context("no folder")?)?;
    let linked = fs::canonicalize(file).and_then(|file| {
        fs::hard_link(&file, place).or_else(|_: io::Error| fs::copy(&file, place).map(drop))
    });
    linked.with_context(|| file.display().to_string())
}

fn with<'c>(command: &'c mut Command, arguments: &[&str]) -> &'c mut Command {
    command.args(arguments)
}

/// Runs a command and returns its output. The error is the first line of standard error with `error`, or
/// else its last line.
fn finish(mut command: impl std::borrow::BorrowMut<Command>, what: &str) -> Result<String> {
    let output = process::run(command.borrow_mut(), LIMIT)?;
    let error = output.stderr.lines().find(|line| line.trim_start().starts_with("error"));
    let error = error.map(str::to_owned);
    match (output.status.success(), error) {
        (false, Some(error)) => Err(anyhow::anyhow!("{what}: {error}")),
        _ => output.success().with_context(|| what.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(manifest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let head = "[workspace]\n[package]\nname = \"a-crate\"\nversion = \"0.3.0\"\nedition = \"2024\"\n\
                    description = \"none\"\nlicense = \"MIT\"\n";
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/lib.rs"), "mod more;\n").unwrap();
        fs::write(root.join("src/more.rs"), "\n").unwrap();
        for name in &PAPERS[1..] {
            fs::write(root.join(name), "text\n").unwrap();
        }
        fs::write(root.join("Cargo.toml"), format!("{head}{manifest}")).unwrap();
        folder
    }

    fn packed(manifest: &str) -> Result<Vec<String>> {
        let (folder, made) = (workspace(manifest), tempfile::tempdir().unwrap());
        let unpacked = pack(folder.path(), made.path(), Network::Off)?;
        Ok(unpacked.into_iter().map(|package| package.name).collect())
    }

    #[test]
    fn a_file_that_a_package_lacks_is_named() {
        assert_eq!(packed("").unwrap(), ["a-crate"]);
        assert!(packed("publish = false\n").is_err(), "there is nothing to package");
        let lines = |manifest: &str| -> Vec<String> {
            packed(manifest).unwrap_err().downcast::<Failure>().unwrap().lines().to_vec()
        };
        assert_eq!(lines("exclude = [\"/LICENSE-MIT\"]\n"), ["a-crate-0.3.0 lacks LICENSE-MIT"]);
        assert_eq!(
            lines("include = [\"/src/lib.rs\", \"/LICENSE-*\", \"/README.md\"]\n"),
            ["a-crate-0.3.0 lacks src/more.rs"]
        );
    }

    #[test]
    fn publish_rehearsal_is_skipped_with_a_replaced_registry() {
        let (folder, made) = (workspace(""), tempfile::tempdir().unwrap());
        let elsewhere = "[source.crates-io]\nreplace-with = \"mirror\"\n\
                         [source.mirror]\nlocal-registry = \"mirror\"\n";
        fs::create_dir(folder.path().join(".cargo")).unwrap();
        fs::write(folder.path().join(".cargo/config.toml"), elsewhere).unwrap();
        assert!(!rehearse(folder.path(), made.path()).unwrap());
        // Other failures of cargo are errors.
        fs::write(folder.path().join(".cargo/config.toml"), "no configuration").unwrap();
        assert!(rehearse(folder.path(), made.path()).is_err());
    }

    #[test]
    fn a_bare_toolchain_has_no_sources() {
        let (full, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = [
            "bin/cargo",
            "bin/rustc",
            "bin/rustfmt",
            "lib/librustc_driver.so",
            "lib/rustlib/src/rust/library/core/src/lib.rs",
            "lib/rustlib/host/lib/libcore.rlib",
            "lib/rustlib/nvptx64-nvidia-cuda/lib/libcore.rlib",
        ];
        for file in files {
            fs::create_dir_all(full.path().join(file).parent().unwrap()).unwrap();
            fs::write(full.path().join(file), file).unwrap();
        }
        bare(full.path(), "host", place.path()).unwrap();
        let has =
            |file: &&str| fs::read_to_string(place.path().join(file)).is_ok_and(|text| text == **file);
        let kept: Vec<&str> = files.into_iter().filter(has).collect();
        assert_eq!(
            kept,
            ["bin/cargo", "bin/rustc", "lib/librustc_driver.so", "lib/rustlib/host/lib/libcore.rlib"]
        );
    }

    #[test]
    fn network_variables_are_recognized() {
        for name in ["http_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO"] {
            assert!(is_of_network(name), "{name}");
        }
        for name in ["PATH", "CUDA_PATH", "CARGO_BUILD_TARGET", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
            assert!(!is_of_network(name), "{name}");
        }
    }
}
