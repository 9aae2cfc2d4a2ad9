//! `cargo xtask build-twins`: compiles the CUDA C twin of every variant to PTX, for comparison.
//!
//! `cuda/<id>.cu` becomes `target/ptx/cuda-c/<arch>/<id>.ptx`, under the same rules as the kernels' own
//! PTX: checked, replaced atomically, rebuilt only if its inputs have changed. A twin that needs a newer
//! architecture declares it on a separate line `// needs sm_NN`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_build::{Allowance, check, internal::supported};
use warpfold_suite::{Arch, Codegen, say};

use crate::{
    arch::for_this_gpu,
    build_ptx::{
        self,
        fingerprint::Fingerprint,
        output::{Made, Output},
    },
    cub,
    failure::Failure,
    machine::{Machine, version_of},
    parallel, process, suite,
    workspace::Workspace,
};

const CODEGEN: &str = Codegen::CudaC.name();

const HEADER: &str = "common.cuh";

/// The compiler flags besides the architecture. Floats keep IEEE semantics. `explain` needs the line
/// information, which changes no instruction.
const FLAGS: &[&str] = &["-std=c++17", "-O3", "-Werror", "all-warnings", "-lineinfo", "-ptx"];

/// Time limit, far above the compilation of one twin on a slow machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// GPU architecture [default: that of this machine's GPU, else sm_90]
    #[arg(long, value_name = "sm_NN")]
    pub arch: Option<Arch>,
    /// Instead, compile CUB's reductions to a shared library
    #[arg(long)]
    pub cub: bool,
    /// Only check that CUB's reductions compile, by CUDA 13
    #[arg(long, requires = "cub")]
    pub check: bool,
}

#[derive(Debug)]
pub struct Twins {
    pub folder: PathBuf,
    pub arch: Arch,
    /// The compiler and its version in one line.
    pub compiler: String,
    /// One file per twin that this architecture supports.
    pub files: Vec<PathBuf>,
    /// Twins that need a newer architecture, with that architecture.
    pub skipped: Vec<(String, Arch)>,
    /// Twins that this call has compiled.
    pub rebuilt: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    if args.cub {
        return cub::run(args.arch, args.check);
    }
    let workspace = Workspace::locate()?;
    let start = Instant::now();
    let twins = ensure(&workspace, &Machine::this(&workspace), args.arch)?;
    for (id, needed) in &twins.skipped {
        say!("{id} needs {needed}: no file for {}", twins.arch);
    }
    let what = match twins.rebuilt.len() {
        0 => "up to date".to_owned(),
        some => format!("{some} built in {:.1} s", start.elapsed().as_secs_f32()),
    };
    let folder = workspace.show(&twins.folder);
    say!("{folder}: {} files, {what}, {}", twins.files.len(), twins.compiler);
    Ok(())
}

/// Builds the PTX of twins that is not up to date, and returns the location of all twins. The default
/// architecture is that of this machine's GPU, or sm_90 without a GPU.
pub fn ensure(workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Twins> {
    let nvcc = Nvcc::find(machine)?;
    let known = nvcc.archs()?;
    let found = || Some(for_this_gpu(suite::gpu_arch()?, &known));
    let arch = supported(arch.or_else(found).unwrap_or(Arch::SIMULATED), known)?;
    let (sources, skipped): (Vec<Source>, _) =
        sources(&workspace.root.join("cuda"))?.into_iter().partition(|twin| arch.has(twin.needs));

    let output = Output::at(workspace.target.join("ptx").join(CODEGEN).join(arch.to_string()));
    let job = Job { workspace, nvcc: &nvcc, arch, sources: &sources, output: &output };
    let rebuilt = job.run()?;
    Ok(Twins {
        folder: output.folder().to_owned(),
        arch,
        files: output.files(),
        skipped: skipped.into_iter().map(|twin| (twin.id, twin.needs)).collect(),
        rebuilt,
        compiler: nvcc.name,
    })
}

struct Source {
    id: String,
    path: PathBuf,
    text: String,
    needs: Arch,
}

fn sources(folder: &Path) -> Result<Vec<Source>> {
    let unreadable = |path: &Path| format!("{} cannot be read", path.display());
    let mut twins = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| unreadable(folder))? {
        let path = entry.with_context(|| unreadable(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".cu").filter(|id| !id.starts_with('.')) else { continue };
        let text = fs::read_to_string(&path).with_context(|| unreadable(&path))?;
        let needs = needs(&text).with_context(|| path.display().to_string())?;
        twins.push(Source { id: id.to_owned(), path, text, needs });
    }
    ensure!(!twins.is_empty(), "no twins: {} has no <id>.cu", folder.display());
    twins.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(twins)
}

fn needs(source: &str) -> Result<Arch> {
    let named = source.lines().find_map(|line| line.strip_prefix("// needs "));
    named.map_or(Ok(Arch::OLDEST), |name| Ok(name.trim().parse()?))
}

pub(crate) struct Nvcc {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
}

impl Nvcc {
    pub(crate) fn find(machine: &Machine) -> Result<Self> {
        let Some(path) = machine.cuda_program("nvcc") else {
            bail!(
                "no nvcc on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches it"
            );
        };
        let version = version_of(&path)
            .with_context(|| format!("{} does not answer to --version", path.display()))?;
        Ok(Self { path, name: format!("nvcc {version}") })
    }

    /// Returns a command for nvcc that ignores flags from the environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_remove("NVCC_PREPEND_FLAGS").env_remove("NVCC_APPEND_FLAGS");
        command
    }

    pub(crate) fn archs(&self) -> Result<Vec<Arch>> {
        let listed = process::run(self.command().arg("--list-gpu-code"), LIMIT)?.success();
        let listed = listed
            .with_context(|| format!("{} does not list its GPU architectures", self.path.display()))?;
        let plain = listed.lines().map(str::trim).filter(|name| name.starts_with("sm_"));
        // nvcc's list leaves out the architectures with a suffix.
        let all =
            plain.flat_map(|name| ["", "a", "f"].map(|suffix| format!("{name}{suffix}").parse().ok()));
        Ok(all.flatten().collect())
    }
}

struct Job<'a> {
    workspace: &'a Workspace,
    nvcc: &'a Nvcc,
    arch: Arch,
    sources: &'a [Source],
    output: &'a Output,
}

impl Job<'_> {
    fn run(&self) -> Result<Vec<String>> {
        let each: Vec<Fingerprint> = self.sources.iter().map(|twin| self.inputs(twin)).collect();
        let mut all = Fingerprint::default();
        each.iter().for_each(|inputs| all.extend(inputs));
        if self.output.stale(&all).is_none() {
            return Ok(Vec::new());
        }
        let _lock = self.output.lock()?;
        // Another process may have built some twins before the lock was taken.
        let stale = |(twin, inputs): &(&Source, &Fingerprint)| {
            self.output.stale_file(&file_name(&twin.id), inputs).is_some()
        };
        let outdated: Vec<&Source> =
            self.sources.iter().zip(&each).filter(stale).map(|(twin, _)| twin).collect();
        let mut made = self.compile_all(&outdated)?;
        for twin in self.sources {
            let name = file_name(&twin.id);
            if !made.iter().any(|(made, _)| *made == name) {
                made.push((name.clone(), fs::read_to_string(self.output.folder().join(name))?));
            }
        }
        self.output.replace(&made, &all)?;
        Ok(outdated.iter().map(|twin| twin.id.clone()).collect())
    }

    fn inputs(&self, twin: &Source) -> Fingerprint {
        let mut inputs = Fingerprint::default();
        inputs.add("format", build_ptx::FORMAT);
        inputs.add("compiler", &self.nvcc.name);
        inputs.add("flags", FLAGS);
        inputs.add_files(&self.workspace.root.join("cuda"), "cuda", &[HEADER]);
        inputs.add(&format!("cuda/{}.cu", twin.id), &twin.text);
        inputs
    }

    /// Compiles the twins. The error lists all that fail, not only the first.
    fn compile_all(&self, twins: &[&Source]) -> Result<Vec<Made>> {
        if twins.is_empty() {
            return Ok(Vec::new());
        }
        say!("compiling {} twins for {} with {}", twins.len(), self.arch, self.nvcc.name);
        let folder = tempfile::Builder::new().prefix(".twins-").tempdir_in(&self.workspace.target)?;
        let mut results = Vec::new();
        parallel::in_order(
            twins,
            |twin| Ok(self.compile(twin, folder.path())),
            |_, result| results.push(result),
        )?;
        let (made, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let mut lines: Vec<String> =
            failed.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
        lines.sort();
        if lines.is_empty() {
            Ok(made.into_iter().flatten().collect())
        } else {
            Err(Failure::new(lines).into())
        }
    }

    fn compile(&self, twin: &Source, folder: &Path) -> Result<Made> {
        let name = file_name(&twin.id);
        let ptx = folder.join(&name);
        let mut command = self.nvcc.command();
        command.arg(format!("-arch={}", self.arch)).args(FLAGS).arg(&twin.path).arg("-o").arg(&ptx);
        let output = process::run(&mut command, LIMIT)?;
        if !output.status.success() {
            say!("{}{}", output.stdout, output.stderr.trim_end());
            bail!("cuda/{}.cu does not compile for {} (nvcc's messages are above)", twin.id, self.arch);
        }
        let ptx = fs::read_to_string(&ptx)
            .with_context(|| format!("nvcc wrote no PTX of cuda/{}.cu", twin.id))?;
        self.accept(twin, &ptx)?;
        let header = build_ptx::header(&self.nvcc.name, CODEGEN, self.arch, &twin.id);
        Ok((name, format!("{header}{ptx}")))
    }

    /// Checks a twin by the rules for kernels: a comparison with a twin that spills is meaningless.
    fn accept(&self, twin: &Source, ptx: &str) -> Result<()> {
        let source = format!("cuda/{}.cu for {}", twin.id, self.arch);
        let findings = check(&source, ptx, Allowance::default());
        let mut lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        if !ptx.contains(&format!(".entry {}_", twin.id)) {
            lines.push(format!("{source}: no entry {}_<op>_<dtype>", twin.id));
        }
        if lines.is_empty() { Ok(()) } else { Err(Failure::new(lines).into()) }
    }
}

fn file_name(id: &str) -> String {
    format!("{id}.ptx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_arch_is_read_from_a_needs_line() {
        assert_eq!(needs("// The idea\n#include\n").unwrap(), Arch::OLDEST);
        assert_eq!(needs("// The idea\n// needs sm_90\n").unwrap().to_string(), "sm_90");
        assert!(needs("// needs a GPU\n").is_err());
    }

    #[test]
    fn every_twin_opens_with_its_idea_and_source() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda");
        for twin in sources(&folder).unwrap() {
            let comment: Vec<&str> =
                twin.text.lines().take_while(|line| line.starts_with("// ")).collect();
            assert!((3..=7).contains(&comment.len()), "{}: {} lines", twin.id, comment.len());
            assert!(comment.iter().any(|line| line.starts_with("// Source: ")), "{}", twin.id);
            assert!(twin.text.contains("#include \"common.cuh\""), "{}", twin.id);
        }
    }
}
