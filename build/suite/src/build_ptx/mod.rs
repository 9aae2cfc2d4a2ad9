//! `cargo xtask build-ptx`: compiles kernels/ to one checked PTX file per variant.
//!
//! The steps are compile, split, check and write. The files of a compilation are accepted all together
//! or not at all: after a rejection the previously accepted ones remain. If the PTX is up to date,
//! nothing is done.

pub(crate) mod fingerprint;
mod llvm;
mod nvvm;
pub(crate) mod output;

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use rayon::prelude::*;
use warpfold_build::{
    Allowance, check,
    internal::{Part, code_flags, common_flags, in_clusters, split, supported, with_dynamic_shared},
};
use warpfold_suite::{Arch, Codegen, say};

pub use crate::builder::{Choice, CodegenArg, Kernels};

use crate::{
    arch::for_this_gpu,
    failure::Failure,
    machine::{Check, Machine},
    rust_cuda, rust_src,
    toolchain::Toolchain,
    workspace::Workspace,
};
use fingerprint::{Fingerprint, Sources};
use output::{Made, Output};

/// Format version in the fingerprint, to be incremented when this tool writes other output for the same
/// input.
pub(crate) const FORMAT: u32 = 2;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// GPU architecture [default: that of this machine's GPU, else sm_90]
    #[arg(long, value_name = "sm_NN")]
    pub arch: Option<Arch>,
    /// Also compile the kernels that only the library uses, for all its operations and shapes
    #[arg(long)]
    pub library: bool,
    /// Show all compiler output
    #[arg(long)]
    pub verbose: bool,
}

/// A feature of the kernels' crate, which selects the kernels to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The catalogue's variants and the suite's own test kernels.
    Suite,
    /// The kernels that only the library uses, except those of [`Matrices`](Self::Matrices).
    Library,
    /// The library's kernels for rows and other axes.
    Matrices,
}

impl Feature {
    const ALL: &[Self] = &[Self::Suite, Self::Library, Self::Matrices];

    const fn name(self) -> &'static str {
        match self {
            Self::Suite => "suite",
            Self::Library => "library",
            Self::Matrices => "matrices",
        }
    }
}

/// The properties of a variant that the build uses.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The variant's id: the prefix of its entries and the stem of its file name.
    pub id: String,
    /// The maximum local memory per thread, in bytes.
    pub local_bytes: u64,
    /// True if barriers that not all threads of a block reach are accepted.
    pub divergent_barriers: bool,
    /// The oldest architecture that supports the variant, which is not built for older ones.
    pub min_arch: Arch,
    /// Blocks per cluster; 1 without clusters.
    pub cluster: u32,
    pub feature: Feature,
}

impl From<&str> for Variant {
    fn from(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            local_bytes: 0,
            divergent_barriers: false,
            min_arch: Arch::OLDEST,
            cluster: 1,
            feature: Feature::Suite,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub codegen: Choice,
    pub arch: Option<Arch>,
    /// Detects the architecture of this machine's GPU; called only if `arch` is `None`.
    pub detect_arch: &'a (dyn Fn() -> Option<Arch> + Sync),
    pub variants: &'a [Variant],
    pub kernels: Kernels,
    /// The machine on which the code generator's tools are searched for.
    pub machine: &'a Machine,
    pub verbose: bool,
}

/// The PTX of a finished build.
#[derive(Debug)]
pub struct Built {
    pub folder: PathBuf,
    pub codegen: Codegen,
    pub arch: Arch,
    /// One file per variant.
    pub files: Vec<PathBuf>,
    /// The reason for a rebuild; `None` if the files were up to date.
    pub rebuilt: Option<String>,
}

pub fn run(
    args: &Args,
    variants: &[Variant],
    detect_arch: &(dyn Fn() -> Option<Arch> + Sync),
) -> Result<()> {
    let workspace = Workspace::locate()?;
    let &Args { codegen, arch, library, verbose } = args;
    let codegen = codegen.choose()?;
    let start = Instant::now();
    let machine = &Machine::this(&workspace);
    let wanted = if library { Kernels::All } else { Kernels::Suite };
    let request = Request { codegen, arch, detect_arch, variants, kernels: wanted, machine, verbose };
    let built = ensure(&workspace, &request)?;
    let what = match built.rebuilt {
        None => "up to date".to_owned(),
        Some(_) => format!("built in {:.1} s", start.elapsed().as_secs_f32()),
    };
    say!("{}: {} files, {what}", workspace.show(&built.folder), built.files.len());
    Ok(())
}

/// Builds the PTX of the kernels if it is not up to date, and returns its location.
///
/// Progress goes to standard error; nothing is printed if all is up to date.
pub fn ensure(workspace: &Workspace, request: &Request<'_>) -> Result<Built> {
    let codegen = Codegen::from(request.codegen);
    let (toolchain, arch) = toolchain(workspace, request)?;
    let folder = workspace.target.join("ptx").join(codegen.to_string()).join(arch.to_string());
    let job = |&features: &&'static [Feature]| {
        let job = Job { workspace, toolchain: &toolchain, arch, request, features };
        job.ensure(&job.output(&folder))
    };
    // In parallel, because the compiler uses one thread for each crate of kernels.
    let made = compilations(request).par_iter().map(job).collect::<Result<Vec<_>>>()?;
    let (files, rebuilt): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    let (mut files, rebuilt) = (files.concat(), rebuilt.into_iter().flatten().next());
    files.sort();
    Ok(Built { folder, codegen, arch, files, rebuilt })
}

/// Returns the features of each compilation. `nvvm` compiles all features at once, because rust-cuda's
/// builder compiles every crate again each time.
const fn compilations(request: &Request<'_>) -> &'static [&'static [Feature]] {
    match (request.codegen, request.kernels) {
        (Choice::Nvvm, _) => &[Feature::ALL],
        (Choice::Llvm, Kernels::Suite) => &[&[Feature::Suite]],
        (Choice::Llvm, Kernels::All) => &[&[Feature::Suite], &[Feature::Library], &[Feature::Matrices]],
    }
}

/// Returns the fingerprint of everything that determines the kernels' machine code. Comments and line
/// numbers are excluded.
pub(crate) fn inputs(workspace: &Workspace, request: &Request<'_>) -> Result<Fingerprint> {
    let (toolchain, arch) = toolchain(workspace, request)?;
    let features = Feature::ALL;
    Job { workspace, toolchain: &toolchain, arch, request, features }.inputs(Sources::Code)
}

fn arch(toolchain: &Toolchain, request: &Request<'_>) -> Result<Arch> {
    let known = toolchain.gpu_archs()?;
    let found = || Some(for_this_gpu((request.detect_arch)()?, &known));
    Ok(supported(request.arch.or_else(found).unwrap_or(Arch::SIMULATED), known)?)
}

fn toolchain(workspace: &Workspace, request: &Request<'_>) -> Result<(Toolchain, Arch)> {
    if request.codegen == Choice::Nvvm {
        require_nvvm(workspace, request.machine)?;
    }
    let pinned = Toolchain::pinned(workspace)?;
    let arch = arch(&pinned, request)?;
    let toolchain = match request.codegen {
        Choice::Llvm => pinned,
        Choice::Nvvm => Toolchain::named(workspace, rust_cuda::NIGHTLY)?,
    };
    Ok((toolchain, arch))
}

fn require_nvvm(workspace: &Workspace, machine: &Machine) -> Result<()> {
    let mut lacks = rust_cuda::checks(machine);
    lacks.retain(|check| !check.is_found());
    if !workspace.nvvm().join("Cargo.toml").is_file() {
        let why = "this source tree has no nvvm/";
        lacks.push(Check::missing("nvvm builder", "codegen nvvm", why, "use --codegen llvm"));
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let lines = lacks.iter().filter_map(Check::complaint);
    Err(Failure::new(lines.map(|line| format!("codegen nvvm needs {line}"))).into())
}

struct Job<'a> {
    workspace: &'a Workspace,
    toolchain: &'a Toolchain,
    arch: Arch,
    request: &'a Request<'a>,
    features: &'a [Feature],
}

impl Job<'_> {
    fn describe(&self) -> &'static str {
        match self.features {
            [Feature::Library] => "the library's kernels",
            [Feature::Matrices] => "the library's kernels for matrices",
            _ => "kernels",
        }
    }

    /// Builds the files unless they are up to date. Returns them and the reason for the build.
    fn ensure(&self, output: &Output) -> Result<(Vec<PathBuf>, Option<String>)> {
        let (arch, codegen) = (self.arch, Codegen::from(self.request.codegen));
        let inputs = self.inputs(Sources::Bytes)?;
        let mut rebuilt = None;
        if output.stale(&inputs).is_some() {
            let _lock = output.lock()?;
            // Another process may have built the files before the lock was taken.
            rebuilt = output.stale(&inputs);
            if let Some(why) = &rebuilt {
                say!("compiling {} for {arch} with {codegen}: {why}", self.describe());
                output.replace(&self.build()?, &inputs)?;
            }
        }
        Ok((output.files(), rebuilt))
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.request.variants.iter().filter(|variant| self.features.contains(&variant.feature))
    }

    /// Returns this compilation's part of the output folder, which compilations share. Files that belong
    /// to no variant count as the suite's, so that a rebuild of the suite removes them.
    fn output(&self, folder: &Path) -> Output {
        let others =
            || self.request.variants.iter().filter(|variant| !self.features.contains(&variant.feature));
        match self.features {
            [Feature::Suite] => Output::without(folder, others().map(file_name).collect()),
            [feature] => Output::of(folder, feature.name(), self.variants().map(file_name).collect()),
            _ => Output::at(folder.to_owned()),
        }
    }

    fn scratch(&self) -> PathBuf {
        let folder = self.workspace.target.join("kernels").join(self.arch.to_string());
        match self.features {
            [feature] => folder.join(feature.name()),
            _ => folder,
        }
    }

    fn inputs(&self, sources: Sources) -> Result<Fingerprint> {
        let mut inputs = Fingerprint::default();
        inputs.add("format", FORMAT);
        inputs.add("compiler", &self.toolchain.version);
        inputs.add("codegen", Codegen::from(self.request.codegen).name());
        let settings = |variant: &Variant| {
            let allowed = (variant.local_bytes, variant.divergent_barriers);
            (allowed, variant.min_arch, variant.cluster)
        };
        let (of_suite, of_library): (Vec<_>, Vec<_>) =
            self.variants().partition(|variant| variant.feature == Feature::Suite);
        for variant in of_suite {
            inputs.add(&format!("variant {}", variant.id), settings(variant));
        }
        // The library's thousand variants are one input, sorted by name.
        let of_library: BTreeMap<_, _> =
            of_library.into_iter().map(|variant| (&variant.id, settings(variant))).collect();
        inputs.add("the library's variants", of_library);
        for name in self.workspace.device_crates() {
            let folder = self.workspace.root.join(name);
            inputs.add_folder(&folder.join("src"), &format!("{name}/src"), sources)?;
            inputs.add_files(&folder, name, &["Cargo.toml"]);
        }
        match self.request.codegen {
            Choice::Llvm => {
                inputs.add(&format!("flags for {}", self.arch), code_flags(self.arch));
                for &feature in self.features {
                    let flags = llvm::flags_of(feature);
                    inputs.add(&format!("flags for {}", feature.name()), flags);
                }
                inputs.add_files(&self.workspace.kernels(), "kernels", &["Cargo.lock"]);
            }
            Choice::Nvvm => {
                inputs.add("flags", common_flags(self.arch));
                inputs.add("environment", rust_cuda::environment(self.request.machine));
                inputs.add_files(&self.workspace.nvvm(), "nvvm", nvvm::SOURCES);
            }
        }
        Ok(inputs)
    }

    fn compile(&self) -> Result<String> {
        let Self { workspace, toolchain, arch, request: &Request { machine, verbose, .. }, .. } = *self;
        if self.request.codegen == Choice::Nvvm {
            let folder = workspace.target.join(format!("kernels/nvvm/{arch}"));
            return nvvm::Compile { workspace, toolchain, machine, arch, verbose, folder }.run();
        }
        if let Some(note) = toolchain.overridden() {
            say!("note: {note}");
        }
        rust_src::ensure(toolchain)?;
        let (feature, folder) = (self.features[0], self.scratch());
        llvm::Compile { workspace, toolchain, arch, verbose, feature, folder }.run()
    }

    fn build(&self) -> Result<Vec<Made>> {
        let ptx = self.compile()?;
        let ids: Vec<&str> = self.variants().map(|variant| variant.id.as_str()).collect();
        let parts = split(&ptx, &ids).map_err(Failure::new)?;
        let wanted = self.wanted(parts)?;
        let compiler = self.compiler();
        let made: Vec<Made> =
            wanted.iter().map(|part| (ptx_name(part.variant), self.file(part, &compiler))).collect();
        self.accept(&made)?;
        Ok(made)
    }

    /// Returns the parts of all variants that this architecture supports, or an error if one is missing.
    fn wanted<'p>(&self, parts: Vec<Part<'p>>) -> Result<Vec<Part<'p>>> {
        let mut missing = Vec::new();
        let mut too_new = Vec::new();
        for variant in self.variants() {
            if !self.arch.has(variant.min_arch) {
                say!("{} needs {}: no file for {}", variant.id, variant.min_arch, self.arch);
                too_new.push(variant.id.as_str());
            } else if !parts.iter().any(|part| part.variant == variant.id) {
                missing.push(format!(
                    "variant {0} has no entry: kernels/ must declare {0}_<op>_<dtype>",
                    variant.id
                ));
            }
        }
        if !missing.is_empty() {
            return Err(Failure::new(missing).into());
        }
        Ok(parts.into_iter().filter(|part| !too_new.contains(&part.variant)).collect())
    }

    fn compiler(&self) -> String {
        match self.request.codegen {
            Choice::Llvm => self.toolchain.describe(),
            Choice::Nvvm => nvvm::describe(self.workspace, self.toolchain),
        }
    }

    fn file(&self, part: &Part<'_>, compiler: &str) -> String {
        let header = header(compiler, Codegen::from(self.request.codegen), self.arch, part.variant);
        let ptx = match self.request.codegen {
            Choice::Llvm => header + &part.ptx,
            Choice::Nvvm => header + &with_dynamic_shared(&part.ptx),
        };
        let variant = self.variants().find(|variant| variant.id == part.variant);
        match variant.map_or(1, |variant| variant.cluster) {
            1 => ptx,
            blocks => in_clusters(&ptx, blocks),
        }
    }

    /// Checks every file. Rejected files are written to a separate folder, so that the line numbers of
    /// the findings can be looked up.
    fn accept(&self, made: &[Made]) -> Result<()> {
        let aside = self.scratch().join("rejected");
        let _ = fs::remove_dir_all(&aside);
        let known: Vec<_> = made
            .iter()
            .map(|(name, _)| (self.workspace.show(&aside.join(name)), self.allowance(name)))
            .collect();
        // In parallel, because the files have hundreds of megabytes.
        let found: Vec<_> = (made.par_iter().zip(known))
            .map(|((_, content), (shown, allowance))| check(&shown, content, allowance))
            .collect();
        let mut findings = Vec::new();
        for ((name, content), found) in made.iter().zip(found) {
            if !found.is_empty() {
                keep(&aside, name, content)?;
            }
            findings.extend(found.iter().map(ToString::to_string));
        }
        if findings.is_empty() { Ok(()) } else { Err(Failure::new(findings).into()) }
    }

    fn allowance(&self, file: &str) -> Allowance {
        let variant = self.variants().find(|variant| file.strip_suffix(".ptx") == Some(&variant.id));
        variant.map_or_else(Allowance::default, |variant| Allowance {
            local_bytes: variant.local_bytes,
            divergent_barriers: variant.divergent_barriers,
        })
    }
}

fn file_name(variant: &Variant) -> String {
    ptx_name(&variant.id)
}

fn ptx_name(id: &str) -> String {
    format!("{id}.ptx")
}

/// Returns the header of every PTX file of the suite: its compiler, code generator, architecture and
/// variant.
pub(crate) fn header(compiler: &str, codegen: impl Display, arch: Arch, variant: &str) -> String {
    format!(
        "// warpfold ptx {FORMAT}\n// compiler: {compiler}\n// codegen: {codegen}\n// arch: {arch}\n// variant: {variant}\n"
    )
}

fn keep(folder: &Path, name: &str, content: &str) -> Result<()> {
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(folder.join(name), content))
        .with_context(|| format!("{} cannot be written", folder.display()))
}
