//! Interface to the builds that commands need: the kernels, their CUDA C twins and CUB. Callers
//! implement it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use warpfold_suite::{Arch, Codegen, PtxStore, say};

use crate::{machine::Machine, workspace::Workspace};

/// File name of the library of CUB's reductions.
pub const CUB_LIBRARY: &str = "libwarpfold_cub.so";

/// Environment variable with the path of a prebuilt CUB library, for machines without a compiler.
pub const CUB: &str = "WARPFOLD_CUB";

/// Builds from the current sources, where an earlier build is stale.
pub trait Builder: Sync {
    /// Returns the kernels' PTX, by default for this machine's GPU.
    ///
    /// # Errors
    /// An unavailable code generator or architecture, a missing tool, kernels that do not compile, or
    /// PTX that is not accepted. If everything that the code generator lacks is on this machine, the
    /// error is a [`Failure`](crate::failure::Failure) whose lines all begin with `codegen nvvm needs`.
    fn kernels(
        &self,
        workspace: &Workspace,
        machine: &Machine,
        codegen: Choice,
        arch: Option<Arch>,
        kernels: Kernels,
    ) -> Result<Ptx>;

    /// Returns the PTX of the CUDA C twins, by default for this machine's GPU.
    ///
    /// # Errors
    /// No nvcc, an architecture that it cannot compile for, a twin that does not compile, or PTX that is
    /// not accepted.
    fn twins(&self, workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Ptx>;

    /// Returns the shared library of CUB's reductions, for this machine's GPU.
    ///
    /// # Errors
    /// No nvcc, an architecture that it cannot compile for, sources that do not compile.
    fn cub(&self, workspace: &Workspace, machine: &Machine) -> Result<PathBuf>;
}

/// The set of kernels to build; compiling all takes ten times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The catalogue's variants and the kernels that test the suite. Other files may exist and be stale.
    Suite,
    /// Also the kernels of the library's other operations and shapes.
    All,
}

/// A folder of built PTX.
#[derive(Debug, Clone)]
pub struct Ptx {
    /// The folder, `ptx/<codegen>/<arch>` below another.
    pub folder: PathBuf,
    /// The code generator that made it.
    pub codegen: Codegen,
    /// The target architecture.
    pub arch: Arch,
}

impl Ptx {
    /// Opens a store on this folder, restricted to its code generator and architecture.
    ///
    /// # Errors
    /// The folder no longer exists.
    pub fn store(&self) -> Result<PtxStore> {
        let root = self.folder.ancestors().nth(2).context("ptx/<codegen>/<arch> has two parents")?;
        Ok(PtxStore::at(root, Some(self.codegen))?.only(self.arch))
    }
}

/// The option that selects the code generator, the same in every command.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct CodegenArg {
    /// Code generator of the kernels [default: WARPFOLD_CODEGEN, else llvm]
    #[arg(long, value_enum)]
    pub codegen: Option<Choice>,
}

impl CodegenArg {
    /// Returns the code generator to use, and prints it with the reason to standard error.
    ///
    /// # Errors
    /// `WARPFOLD_CODEGEN` names no code generator.
    pub fn choose(self) -> Result<Choice> {
        let (codegen, why) = warpfold_suite::cli::codegen(self.codegen.map(Codegen::from))?;
        say!("codegen {codegen}: {why}");
        Choice::of(codegen)
    }
}

/// A code generator of the Rust kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// rustc's own NVPTX target.
    Llvm,
    /// rust-cuda's code generator, rustc_codegen_nvvm.
    Nvvm,
}

impl Choice {
    /// Returns the default choice, which `WARPFOLD_CODEGEN` overrides.
    ///
    /// # Errors
    /// `WARPFOLD_CODEGEN` names no code generator.
    pub fn by_default() -> Result<Self> {
        Self::of(warpfold_suite::default_codegen()?)
    }

    /// Converts a code generator.
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
