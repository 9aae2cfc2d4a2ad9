//! The compilation of a folder of kernels by a build script.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use warpfold_ptx::Arch;

use crate::{
    Allowance, Error, check,
    compile::{Compilation, LINE_FLAGS, TARGET},
    toolchain,
};

/// A crate of kernels to compile.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), warpfold_build::Error> {
///     for arch in ["sm_80", "sm_90"] {
///         let ptx = warpfold_build::Kernels::new("../kernels").arch(arch).compile()?;
///         println!("cargo::rustc-env=KERNELS_{}={}", arch.to_uppercase(), ptx.display());
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Kernels {
    folder: PathBuf,
    arch: String,
    features: Vec<String>,
    allowance: Allowance,
    line_tables: bool,
}

impl Kernels {
    /// Selects the crate in a folder. A relative path starts at the build script's package.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            arch: Arch::OLDEST.to_string(),
            features: Vec::new(),
            allowance: Allowance::default(),
            line_tables: false,
        }
    }

    /// Compiles for a GPU architecture such as `sm_90` or `sm_90a`; the default is `sm_80`, the oldest
    /// that is supported. PTX runs on newer GPUs too, unless the name has a suffix.
    pub fn arch(mut self, name: impl Into<String>) -> Self {
        self.arch = name.into();
        self
    }

    /// Enables features of the crate, besides its default ones.
    pub fn features(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.features.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets exceptions to the rules of the [check](crate::check()).
    pub fn allow(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// Keeps the line tables and comments in the PTX, with which profilers and `warpfold-sim` map
    /// instructions to Rust. They are most of the text; by default they are removed after the check.
    pub fn line_tables(mut self) -> Self {
        self.line_tables = true;
        self
    }

    /// Compiles and checks the kernels, writes their PTX to `OUT_DIR` and returns its path.
    ///
    /// Standard output gets the `rerun-if-changed` lines of the kernels' sources and of the crates that
    /// they depend on by path. The compiler's messages go to standard error, which cargo shows if the
    /// build script fails.
    ///
    /// # Errors
    /// Fails outside of a build script, for a folder without a crate, an unsupported architecture, a
    /// missing rust-src, kernels that do not compile, and PTX that the check rejects.
    pub fn compile(&self) -> Result<PathBuf, Error> {
        let (ptx, read) = self.compile_in(&BuildScript::this()?)?;
        for path in read {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        Ok(ptx)
    }

    /// Returns the path of the PTX, and the files on which it depends.
    fn compile_in(&self, script: &BuildScript) -> Result<(PathBuf, BTreeSet<PathBuf>), Error> {
        let name = package(&self.folder)?;
        let arch = toolchain::supported(self.arch.parse()?, script.archs()?)?;
        let sysroot = script.sysroot_with_source()?;

        // Each configuration has its own folder, because cargo does not write the PTX again if it finds
        // the crate up to date.
        let configuration = [arch.to_string()].into_iter().chain(self.features.iter().cloned());
        let folder = script.out.join(&name).join(configuration.collect::<Vec<_>>().join("-"));
        fs::create_dir_all(&folder).map_err(|error| of_file(&folder, error))?;
        let compiled = folder.join(format!("{name}.s"));
        self.run_cargo(script, arch, &folder, &compiled)?;
        let mut text = fs::read_to_string(&compiled).map_err(|error| of_file(&compiled, error))?;
        let findings = check(&compiled.display().to_string(), &text, self.allowance);
        if !findings.is_empty() {
            return Err(Error::Rejected(findings));
        }
        if !self.line_tables {
            text = without_line_tables(&text);
        }
        let ptx = folder.join(format!("{name}.ptx"));
        fs::write(&ptx, text).map_err(|error| of_file(&ptx, error))?;
        Ok((ptx, self.read_files(&folder, &sysroot)))
    }

    fn run_cargo(
        &self,
        script: &BuildScript,
        arch: Arch,
        target_folder: &Path,
        ptx: &Path,
    ) -> Result<(), Error> {
        let mut arguments = Vec::new();
        for feature in &self.features {
            arguments.extend(["--features".to_owned(), feature.clone()]);
        }
        let compilation = Compilation {
            kernels: &self.folder,
            arch,
            target_folder,
            ptx,
            flags: LINE_FLAGS.iter().map(|&flag| flag.to_owned()).collect(),
            arguments,
        };
        let mut command = compilation.command(script.command(&script.cargo));
        // The build script's own standard output must contain only lines for cargo.
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        let status = status.map_err(|error| failed(&script.cargo, &error))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::NotCompiled { folder: self.folder.clone(), arch })
    }

    /// Returns the sources and manifests of this crate and of its path dependencies.
    fn read_files(&self, target_folder: &Path, sysroot: &Path) -> BTreeSet<PathBuf> {
        let mut read: BTreeSet<PathBuf> = dep_infos(&target_folder.join(TARGET).join("release"))
            .iter()
            .flat_map(|text| sources(text))
            .filter(|path| !path.starts_with(sysroot))
            .collect();
        let manifests: Vec<PathBuf> = read.iter().filter_map(|source| manifest_of(source)).collect();
        read.extend(manifests);
        let own = ["Cargo.toml", "Cargo.lock"].map(|name| self.folder.join(name));
        // A file that does not exist would make cargo run the build script each time.
        read.extend(own.into_iter().filter(|path| path.is_file()));
        read
    }
}

struct BuildScript {
    cargo: PathBuf,
    rustc: PathBuf,
    out: PathBuf,
    toolchain: Option<String>,
}

impl BuildScript {
    fn this() -> Result<Self, Error> {
        let path = |variable: &'static str| {
            env::var_os(variable).map(PathBuf::from).ok_or(Error::NoBuildScript { variable })
        };
        let toolchain = env::var("RUSTUP_TOOLCHAIN").ok();
        Ok(Self { cargo: path("CARGO")?, rustc: path("RUSTC")?, out: path("OUT_DIR")?, toolchain })
    }

    /// Returns a command for a program of the toolchain that runs the build script, in a clean
    /// environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        toolchain::clean(&mut command);
        command.env("RUSTC", &self.rustc);
        // `rustc` without a path may be rustup's proxy, which selects the toolchain by this variable.
        command.envs(self.toolchain.as_ref().map(|name| ("RUSTUP_TOOLCHAIN", name)));
        command
    }

    fn ask_rustc(&self, args: &[&str]) -> Result<String, Error> {
        let output = self.command(&self.rustc).args(args).output();
        let output = output.map_err(|error| failed(&self.rustc, &error))?;
        if !output.status.success() {
            return Err(failed(&self.rustc, &String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn archs(&self) -> Result<Vec<Arch>, Error> {
        Ok(toolchain::listed_archs(&self.ask_rustc(&toolchain::LIST_ARCHS)?))
    }

    fn sysroot_with_source(&self) -> Result<PathBuf, Error> {
        let sysroot = PathBuf::from(self.ask_rustc(&["--print", "sysroot"])?);
        if toolchain::has_library(&sysroot) {
            return Ok(sysroot);
        }
        Err(Error::NoRustSrc {
            library: toolchain::library(&sysroot),
            toolchain: self.toolchain.clone(),
        })
    }
}

fn failed(program: &Path, problem: &impl ToString) -> Error {
    Error::Program { program: program.display().to_string(), problem: problem.to_string() }
}

fn of_file(path: &Path, source: io::Error) -> Error {
    Error::File { path: path.to_owned(), source }
}

/// Removes line tables, lines that are comments, and empty lines from PTX.
fn without_line_tables(ptx: &str) -> String {
    const TABLES: [&str; 4] = [".loc", ".file", ".section\t.debug_macinfo\t{\t}", "//"];
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !TABLES.iter().any(|table| line.starts_with(table))
    };
    ptx.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

fn package(folder: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let package = text.split_once("[package]").map_or("", |(_, package)| package);
    let value =
        |line: &str| Some(line.trim().strip_prefix("name")?.trim().strip_prefix('=')?.trim().to_owned());
    let name = package.lines().find_map(value).map(|name| name.trim_matches(['"', '\'']).to_owned());
    name.ok_or_else(|| Error::NoCrate { folder: folder.to_owned() })
}

fn dep_infos(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_dep_info = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "d");
    paths.filter(is_dep_info).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Returns the sources in a Makefile rule `output: source source`, in which `\` escapes spaces.
fn sources(dep_info: &str) -> impl Iterator<Item = PathBuf> {
    const SPACE: &str = "\0";
    let (_, sources) = dep_info.split_once(": ").unwrap_or_default();
    let sources = sources.replace("\\ ", SPACE);
    let paths: Vec<PathBuf> =
        sources.split_whitespace().map(|path| PathBuf::from(path.replace(SPACE, " "))).collect();
    paths.into_iter()
}

fn manifest_of(source: &Path) -> Option<PathBuf> {
    source.ancestors().map(|folder| folder.join("Cargo.toml")).find(|path| path.is_file())
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
