//! The catalogue and this machine's GPU, as the commands need them.

use std::io::IsTerminal;

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use warpfold_suite::{
    Codegen, Device, Error, PtxStore, Selection,
    catalogue::{self, TESTING, VARIANTS},
    device,
};

use crate::{
    arch::Arch,
    build_ptx::{self, Built, Choice, CodegenArg, Variant},
    doctor::Machine,
    twins,
    workspace::Workspace,
};

/// Every PTX file to build: the catalogue's variants and the kernels that test the suite.
pub fn variants() -> Vec<Variant> {
    catalogue::ptx_ids()
        .map(|id| {
            let row = VARIANTS.iter().chain(TESTING).find(|row| row.id == id);
            let min_arch = row.map(|row| row.min_arch.to_string().parse().expect("written alike"));
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
    device::probe().ok()?.gpu.arch.to_string().parse().ok()
}

/// Makes sure that PTX of the kernels as they are now is there.
///
/// # Errors
/// Those of [`build_ptx::ensure`].
pub fn ensure_ptx(codegen: Choice) -> Result<Built> {
    let workspace = Workspace::locate()?;
    let request = build_ptx::Request {
        codegen,
        arch: None,
        detect_arch: &gpu_arch,
        variants: &variants(),
        machine: &Machine::this(&workspace),
        verbose: false,
    };
    build_ptx::ensure(&workspace, &request)
}

/// What [`ensure_ptx`] built, to load from.
///
/// # Errors
/// None but those of a folder that has vanished since.
pub fn store_of(built: &Built) -> Result<PtxStore> {
    let root = built.folder.ancestors().nth(2).context("ptx/<codegen>/<arch> has two parents")?;
    Ok(PtxStore::at(root, Some(built.codegen))?.only(built.arch.to_string().parse()?))
}

/// The PTX of the kernels as they are now, by the code generator that `WARPFOLD_CODEGEN` names, else
/// llvm; `WARPFOLD_PTX_DIR` names a folder to take as it is, for a machine without a compiler.
///
/// # Errors
/// Those of [`ensure_ptx`].
pub fn ptx_store() -> Result<PtxStore> {
    ptx_store_by(Choice::by_default()?)
}

/// As [`ptx_store`], by one code generator.
///
/// # Errors
/// Those of [`ensure_ptx`].
pub fn ptx_store_by(codegen: Choice) -> Result<PtxStore> {
    match std::env::var_os(warpfold_suite::PTX_DIR) {
        Some(_) => Ok(PtxStore::locate(Some(codegen.into()))?),
        None => store_of(&ensure_ptx(codegen)?),
    }
}

/// The PTX that a command runs: of the twins, or of the kernels by the code generator of its options,
/// which is said.
///
/// # Errors
/// Those of [`twin_store`] and [`ptx_store_by`].
pub fn chosen_store(twins: bool, codegen: CodegenArg) -> Result<PtxStore> {
    if twins { twin_store() } else { ptx_store_by(codegen.choose()?) }
}

/// The PTX of the CUDA C twins as they are now, or as it is in the folder that `WARPFOLD_PTX_DIR` names.
///
/// # Errors
/// Those of [`twins::ensure`]: no nvcc above all.
pub fn twin_store() -> Result<PtxStore> {
    if std::env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return Ok(PtxStore::locate(Some(Codegen::CudaC))?);
    }
    let workspace = Workspace::locate()?;
    let twins = twins::ensure(&workspace, &Machine::this(&workspace), None)?;
    let root = twins.folder.ancestors().nth(2).context("ptx/<codegen>/<arch> has two parents")?;
    Ok(PtxStore::at(root, Some(Codegen::CudaC))?.only(twins.arch.to_string().parse()?))
}

/// This machine's GPU; `needs` is what cannot be done without one.
///
/// # Errors
/// One line when there is none, and what the driver says.
pub fn gpu(needs: &str) -> Result<Device> {
    Device::open(Selection::Cuda).map_err(|error| match error {
        Error::NoCuda { reason } => anyhow!("{needs}: {reason}"),
        other => other.into(),
    })
}

/// How far something has come, on a terminal.
pub fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}").expect("a valid template");
    ProgressBar::new(total as u64).with_style(style)
}

/// Each once, in the order given.
pub fn unique<T: Copy>(given: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in given {
        if !kept.iter().any(|other| same(other, one)) {
            kept.push(*one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_twice_is_taken_once() {
        assert_eq!(unique(&[3, 1, 3, 2, 1], i32::eq), [3, 1, 2]);
    }
}
