//! The kernels and this machine's GPU, as the commands need them.

use std::io::IsTerminal;

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use warpfold_suite::{Codegen, Device, Error, PtxStore, Selection};

use crate::{
    builder::{Builder, Choice, CodegenArg, Kernels},
    machine::Machine,
    workspace::Workspace,
};

/// The PTX of the kernels as they are now, by one code generator; `WARPFOLD_PTX_DIR` names a folder to
/// take as it is, for a machine without a compiler.
///
/// # Errors
/// Those of [`Builder::kernels`].
pub fn ptx_store(builder: &dyn Builder, codegen: Choice) -> Result<PtxStore> {
    match std::env::var_os(warpfold_suite::PTX_DIR) {
        Some(_) => Ok(PtxStore::locate(Some(codegen.into()))?),
        None => built(builder, codegen, Kernels::Suite),
    }
}

/// As [`ptx_store`], whatever `WARPFOLD_PTX_DIR` says.
///
/// # Errors
/// Those of [`Builder::kernels`].
pub(crate) fn built(builder: &dyn Builder, codegen: Choice, kernels: Kernels) -> Result<PtxStore> {
    let workspace = Workspace::locate()?;
    builder.kernels(&workspace, &Machine::this(&workspace), codegen, None, kernels)?.store()
}

/// The PTX that a command runs: of the twins, or of the kernels by the code generator of its options,
/// which is said.
///
/// # Errors
/// Those of [`twin_store`] and [`ptx_store`].
pub fn chosen_store(builder: &dyn Builder, twins: bool, codegen: CodegenArg) -> Result<PtxStore> {
    if twins { twin_store(builder) } else { ptx_store(builder, codegen.choose()?) }
}

/// The PTX of the CUDA C twins as they are now, or as it is in the folder that `WARPFOLD_PTX_DIR` names.
///
/// # Errors
/// Those of [`Builder::twins`]: no nvcc above all.
pub fn twin_store(builder: &dyn Builder) -> Result<PtxStore> {
    if std::env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return Ok(PtxStore::locate(Some(Codegen::CudaC))?);
    }
    let workspace = Workspace::locate()?;
    builder.twins(&workspace, &Machine::this(&workspace), None)?.store()
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
