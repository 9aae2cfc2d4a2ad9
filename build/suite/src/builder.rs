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

/// Builds from the current sources. Output that is up to date is not built again.
pub trait Builder: Sync {
    /// Returns the kernels' PTX, by default for this machine's GPU, or for sm_90 without a GPU.
    ///
    /// # Errors
    /// If parts of the code generator are missing on this machine, the error is a
    /// [`Failure`](crate::failure::Failure) whose lines all begin with `codegen nvvm needs`.
    fn kernels(
        &self,
        workspace: &Workspace,
        machine: &Machine,
        codegen: Choice,
        arch: Option<Arch>,
        kernels: Kernels,
    ) -> Result<Ptx>;

    /// Returns the CUDA C twins' PTX, by default for this machine's GPU, or for sm_90 without a GPU.
    fn twins(&self, workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Ptx>;

    /// Returns the library of CUB's reductions, for this machine's GPU, or for sm_90 without a GPU.
    fn cub(&self, workspace: &Workspace, machine: &Machine) -> Result<PathBuf>;
}

/// The set of kernels to build; compiling all takes ten times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The catalogue's variants and the kernels that test the suite. Other files may be stale.
    Suite,
    /// All kernels, including those of the library's other operations and shapes.
    All,
}

#[derive(Debug, Clone)]
pub struct Ptx {
    /// The folder, whose path ends with `ptx/<codegen>/<arch>`.
    pub folder: PathBuf,
    pub codegen: Codegen,
    pub arch: Arch,
}

impl Ptx {
    /// Opens a store of this folder's PTX alone.
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
    pub fn by_default() -> Result<Self> {
        Self::of(warpfold_suite::default_codegen()?)
    }

    pub fn of(codegen: Codegen) -> Result<Self> {
        match codegen {
            Codegen::Llvm => Ok(Self::Llvm),
            Codegen::Nvvm => Ok(Self::Nvvm),
            Codegen::CudaC => {
                bail!("codegen cuda-c compiles only the twins of the kernels; take llvm or nvvm")
            }
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
