//! What the commands need built: the kernels, their CUDA C twins and CUB. Who calls them knows how.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use warpfold_suite::{Arch, Codegen, PtxStore, say};

use crate::{machine::Machine, workspace::Workspace};

/// File name of the library of CUB's reductions.
pub const CUB_LIBRARY: &str = "libwarpfold_cub.so";

/// Names a library of CUB's reductions to take as it is, for a machine without a compiler.
pub const CUB: &str = "WARPFOLD_CUB";

/// Builds from the sources as they are, where what was built before is stale.
pub trait Builder: Sync {
    /// PTX of kernels. Without an architecture, for this machine's GPU.
    ///
    /// # Errors
    /// A code generator or architecture that cannot be had, a missing tool, kernels that do not compile,
    /// and PTX that is not accepted. Where all that the code generator lacks is on this machine, the
    /// error is a [`Failure`](crate::failure::Failure) whose lines all begin with `codegen nvvm needs`.
    fn kernels(
        &self,
        workspace: &Workspace,
        machine: &Machine,
        codegen: Choice,
        arch: Option<Arch>,
        kernels: Kernels,
    ) -> Result<Ptx>;

    /// PTX of the CUDA C twins. Without an architecture, for this machine's GPU.
    ///
    /// # Errors
    /// No nvcc, an architecture that it cannot compile for, a twin that does not compile, and PTX that
    /// is not accepted.
    fn twins(&self, workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Ptx>;

    /// The shared library of CUB's reductions, for this machine's GPU.
    ///
    /// # Errors
    /// No nvcc, an architecture that it cannot compile for, sources that do not compile.
    fn cub(&self, workspace: &Workspace, machine: &Machine) -> Result<PathBuf>;
}

/// Which kernels; all of them take ten times as long to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The variants of the catalogue, and what tests the suite. The rest may be there, and stale.
    Suite,
    /// Those of the library's other operations and shapes too.
    All,
}

/// PTX that is there now.
#[derive(Debug, Clone)]
pub struct Ptx {
    /// The folder that holds it, `ptx/<codegen>/<arch>` below another.
    pub folder: PathBuf,
    /// The code generator that made it.
    pub codegen: Codegen,
    /// What it is for.
    pub arch: Arch,
}

impl Ptx {
    /// It, to load from.
    ///
    /// # Errors
    /// None but those of a folder that has vanished since.
    pub fn store(&self) -> Result<PtxStore> {
        let root = self.folder.ancestors().nth(2).context("ptx/<codegen>/<arch> has two parents")?;
        Ok(PtxStore::at(root, Some(self.codegen))?.only(self.arch))
    }
}

/// The option that says what compiles the kernels, the same in every command.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct CodegenArg {
    /// What compiles the kernels [default: WARPFOLD_CODEGEN, else llvm]
    #[arg(long, value_enum)]
    pub codegen: Option<Choice>,
}

impl CodegenArg {
    /// The code generator to take, said with its reason in a line on standard error.
    ///
    /// # Errors
    /// `WARPFOLD_CODEGEN` names none.
    pub fn choose(self) -> Result<Choice> {
        let (codegen, why) = warpfold_suite::cli::codegen(self.codegen.map(Codegen::from))?;
        say!("codegen {codegen}: {why}");
        Choice::of(codegen)
    }
}

/// What compiles the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// rustc's own NVPTX target.
    Llvm,
    /// The code generator of rust-cuda, rustc_codegen_nvvm.
    Nvvm,
}

impl Choice {
    /// The one that compiles kernels where nobody names one.
    ///
    /// # Errors
    /// `WARPFOLD_CODEGEN` names none.
    pub fn by_default() -> Result<Self> {
        Self::of(warpfold_suite::default_codegen()?)
    }

    /// That of a code generator.
    ///
    /// # Errors
    /// It compiles no kernels.
    pub fn of(codegen: Codegen) -> Result<Self> {
        match codegen {
            Codegen::Llvm => Ok(Self::Llvm),
            Codegen::Nvvm => Ok(Self::Nvvm),
            Codegen::CudaC => bail!("codegen cuda-c compiles no kernels, only their twins"),
        }
    }
}

impl From<Choice> for Codegen {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Llvm => Self::Llvm,
            Choice::Nvvm => Self::Nvvm,
        }
    }
}
