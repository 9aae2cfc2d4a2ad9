//! Access to the kernels and this machine's GPU for commands.

use std::io::IsTerminal;

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use warpfold_suite::{Codegen, Device, Error, PtxStore, Selection};

use crate::{
    builder::{Builder, Choice, CodegenArg, Kernels},
    machine::Machine,
    workspace::Workspace,
};

/// Returns the PTX of the current kernels by one code generator. A folder in `WARPFOLD_PTX_DIR` is used
/// as it is, for machines without a compiler.
///
/// # Errors
/// As [`Builder::kernels`].
pub fn ptx_store(builder: &dyn Builder, codegen: Choice) -> Result<PtxStore> {
    match std::env::var_os(warpfold_suite::PTX_DIR) {
        Some(_) => Ok(PtxStore::locate(Some(codegen.into()))?),
        None => built(builder, codegen, Kernels::Suite),
    }
}

/// Builds the PTX like [`ptx_store`], but ignores `WARPFOLD_PTX_DIR`.
///
/// # Errors
/// As [`Builder::kernels`].
pub(crate) fn built(builder: &dyn Builder, codegen: Choice, kernels: Kernels) -> Result<PtxStore> {
    let workspace = Workspace::locate()?;
    builder.kernels(&workspace, &Machine::this(&workspace), codegen, None, kernels)?.store()
}

/// Returns the PTX that a command runs: the twins', or the kernels' by the code generator of its
/// options, which is printed.
///
/// # Errors
/// As [`twin_store`] and [`ptx_store`].
pub fn chosen_store(builder: &dyn Builder, twins: bool, codegen: CodegenArg) -> Result<PtxStore> {
    if twins { twin_store(builder) } else { ptx_store(builder, codegen.choose()?) }
}

/// Returns the PTX of the current CUDA C twins, or the folder in `WARPFOLD_PTX_DIR` as it is.
///
/// # Errors
/// As [`Builder::twins`], mostly a missing nvcc.
pub fn twin_store(builder: &dyn Builder) -> Result<PtxStore> {
    if std::env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return Ok(PtxStore::locate(Some(Codegen::CudaC))?);
    }
    let workspace = Workspace::locate()?;
    builder.twins(&workspace, &Machine::this(&workspace), None)?.store()
}

/// Opens this machine's GPU; `needs` says what requires one.
///
/// # Errors
/// One line if there is none, or the driver's error.
pub fn gpu(needs: &str) -> Result<Device> {
    Device::open(Selection::Cuda).map_err(|error| match error {
        Error::NoCuda { reason } => anyhow!("{needs}: {reason}"),
        other => other.into(),
    })
}

/// Returns a progress bar, which is hidden unless standard error is a terminal.
pub fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}").expect("a valid template");
    ProgressBar::new(total as u64).with_style(style)
}

/// Returns the values without duplicates, in the given order.
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
