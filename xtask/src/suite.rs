//! The catalogue and this machine's GPU, as the commands need them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use warpfold::{
    catalogue::{self, TESTING, VARIANTS},
    device,
};

use crate::{
    arch::Arch,
    build_ptx::{self, Built, Choice, Variant},
    doctor::Machine,
    workspace::Workspace,
};

/// Every PTX file to build: the catalogue's variants and the kernels that test the suite.
pub fn variants() -> Vec<Variant> {
    catalogue::ptx_ids()
        .map(|id| {
            let row = VARIANTS.iter().chain(TESTING).find(|row| row.id == id);
            let min_arch = row.map(|row| row.min_arch.to_string().parse().expect("written alike"));
            let plain = Variant::from(id);
            Variant { min_arch: min_arch.unwrap_or(plain.min_arch), ..plain }
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

/// The folder for `PtxStore::at` that holds [`ensure_ptx`]'s output.
///
/// # Errors
/// Those of [`ensure_ptx`].
pub fn ptx_root() -> Result<PathBuf> {
    let built = ensure_ptx(Choice::Auto)?;
    let root = built.folder.ancestors().nth(2).context("ptx/<codegen>/<arch> has two parents")?;
    Ok(root.to_owned())
}
