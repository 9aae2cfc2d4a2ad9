//! Builds of the catalogue's kernels for this machine's GPU.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    process::Command,
    sync::LazyLock,
};

use anyhow::Result;
use warpfold::internal::Family;
use warpfold_lab::{
    builder::{Builder, Kernels, Ptx},
    suite,
};
use warpfold_suite::{
    Arch, Codegen, PtxStore,
    catalogue::{self, VARIANTS},
    device, say,
};

use crate::{
    build_ptx::{self, Choice, Feature, Variant},
    cub,
    doctor::Machine,
    embed_ptx, twins,
    workspace::Workspace,
};

/// The builds that the commands of [`warpfold_lab`] need.
#[derive(Debug, Clone, Copy)]
pub struct Sources;

impl Builder for Sources {
    fn kernels(
        &self,
        workspace: &Workspace,
        machine: &Machine,
        codegen: Choice,
        arch: Option<Arch>,
        kernels: Kernels,
    ) -> Result<Ptx> {
        let request = build_ptx::Request {
            codegen,
            arch,
            detect_arch: &gpu_arch,
            variants: &variants(),
            kernels,
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

/// Returns every PTX file to build: the catalogue's variants and the suite's own test kernels.
pub fn variants() -> Vec<Variant> {
    // SAFETY: the kernels are not run here.
    let testing = unsafe { catalogue::testing() };
    let of_library: HashSet<&str> = catalogue::library_files().collect();
    let of_matrices =
        |id: &str| [Family::Rows, Family::Axis].iter().any(|family| id.starts_with(family.prefix()));
    catalogue::ptx_ids()
        .map(|id| {
            let row = VARIANTS.iter().chain(testing).find(|row| row.id == id);
            let min_arch = row.map(|row| row.min_arch);
            let cluster = row.and_then(|row| row.shape()).map(|shape| shape.cluster);
            let plain = Variant::from(id);
            Variant {
                divergent_barriers: id == catalogue::DIVERGENT_BARRIER,
                min_arch: min_arch.unwrap_or(plain.min_arch),
                cluster: cluster.unwrap_or(plain.cluster),
                feature: match of_library.contains(id) {
                    false => Feature::Suite,
                    true if of_matrices(id) => Feature::Matrices,
                    true => Feature::Library,
                },
                ..plain
            }
        })
        .collect()
}

/// Returns the architecture of this machine's GPU, if the driver answers.
pub fn gpu_arch() -> Option<Arch> {
    Some(device::probe().ok()?.gpu.arch)
}

/// Returns the PTX of the current kernels, by the code generator that `WARPFOLD_CODEGEN` names, by
/// default llvm. If `WARPFOLD_PTX_DIR` is set, that folder is used unchanged, for machines without a
/// compiler.
///
/// # Errors
/// Returns the errors of [`build_ptx::ensure`].
pub fn ptx_store() -> Result<PtxStore> {
    suite::ptx_store(&Sources, Choice::by_default()?)
}

/// Returns the PTX of the current kernels by llvm, regardless of `WARPFOLD_PTX_DIR`: for tests.
///
/// # Panics
/// Panics if it cannot be built.
#[doc(hidden)]
pub fn built_by_llvm() -> PtxStore {
    let built = Workspace::locate().and_then(|workspace| sources_ptx(&workspace));
    built.unwrap_or_else(|error| panic!("{error:#}"))
}

pub(crate) fn sources_ptx(workspace: &Workspace) -> Result<PtxStore> {
    let machine = Machine::this(workspace);
    Sources.kernels(workspace, &machine, Choice::Llvm, None, Kernels::Suite)?.store()
}

/// Returns the PTX that the library embeds, by name: for tests.
///
/// # Panics
/// Panics if there is none.
#[doc(hidden)]
pub fn embedded() -> &'static BTreeMap<String, String> {
    static TEXTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let texts = Workspace::locate().and_then(|workspace| embed_ptx::texts(&workspace));
        texts.unwrap_or_else(|error| panic!("{error:#}"))
    });
    &TEXTS
}

/// Returns the PTX of the CUDA C twins, likewise.
///
/// # Errors
/// Returns the errors of [`twins::ensure`], mainly that nvcc is missing.
pub fn twin_store() -> Result<PtxStore> {
    suite::twin_store(&Sources)
}

/// Environment variable that makes [`skip`] fail the test. `.ci/run` sets it.
pub const STRICT_TESTS: &str = "WARPFOLD_STRICT_TESTS";

/// Returns a command for nvcc, to which arguments can be added, and the folder of its toolkit's
/// libraries.
///
/// # Errors
/// Fails if there is no nvcc.
pub fn nvcc() -> Result<(Command, Option<PathBuf>)> {
    let workspace = Workspace::locate()?;
    let nvcc = twins::Nvcc::find(&Machine::this(&workspace))?;
    Ok((nvcc.command(), cub::libraries(&nvcc.path)))
}

/// Prints that a test is skipped, and why.
///
/// # Panics
/// Panics if [`STRICT_TESTS`] is set to anything but the empty string and 0.
pub fn skip(why: &str) {
    let strict = std::env::var_os(STRICT_TESTS).is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!strict, "{STRICT_TESTS} is set, and this cannot be tested: {why}");
    say!("skipped: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a separate process, because environment variables are per process.
    #[test]
    fn nothing_is_skipped_where_tests_are_strict() {
        const INNER: &str = "WARPFOLD_SKIPS";
        if std::env::var_os(INNER).is_some() {
            return skip("there is no nvcc");
        }
        for (strict, passes) in [(None, true), (Some(""), true), (Some("0"), true), (Some("1"), false)] {
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            test.args(["suite::tests::nothing_is_skipped_where_tests_are_strict", "--exact"]);
            test.arg("--nocapture").env(INNER, "1").env_remove(STRICT_TESTS);
            test.envs(strict.map(|strict| (STRICT_TESTS, strict)));
            let output = test.output().unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.success(), passes, "{strict:?}: {said}");
            assert!(said.contains("there is no nvcc"), "{strict:?}: {said}");
        }
    }
}
