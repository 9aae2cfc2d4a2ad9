//! The builder of the catalogue's kernels, twins and CUB, and the PTX that commands and tests load.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    process::Command,
    sync::LazyLock,
};

use anyhow::Result;
use warpfold::internal::Family;
use warpfold_suite::{
    Arch, Codegen, PtxStore,
    catalogue::{self, VARIANTS},
    device, say,
};

use crate::{
    build_ptx::{self, Feature, Variant},
    builder::{Builder, Choice, CodegenArg, Kernels, Ptx},
    cub, embed_ptx,
    machine::Machine,
    twins,
    workspace::Workspace,
};

/// The builder of this repository's sources.
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

/// Returns a variant for every PTX file to build: those of the suite, of its tests, and of the library.
pub fn variants() -> Vec<Variant> {
    // SAFETY: `testing` restricts only where its kernels are run, and here they are only built.
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

/// Returns the architecture of this machine's GPU, or `None` without a driver and GPU.
pub fn gpu_arch() -> Option<Arch> {
    Some(device::probe().ok()?.gpu.arch)
}

/// Returns the PTX of the current kernels by one code generator or, for machines without a compiler, the
/// PTX in the folder that `WARPFOLD_PTX_DIR` names.
pub fn ptx_store(builder: &dyn Builder, codegen: Choice) -> Result<PtxStore> {
    match std::env::var_os(warpfold_suite::PTX_DIR) {
        Some(_) => Ok(PtxStore::locate(Some(codegen.into()))?),
        None => built(builder, codegen, Kernels::Suite),
    }
}

/// Builds the PTX like [`ptx_store`], but ignores `WARPFOLD_PTX_DIR`.
pub fn built(builder: &dyn Builder, codegen: Choice, kernels: Kernels) -> Result<PtxStore> {
    let workspace = Workspace::locate()?;
    builder.kernels(&workspace, &Machine::this(&workspace), codegen, None, kernels)?.store()
}

/// Returns the twins' PTX if `twins` is true, else the kernels' by the selected code generator.
pub fn chosen_store(builder: &dyn Builder, twins: bool, codegen: CodegenArg) -> Result<PtxStore> {
    if twins { twin_store(builder) } else { ptx_store(builder, codegen.choose()?) }
}

/// Returns the PTX of the current CUDA C twins or, if set, that in the folder `WARPFOLD_PTX_DIR`.
pub fn twin_store(builder: &dyn Builder) -> Result<PtxStore> {
    if std::env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return Ok(PtxStore::locate(Some(Codegen::CudaC))?);
    }
    let workspace = Workspace::locate()?;
    builder.twins(&workspace, &Machine::this(&workspace), None)?.store()
}

/// Returns the PTX of the current kernels by `llvm`, regardless of `WARPFOLD_PTX_DIR`: for tests.
#[doc(hidden)]
pub fn built_by_llvm() -> PtxStore {
    let built = Workspace::locate().and_then(|workspace| sources_ptx(&workspace));
    built.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Returns the PTX of the current kernels by `llvm`, without the kernels that only the library runs.
pub fn sources_ptx(workspace: &Workspace) -> Result<PtxStore> {
    let machine = Machine::this(workspace);
    Sources.kernels(workspace, &machine, Choice::Llvm, None, Kernels::Suite)?.store()
}

/// Returns the PTX that the library embeds, by file name: for tests.
#[doc(hidden)]
pub fn embedded() -> &'static BTreeMap<String, String> {
    static TEXTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let texts = Workspace::locate().and_then(|workspace| embed_ptx::texts(&workspace));
        texts.unwrap_or_else(|error| panic!("{error:#}"))
    });
    &TEXTS
}

/// Environment variable that makes [`skip`] fail the test. `.ci/run` sets it.
pub const STRICT_TESTS: &str = "WARPFOLD_STRICT_TESTS";

/// Returns a command for nvcc, to which arguments can be added, and the folder of its toolkit's
/// libraries.
pub fn nvcc() -> Result<(Command, Option<PathBuf>)> {
    let workspace = Workspace::locate()?;
    let nvcc = twins::Nvcc::find(&Machine::this(&workspace))?;
    Ok((nvcc.command(), cub::libraries(&nvcc.path)))
}

/// Prints that a test is skipped and why. Panics if [`STRICT_TESTS`] is set to anything but the empty
/// string and 0.
pub fn skip(why: &str) {
    let strict = std::env::var_os(STRICT_TESTS).is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!strict, "{STRICT_TESTS} is set, and this cannot be tested: {why}");
    say!("skipped: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a separate process, because environment variables are per process.
    #[test]
    fn strict_tests_fail_instead_of_skipping() {
        const INNER: &str = "WARPFOLD_SKIPS";
        if std::env::var_os(INNER).is_some() {
            return skip("there is no nvcc");
        }
        for (strict, passes) in [(None, true), (Some(""), true), (Some("0"), true), (Some("1"), false)] {
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            test.args(["suite::tests::strict_tests_fail_instead_of_skipping", "--exact"]);
            test.arg("--nocapture").env(INNER, "1").env_remove(STRICT_TESTS);
            test.envs(strict.map(|strict| (STRICT_TESTS, strict)));
            let output = test.output().unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.success(), passes, "{strict:?}: {said}");
            assert!(said.contains("there is no nvcc"), "{strict:?}: {said}");
        }
    }
}
