//! Finds the PTX that `cargo xtask build-ptx` wrote: `<root>/<codegen>/<arch>/<variant>.ptx`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{Arch, Codegen, DeviceInfo, Error, Result};

/// Environment variable that names the folder of the PTX.
pub const PTX_DIR: &str = "WARPFOLD_PTX_DIR";

/// A folder of built PTX.
#[derive(Debug, Clone)]
pub struct PtxStore {
    root: PathBuf,
    codegen: Option<Codegen>,
}

/// One PTX file and what made it.
#[derive(Debug, Clone)]
pub struct PtxFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// What compiled it.
    pub codegen: Codegen,
    /// What it was compiled for.
    pub arch: Arch,
}

impl PtxStore {
    /// The folder where PTX is: `WARPFOLD_PTX_DIR`, else `ptx` in the build directory of the running
    /// program, else `target/ptx` here. `codegen` restricts it to one code generator; by default
    /// nvvm's is taken where it was built, else llvm's.
    ///
    /// # Errors
    /// [`Error::PtxMissing`] when there is no such folder.
    pub fn locate(codegen: Option<Codegen>) -> Result<Self> {
        if let Some(root) = env::var_os(PTX_DIR).map(PathBuf::from) {
            return Self::at(root, codegen);
        }
        let program = env::current_exe().unwrap_or_default();
        let beside_program = program.ancestors().skip(1).take(4).map(|folder| folder.join("ptx"));
        let root = beside_program
            .chain([PathBuf::from("target/ptx")])
            .find(|root| root.is_dir())
            .unwrap_or_else(|| PathBuf::from("target/ptx"));
        Self::at(root, codegen)
    }

    /// The PTX under this folder.
    ///
    /// # Errors
    /// [`Error::PtxMissing`] when there is no such folder.
    pub fn at(root: impl Into<PathBuf>, codegen: Option<Codegen>) -> Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            return Err(Error::PtxMissing { what: "any kernel".to_owned(), path: root });
        }
        Ok(Self { root, codegen })
    }

    /// The file of a variant that suits a device: of the newest architecture that the device can run.
    ///
    /// # Errors
    /// [`Error::PtxMissing`] when none was built, [`Error::PtxRejected`] when it cannot be read.
    pub fn find(&self, variant: &str, device: &DeviceInfo) -> Result<PtxFile> {
        let wanted = self.codegen.map_or(vec![Codegen::Nvvm, Codegen::Llvm], |one| vec![one]);
        let (codegen, arch, path) = wanted
            .into_iter()
            .find_map(|codegen| self.newest(codegen, variant, device.arch))
            .ok_or_else(|| Error::PtxMissing {
                what: match self.codegen {
                    Some(codegen) => format!("{variant} by {codegen} for {}", device.arch),
                    None => format!("{variant} for {}", device.arch),
                },
                path: self.root.clone(),
            })?;
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::PtxRejected { path: path.clone(), reason: error.to_string() })?;
        Ok(PtxFile { path, text, codegen, arch })
    }

    fn newest(&self, codegen: Codegen, variant: &str, limit: Arch) -> Option<(Codegen, Arch, PathBuf)> {
        let folders = fs::read_dir(self.root.join(codegen.name())).ok()?;
        folders
            .filter_map(|folder| {
                let folder = folder.ok()?;
                let name = folder.file_name().into_string().ok()?;
                // `sm_90a` and its like run on that architecture alone.
                let bound = name.ends_with(|last: char| last.is_ascii_alphabetic());
                let arch: Arch = name.parse().ok()?;
                let runs = if bound { arch == limit } else { arch <= limit };
                let path = folder.path().join(variant).with_extension("ptx");
                (runs && path.is_file()).then_some((codegen, arch, path))
            })
            .max_by_key(|(_, arch, _)| *arch)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing_info;

    fn store(files: &[&str]) -> (tempfile::TempDir, PtxStore) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let store = PtxStore::at(folder.path(), None).unwrap();
        (folder, store)
    }

    #[test]
    fn the_newest_architecture_that_runs_is_taken() {
        let (_folder, store) = store(&[
            "llvm/sm_80/sequential.ptx",
            "llvm/sm_90/sequential.ptx",
            "llvm/sm_100/sequential.ptx",
            "llvm/sm_86/other.ptx",
        ]);
        let file = store.find("sequential", &testing_info()).unwrap();
        assert_eq!((file.codegen, file.arch), (Codegen::Llvm, Arch::new(9, 0)));
        let older = DeviceInfo { arch: Arch::new(8, 6), ..testing_info() };
        assert_eq!(store.find("sequential", &older).unwrap().arch, Arch::new(8, 0));
    }

    #[test]
    fn nvvm_goes_before_llvm_unless_one_is_named() {
        let (folder, store) = store(&["llvm/sm_80/sequential.ptx", "nvvm/sm_80/sequential.ptx"]);
        assert_eq!(store.find("sequential", &testing_info()).unwrap().codegen, Codegen::Nvvm);
        let llvm = PtxStore::at(folder.path(), Some(Codegen::Llvm)).unwrap();
        assert_eq!(llvm.find("sequential", &testing_info()).unwrap().codegen, Codegen::Llvm);
    }

    #[test]
    fn what_was_not_built_is_named_with_the_command() {
        let (_folder, store) = store(&["llvm/sm_100/sequential.ptx"]);
        let message = store.find("sequential", &testing_info()).unwrap_err().to_string();
        assert!(message.contains("sequential for sm_90"), "{message}");
        assert!(message.contains("cargo xtask build-ptx"), "{message}");
        assert!(PtxStore::at("/nowhere/at/all", None).is_err());
    }
}
