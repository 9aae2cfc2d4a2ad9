//! `cargo xtask build-ptx`: kernels/ to one checked PTX file per variant.
//!
//! Compile, split, check, write. Files are accepted together or not at all: a rejection leaves what
//! was accepted before. An up-to-date call does nothing.

pub mod check;
mod divergence;
pub(crate) mod fingerprint;
pub(crate) mod flags;
mod llvm;
mod needs;
mod nvvm;
pub(crate) mod output;
pub mod split;

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use warpfold::Codegen;

use crate::{
    arch::Arch,
    doctor::{self, Check, Machine},
    failure::Failure,
    rust_src,
    toolchain::Toolchain,
    workspace::Workspace,
};
use check::Allowance;
use fingerprint::Fingerprint;
use output::{Made, Output};
use split::Part;

/// Goes into the fingerprint: raised when this tool writes something else from the same input.
pub(crate) const FORMAT: u32 = 2;

/// The compiler's name for NVIDIA GPUs.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What compiles the kernels; auto takes the best that this machine has
    #[arg(long, value_enum, default_value_t)]
    pub codegen: Choice,
    /// GPU architecture [default: that of this machine's GPU, else sm_90]
    #[arg(long, value_name = "sm_NN")]
    pub arch: Option<Arch>,
    /// Show all that the compiler says
    #[arg(long)]
    pub verbose: bool,
}

/// A code generator as the user asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Choice {
    /// The best one that this machine has all of.
    #[default]
    Auto,
    /// rustc's own NVPTX target.
    Llvm,
    /// rust-cuda's rustc_codegen_nvvm.
    Nvvm,
}

/// What compiles the kernels, once chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generator {
    Llvm,
    Nvvm,
}

impl From<Generator> for Codegen {
    fn from(generator: Generator) -> Self {
        match generator {
            Generator::Llvm => Self::Llvm,
            Generator::Nvvm => Self::Nvvm,
        }
    }
}

/// What the build must know of a variant.
#[derive(Debug, Clone)]
pub struct Variant {
    /// Its id: the prefix of its entries and the name of its file.
    pub id: String,
    /// Bytes of local memory per thread that it may have.
    pub local_bytes: u64,
    /// Whether barriers may be where not all threads come to them.
    pub divergent_barriers: bool,
    /// The oldest architecture that has what it needs; for an older one it has no file.
    pub min_arch: Arch,
    /// Blocks of the clusters that it runs in; 1 without clusters.
    pub cluster: u32,
}

impl From<&str> for Variant {
    fn from(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            local_bytes: 0,
            divergent_barriers: false,
            min_arch: Arch::OLDEST,
            cluster: 1,
        }
    }
}

/// What to build.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The code generator.
    pub codegen: Choice,
    /// The architecture, if the user named one.
    pub arch: Option<Arch>,
    /// Architecture of this machine's GPU, asked only if the user named none.
    pub detect_arch: &'a dyn Fn() -> Option<Arch>,
    /// Every variant of the catalogue.
    pub variants: &'a [Variant],
    /// Where the pieces that a code generator needs are looked for.
    pub machine: &'a Machine,
    /// Whether to show all that the compiler says.
    pub verbose: bool,
}

/// PTX that is there now.
#[derive(Debug)]
pub struct Built {
    /// The folder that holds it.
    pub folder: PathBuf,
    /// What made it.
    pub codegen: Codegen,
    /// Why that code generator was taken.
    pub reason: String,
    /// What it is for.
    pub arch: Arch,
    /// One file per variant.
    pub files: Vec<PathBuf>,
    /// Why it was built just now; none if it was up to date.
    pub rebuilt: Option<String>,
}

/// The command.
///
/// # Errors
/// See [`ensure`].
pub fn run(args: &Args, variants: &[Variant], detect_arch: &dyn Fn() -> Option<Arch>) -> Result<()> {
    let workspace = Workspace::locate()?;
    let Args { codegen, arch, verbose } = *args;
    let start = Instant::now();
    let machine = &Machine::this(&workspace);
    let request = Request { codegen, arch, detect_arch, variants, machine, verbose };
    let built = ensure(&workspace, &request)?;
    eprintln!("codegen {}: {}", built.codegen, built.reason);
    let what = match built.rebuilt {
        None => "up to date".to_owned(),
        Some(_) => format!("built in {:.1} s", start.elapsed().as_secs_f32()),
    };
    eprintln!("{}: {} files, {what}", workspace.show(&built.folder), built.files.len());
    Ok(())
}

/// Makes sure that PTX of the kernels as they are now is there, and says where.
///
/// Progress goes to standard error; nothing is said when all is up to date.
///
/// # Errors
/// A code generator or architecture that cannot be had, a missing tool, kernels that do not compile,
/// and PTX that is not accepted.
pub fn ensure(workspace: &Workspace, request: &Request<'_>) -> Result<Built> {
    let (generator, reason) = choose(workspace, request)?;
    let codegen = Codegen::from(generator);
    let pinned = Toolchain::pinned(workspace)?;
    let arch = arch(&pinned, request)?;
    let toolchain = match generator {
        Generator::Llvm => pinned,
        Generator::Nvvm => Toolchain::named(workspace, doctor::nvvm::NIGHTLY)?,
    };
    let folder = workspace.target.join("ptx").join(codegen.to_string()).join(arch.to_string());
    let output = Output::at(folder);
    let job = Job { workspace, toolchain: &toolchain, generator, arch, request };
    let inputs = job.inputs()?;

    let mut rebuilt = None;
    if output.stale(&inputs).is_some() {
        let _lock = output.lock()?;
        // Another process may have built it meanwhile.
        rebuilt = output.stale(&inputs);
        if let Some(why) = &rebuilt {
            eprintln!("compiling kernels for {arch} with {codegen}: {why}");
            output.replace(&job.build()?, &inputs)?;
        }
    }
    let files = output.files();
    Ok(Built { folder: output.folder().to_owned(), codegen, reason, arch, files, rebuilt })
}

/// The code generator for a choice, and why.
fn choose(workspace: &Workspace, request: &Request<'_>) -> Result<(Generator, String)> {
    if request.codegen == Choice::Llvm {
        return Ok((Generator::Llvm, "asked for".to_owned()));
    }
    let lacks = nvvm_lacks(workspace, request.machine);
    if request.codegen == Choice::Nvvm {
        if lacks.is_empty() {
            return Ok((Generator::Nvvm, "asked for".to_owned()));
        }
        let lines = lacks.iter().filter_map(Check::complaint);
        return Err(Failure::new(lines.map(|line| format!("codegen nvvm needs {line}"))).into());
    }
    if lacks.is_empty() {
        return Ok((Generator::Nvvm, "auto, and all that nvvm needs is here".to_owned()));
    }
    let names: Vec<&str> = lacks.iter().take(3).map(|check| check.name.as_str()).collect();
    let more = match lacks.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more, see cargo xtask doctor"),
    };
    Ok((Generator::Llvm, format!("auto, nvvm lacks {}{more}", names.join(", "))))
}

/// The architecture to build for.
fn arch(toolchain: &Toolchain, request: &Request<'_>) -> Result<Arch> {
    let known = toolchain.gpu_archs()?;
    let found = || Some((request.detect_arch)()?.for_this_gpu(&known));
    request.arch.or_else(found).unwrap_or(Arch::SIMULATED).supported_by(&known)
}

/// What keeps the `nvvm` code generator from being taken.
fn nvvm_lacks(workspace: &Workspace, machine: &Machine) -> Vec<Check> {
    let mut lacks = doctor::nvvm::checks(machine);
    lacks.retain(|check| !check.is_found());
    if !workspace.nvvm().join("Cargo.toml").is_file() {
        let why = "this source tree has no nvvm/";
        lacks.push(Check::missing("nvvm builder", "codegen nvvm", why, "use --codegen llvm"));
    }
    lacks
}

/// One build.
struct Job<'a> {
    workspace: &'a Workspace,
    toolchain: &'a Toolchain,
    generator: Generator,
    arch: Arch,
    request: &'a Request<'a>,
}

impl Job<'_> {
    /// Everything that the PTX depends on.
    fn inputs(&self) -> Result<Fingerprint> {
        let mut inputs = Fingerprint::default();
        inputs.add("format", FORMAT);
        inputs.add("compiler", &self.toolchain.version);
        inputs.add("codegen", Codegen::from(self.generator).name());
        for variant in self.request.variants {
            let allowed = (variant.local_bytes, variant.divergent_barriers);
            let settings = (allowed, variant.min_arch, variant.cluster);
            inputs.add(&format!("variant {}", variant.id), settings);
        }
        for name in self.workspace.device_crates() {
            let folder = self.workspace.root.join(name);
            inputs.add_folder(&folder.join("src"), &format!("{name}/src"))?;
            inputs.add_files(&folder, name, &["Cargo.toml"]);
        }
        match self.generator {
            Generator::Llvm => {
                inputs.add("flags", llvm::code_flags(self.arch));
                inputs.add_files(&self.workspace.kernels(), "kernels", &["Cargo.lock"]);
            }
            Generator::Nvvm => {
                inputs.add("flags", flags::of_both(self.arch));
                inputs.add("environment", doctor::nvvm::environment(self.request.machine));
                inputs.add_files(&self.workspace.nvvm(), "nvvm", nvvm::SOURCES);
            }
        }
        Ok(inputs)
    }

    /// The PTX of all kernels in one text.
    fn compile(&self) -> Result<String> {
        let Self { workspace, toolchain, arch, request: &Request { machine, verbose, .. }, .. } = *self;
        match self.generator {
            Generator::Llvm => {
                if let Some(note) = toolchain.overridden() {
                    eprintln!("note: {note}");
                }
                rust_src::ensure(toolchain)?;
                llvm::Compile { workspace, toolchain, arch, verbose }.run()
            }
            Generator::Nvvm => nvvm::Compile { workspace, toolchain, machine, arch, verbose }.run(),
        }
    }

    /// Compiles, splits and checks.
    fn build(&self) -> Result<Vec<Made>> {
        let ptx = self.compile()?;
        let ids: Vec<&str> = self.request.variants.iter().map(|variant| variant.id.as_str()).collect();
        let parts = split::split(&ptx, &ids)?;
        let wanted = self.wanted(parts)?;
        let made: Vec<Made> =
            wanted.iter().map(|part| (format!("{}.ptx", part.variant), self.file(part))).collect();
        self.accept(&made)?;
        Ok(made)
    }

    /// The parts that this architecture has, all of them.
    fn wanted<'p>(&self, parts: Vec<Part<'p>>) -> Result<Vec<Part<'p>>> {
        let mut missing = Vec::new();
        let mut too_new = Vec::new();
        for variant in self.request.variants {
            if !self.arch.has(variant.min_arch) {
                eprintln!("{} needs {}: no file for {}", variant.id, variant.min_arch, self.arch);
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

    /// A part with the lines that say where it comes from.
    fn file(&self, part: &Part<'_>) -> String {
        let compiler = match self.generator {
            Generator::Llvm => self.toolchain.describe(),
            Generator::Nvvm => nvvm::describe(self.workspace, self.toolchain),
        };
        let header = header(&compiler, Codegen::from(self.generator), self.arch, part.variant);
        let ptx = match self.generator {
            Generator::Llvm => part.ptx.clone(),
            Generator::Nvvm => split::with_dynamic_shared(&part.ptx),
        };
        let variant = self.request.variants.iter().find(|variant| variant.id == part.variant);
        match variant.map_or(1, |variant| variant.cluster) {
            1 => header + &ptx,
            blocks => header + &split::in_clusters(&ptx, blocks),
        }
    }

    /// Checks every file. Rejected ones are kept aside, so that the findings' line numbers can be
    /// looked up.
    fn accept(&self, made: &[Made]) -> Result<()> {
        let aside = self.workspace.target.join("kernels").join(self.arch.to_string()).join("rejected");
        let _ = fs::remove_dir_all(&aside);
        let mut findings = Vec::new();
        for (name, content) in made {
            let shown = self.workspace.show(&aside.join(name));
            let found = check::check(&shown, content, self.allowance(name));
            if !found.is_empty() {
                keep(&aside, name, content)?;
            }
            findings.extend(found.iter().map(ToString::to_string));
        }
        if findings.is_empty() { Ok(()) } else { Err(Failure::new(findings).into()) }
    }

    fn allowance(&self, file: &str) -> Allowance {
        let variant =
            self.request.variants.iter().find(|variant| file.strip_suffix(".ptx") == Some(&variant.id));
        variant.map_or_else(Allowance::default, |variant| Allowance {
            local_bytes: variant.local_bytes,
            divergent_barriers: variant.divergent_barriers,
        })
    }
}

/// The first lines of every PTX file of the suite: what made it, and for what.
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
