//! What is built of the catalogue, for this machine's GPU.

use std::path::PathBuf;

use anyhow::Result;
use warpfold_lab::{
    builder::{Builder, Ptx},
    suite,
};
use warpfold_suite::{
    Arch, Codegen, PtxStore,
    catalogue::{self, TESTING, VARIANTS},
    device,
};

use crate::{
    build_ptx::{self, Choice, Variant},
    cub,
    doctor::Machine,
    twins,
    workspace::Workspace,
};

/// Builds what the commands of [`warpfold_lab`] need.
#[derive(Debug, Clone, Copy)]
pub struct Sources;

impl Builder for Sources {
    fn kernels(
        &self,
        workspace: &Workspace,
        machine: &Machine,
        codegen: Choice,
        arch: Option<Arch>,
    ) -> Result<Ptx> {
        let request = build_ptx::Request {
            codegen,
            arch,
            detect_arch: &gpu_arch,
            variants: &variants(),
            machine,
            verbose: false,
        };
        let built = build_ptx::ensure(workspace, &request)?;
        Ok(Ptx { folder: built.folder, codegen: built.codegen, arch: built.arch })
    }

    fn twins(&self, workspace: &Workspace, machine: &Machine, arch: Option<Arch>) -> Result<Ptx> {
        let built = twins::ensure(workspace, machine, arch)?;
        Ok(Ptx { folder: built.folder, codegen: Codegen::CudaC, arch: built.arch })
    }

    fn cub(&self, workspace: &Workspace, machine: &Machine) -> Result<PathBuf> {
        Ok(cub::ensure(workspace, machine, None)?.path)
    }
}

/// Every PTX file to build: the catalogue's variants and the kernels that test the suite.
pub fn variants() -> Vec<Variant> {
    catalogue::ptx_ids()
        .map(|id| {
            let row = VARIANTS.iter().chain(TESTING).find(|row| row.id == id);
            let min_arch = row.map(|row| row.min_arch);
            let cluster = row.and_then(|row| row.shape()).map(|shape| shape.cluster);
            let plain = Variant::from(id);
            Variant {
                divergent_barriers: id == catalogue::DIVERGENT_BARRIER,
                min_arch: min_arch.unwrap_or(plain.min_arch),
                cluster: cluster.unwrap_or(plain.cluster),
                ..plain
            }
        })
        .collect()
}

/// The architecture of this machine's GPU, where the driver answers.
pub fn gpu_arch() -> Option<Arch> {
    Some(device::probe().ok()?.gpu.arch)
}

/// The PTX of the kernels as they are now, by the code generator that `WARPFOLD_CODEGEN` names, else
/// llvm; `WARPFOLD_PTX_DIR` names a folder to take as it is, for a machine without a compiler.
///
/// # Errors
/// Those of [`build_ptx::ensure`].
pub fn ptx_store() -> Result<PtxStore> {
    suite::ptx_store(&Sources, Choice::by_default()?)
}

/// That of the kernels by llvm, wherever `WARPFOLD_PTX_DIR` points: for tests.
///
/// # Panics
/// When it cannot be built.
#[doc(hidden)]
pub fn built_by_llvm() -> PtxStore {
    let built = Workspace::locate().and_then(|workspace| {
        Sources.kernels(&workspace, &Machine::this(&workspace), Choice::Llvm, None)?.store()
    });
    built.unwrap_or_else(|error| panic!("{error:#}"))
}

/// The PTX of the CUDA C twins, likewise.
///
/// # Errors
/// Those of [`twins::ensure`]: no nvcc above all.
pub fn twin_store() -> Result<PtxStore> {
    suite::twin_store(&Sources)
}
