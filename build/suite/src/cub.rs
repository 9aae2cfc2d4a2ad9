//! `cargo xtask build-twins --cub`: CUB's device-wide reductions as a shared library, for comparison.
//!
//! `cuda/cub/` is compiled to `target/cub/<arch>/libwarpfold_cub.so`. The CUDA runtime is linked
//! statically, so that the library runs where there is a driver and no toolkit. It is rebuilt only if
//! its inputs have changed, and replaced only when complete.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use warpfold_build::internal::supported;

pub use crate::builder::CUB_LIBRARY as LIBRARY;

use crate::{
    arch::for_this_gpu,
    build_ptx::fingerprint::{Fingerprint, Sources},
    files,
    machine::Machine,
    process, suite,
    twins::Nvcc,
    workspace::{self, Workspace},
};
use warpfold_suite::{Arch, say};

const SOURCES: &str = "cuda/cub";

const FINGERPRINT: &str = "fingerprint.txt";

const LOG: &str = "nvcc.log";

/// The compiler flags besides the architecture and [`OPTIMIZED`]. The sources are compiled in parallel,
/// and only the C interface is exported.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-Werror",
    "all-warnings",
    "--threads",
    "0",
    "-Xcompiler",
    "-fPIC,-fvisibility=hidden",
    "-Xlinker",
    "--exclude-libs,ALL,-s",
    "-shared",
    "-cudart",
    "static",
    "-cudadevrt",
    "none",
];

const OPTIMIZED: &[&str] = &["-O3"];

/// Flags for [`check`], of CUDA 13: templates are instantiated, and no device code is made.
const FRONT_END: &[&str] = &["-fdevice-syntax-only"];

/// Time limit, far above the compilation on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub struct Built {
    pub path: PathBuf,
    pub arch: Arch,
    /// The compiler and its version in one line.
    pub compiler: String,
    /// True if this call has rebuilt the library.
    pub rebuilt: bool,
}

/// Builds the library or, with `check`, only checks that its sources compile.
pub(crate) fn run(arch: Option<Arch>, check: bool) -> Result<()> {
    let workspace = Workspace::locate()?;
    let start = Instant::now();
    if check {
        self::check(&workspace, &Machine::this(&workspace), arch)?;
        say!("{SOURCES} compiles, in {:.1} s", start.elapsed().as_secs_f32());
        return Ok(());
    }
    let built = ensure(&workspace, &Machine::this(&workspace), arch)?;
    let what = match built.rebuilt {
        true => format!("built in {:.1} s", start.elapsed().as_secs_f32()),
        false => "up to date".to_owned(),
    };
    say!("{}: {what}, {}", workspace.show(&built.path), built.compiler);
    Ok(())
}

/// Builds the library if it is not up to date, and returns its location. The default architecture is
/// that of this machine's GPU, or sm_90 without a GPU.
pub fn ensure(workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Built> {
    let (nvcc, arch) = compiler(machine, arch)?;
    let folder = folder_of(workspace, arch);
    let job = Job { workspace, nvcc: &nvcc, arch, folder: &folder };
    let rebuilt = job.run(&inputs(workspace, &nvcc)?)?;
    Ok(Built { path: folder.join(LIBRARY), arch, compiler: nvcc.name, rebuilt })
}

/// Checks that the current sources compile, without changing the library. The default architecture is
/// that of this machine's GPU, or sm_90 without a GPU.
pub fn check(workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<()> {
    let (nvcc, arch) = compiler(machine, arch)?;
    let folder = folder_of(workspace, arch);
    let job = Job { workspace, nvcc: &nvcc, arch, folder: &folder };
    let virtual_arch = arch.to_string().replace("sm_", "compute_");
    let target = format!("-gencode=arch={virtual_arch},code={virtual_arch}");
    job.compile_anew(&[&[target.as_str()], FRONT_END].concat()).map(drop)
}

fn compiler(machine: &Machine, arch: Option<Arch>) -> Result<(Nvcc, Arch)> {
    let nvcc = Nvcc::find(machine)?;
    let known = nvcc.archs()?;
    let found = || Some(for_this_gpu(suite::gpu_arch()?, &known));
    let arch = supported(arch.or_else(found).unwrap_or(Arch::SIMULATED), known)?;
    Ok((nvcc, arch))
}

fn folder_of(workspace: &Workspace, arch: Arch) -> PathBuf {
    workspace.target.join("cub").join(arch.to_string())
}

/// Returns the fingerprint of the library's inputs, except the architecture, which names the folder.
fn inputs(workspace: &Workspace, nvcc: &Nvcc) -> Result<Fingerprint> {
    let mut inputs = Fingerprint::default();
    inputs.add("compiler", &nvcc.name);
    // CUB's headers may change without the compiler.
    inputs.add("headers", cub_version(&nvcc.path).unwrap_or_default());
    inputs.add("flags", [OPTIMIZED, FLAGS].concat());
    inputs.add_folder(&workspace.root.join(SOURCES), SOURCES, Sources::Bytes)?;
    Ok(inputs)
}

struct Job<'a> {
    workspace: &'a Workspace,
    nvcc: &'a Nvcc,
    arch: Arch,
    folder: &'a Path,
}

impl Job<'_> {
    fn run(&self, inputs: &Fingerprint) -> Result<bool> {
        if self.is_current(inputs) {
            return Ok(false);
        }
        fs::create_dir_all(self.folder).with_context(|| self.unwritable())?;
        let _lock = workspace::lock(&self.folder.with_file_name(format!(".{}.lock", self.arch)))?;
        // Another process may have built the library before the lock was taken.
        if self.is_current(inputs) {
            return Ok(false);
        }
        let arch = format!("-arch={}", self.arch);
        let made = self.compile_anew(&[&[arch.as_str()], OPTIMIZED].concat())?;
        // The fingerprint is removed first and written last: an interrupted build is stale.
        let _ = fs::remove_file(self.folder.join(FINGERPRINT));
        let library = self.folder.join(LIBRARY);
        fs::rename(made.path().join(LIBRARY), library).with_context(|| self.unwritable())?;
        let fingerprint = self.with_output(inputs).context("the built library has disappeared")?;
        files::replace(&self.folder.join(FINGERPRINT), fingerprint.to_text())?;
        Ok(true)
    }

    fn is_current(&self, inputs: &Fingerprint) -> bool {
        let kept = fs::read_to_string(self.folder.join(FINGERPRINT)).ok();
        let same = |(now, kept): (Fingerprint, String)| {
            now.difference(&Fingerprint::from_text(&kept)).is_none()
        };
        self.with_output(inputs).zip(kept).is_some_and(same)
    }

    fn with_output(&self, inputs: &Fingerprint) -> Option<Fingerprint> {
        let mut all = inputs.clone();
        all.add("output", fs::read(self.folder.join(LIBRARY)).ok()?);
        Some(all)
    }

    fn unwritable(&self) -> String {
        format!("{} cannot be written", self.folder.display())
    }

    /// Compiles the library in a temporary folder, which is deleted on drop.
    fn compile_anew(&self, flags: &[&str]) -> Result<TempDir> {
        say!("compiling CUB for {} with {}, about two minutes", self.arch, self.nvcc.name);
        fs::create_dir_all(self.folder).with_context(|| self.unwritable())?;
        let scratch = tempfile::Builder::new().prefix(".build-").tempdir_in(self.folder);
        let scratch = scratch.with_context(|| self.unwritable())?;
        self.compile(flags, &scratch.path().join(LIBRARY), scratch.path())?;
        let _ = fs::remove_file(self.folder.join(LOG));
        Ok(scratch)
    }

    fn compile(&self, flags: &[&str], library: &Path, scratch: &Path) -> Result<()> {
        let folder = self.workspace.root.join(SOURCES);
        let unreadable = || format!("{} cannot be read", folder.display());
        let entries = fs::read_dir(&folder).with_context(unreadable)?;
        let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sources.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
        sources.sort();
        let mut command = self.nvcc.command();
        command.args(flags).args(FLAGS).env("TMPDIR", scratch);
        // nvcc does not search the library folder of a toolkit that was installed from packages.
        if let Some(libraries) = libraries(&self.nvcc.path) {
            command.arg("-L").arg(libraries);
        }
        let output = process::run(command.arg("-o").arg(library).args(&sources), LIMIT)?;
        if !output.status.success() {
            let said = format!("{}{}", output.stderr, output.stdout);
            let log = self.folder.join(LOG);
            fs::write(&log, &said).with_context(|| format!("{} cannot be written", log.display()))?;
            let log = self.workspace.show(&log);
            bail!("{SOURCES} does not compile for {}: {} (all in {log})", self.arch, first_error(&said));
        }
        if !library.is_file() {
            bail!("nvcc wrote no library of {SOURCES}");
        }
        Ok(())
    }
}

pub(crate) fn libraries(nvcc: &Path) -> Option<PathBuf> {
    Some(root(nvcc)?.join("lib")).filter(|folder| folder.join("libcudart_static.a").is_file())
}

fn cub_version(nvcc: &Path) -> Option<Vec<u8>> {
    let headers = root(nvcc)?.join("include");
    // CUDA 13 and later have CUB's headers in the folder `cccl`.
    let mut places = ["cccl/cub/version.cuh", "cub/version.cuh"].into_iter();
    places.find_map(|place| fs::read(headers.join(place)).ok())
}

fn root(nvcc: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(nvcc).ok()?.parent()?.parent()?.to_owned())
}

fn first_error(said: &str) -> &str {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.contains("error"))
        .or_else(|| lines().next())
        .unwrap_or("nvcc printed nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_error_line_of_nvcc_is_found() {
        assert_eq!(first_error("note: a\n  x.cu(3): error: b\nerror: c\n"), "x.cu(3): error: b");
        assert_eq!(first_error("\nKilled\n"), "Killed");
        assert_eq!(first_error(""), "nvcc printed nothing");
    }
}
