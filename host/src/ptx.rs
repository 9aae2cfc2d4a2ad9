//! Finds the PTX that `cargo xtask build-ptx` and `build-twins` wrote:
//! `<root>/<codegen>/<arch>/<variant>.ptx`.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{Arch, Codegen, DeviceInfo, Error, Result, device::Kind, input, nearest};

pub const PTX_DIR: &str = "WARPFOLD_PTX_DIR";

/// The environment variable that names the default code generator of the kernels: llvm or nvvm.
pub const CODEGEN: &str = "WARPFOLD_CODEGEN";

/// Returns the default code generator: the one that `WARPFOLD_CODEGEN` names, otherwise llvm. The
/// default does not depend on which PTX was built: llvm is the same compiler on every machine, and its
/// line tables refer to Rust sources.
pub fn default_codegen() -> Result<Codegen> {
    codegen_named(env::var_os(CODEGEN).as_deref())
}

fn codegen_named(given: Option<&OsStr>) -> Result<Codegen> {
    let Some(given) = given else { return Ok(Codegen::Llvm) };
    let known = [Codegen::Llvm, Codegen::Nvvm];
    let given = given.to_string_lossy();
    known.into_iter().find(|codegen| codegen.name() == given).ok_or_else(|| Error::UnknownName {
        what: CODEGEN,
        given: given.clone().into_owned(),
        nearest: nearest(&given, known.map(Codegen::name)),
        see: "use llvm or nvvm".into(),
    })
}

/// A folder of built PTX. Its files are trusted like the program itself, because out-of-bounds writes of
/// a kernel cannot be detected in advance.
#[derive(Debug, Clone)]
pub struct PtxStore {
    root: PathBuf,
    codegen: Codegen,
    arch: Option<Arch>,
}

#[derive(Debug, Clone)]
pub struct PtxFile {
    pub path: PathBuf,
    pub text: String,
    pub codegen: Codegen,
    pub arch: Arch,
}

struct Candidate {
    arch: Arch,
    path: PathBuf,
    built: SystemTime,
}

impl PtxStore {
    /// Locates the PTX folder: `WARPFOLD_PTX_DIR`, otherwise `ptx` in the build directory of the running
    /// program, otherwise `target/ptx` in the current directory. `codegen` selects the code generator;
    /// `None` stands for [`default_codegen`].
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

    /// Opens the PTX in this folder, with the code generator as in [`locate`](Self::locate).
    pub fn at(root: impl Into<PathBuf>, codegen: Option<Codegen>) -> Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            return Err(Error::PtxMissing { what: "any kernel".to_owned(), path: root });
        }
        Ok(Self { root, codegen: codegen.map_or_else(default_codegen, Ok)?, arch: None })
    }

    #[must_use]
    pub fn only(self, arch: Arch) -> Self {
        Self { arch: Some(arch), ..self }
    }

    /// Returns a variant's file for a device: for a GPU, that of the newest architecture that it can
    /// run; for the simulator, which runs all of them, the most recently built one.
    pub fn find(&self, variant: &str, device: &DeviceInfo) -> Result<PtxFile> {
        let files = self.files(variant, device.arch).into_iter();
        let found = match device.kind {
            Kind::Cuda => files.max_by_key(|file| file.arch),
            Kind::Sim => files.max_by_key(|file| file.built),
        };
        let Candidate { arch, path, .. } = found.ok_or_else(|| Error::PtxMissing {
            what: format!("{variant} by {} for {}", self.codegen, device.arch),
            path: self.root.clone(),
        })?;
        let text = input::text(&path, input::MAX_PTX)
            .map_err(|reason| Error::PtxRejected { path: path.clone(), reason })?;
        Ok(PtxFile { path, text, codegen: self.codegen, arch })
    }

    fn files(&self, variant: &str, gpu: Arch) -> Vec<Candidate> {
        let Ok(folders) = fs::read_dir(self.root.join(self.codegen.name())) else {
            return Vec::new();
        };
        let candidate = |folder: std::io::Result<fs::DirEntry>| {
            let folder = folder.ok()?;
            let name = folder.file_name().into_string().ok()?;
            let arch: Arch = name.parse().ok()?;
            let wanted = self.arch.is_none_or(|only| only == arch);
            let path = folder.path().join(variant).with_extension("ptx");
            let built = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
            (gpu.runs(arch) && wanted).then_some(Candidate { arch, path, built })
        };
        folders.filter_map(candidate).collect()
    }

    /// Returns the architecture that the store is restricted to.
    pub fn arch(&self) -> Option<Arch> {
        self.arch
    }

    pub fn codegen(&self) -> Codegen {
        self.codegen
    }

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
        let store = PtxStore::at(folder.path(), Some(Codegen::Llvm)).unwrap();
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
        let gpu = |arch| DeviceInfo { kind: Kind::Cuda, arch, ..testing_info() };
        let file = store.find("sequential", &gpu(Arch::new(9, 0))).unwrap();
        assert_eq!((file.codegen, file.arch), (Codegen::Llvm, Arch::new(9, 0)));
        let older = store.find("sequential", &gpu(Arch::new(8, 6))).unwrap();
        assert_eq!(older.arch, Arch::new(8, 0));
        let only = store.only(Arch::new(8, 0));
        assert_eq!(only.find("sequential", &gpu(Arch::new(9, 0))).unwrap().arch, Arch::new(8, 0));
    }

    #[test]
    fn simulator_selects_the_latest_build() {
        let (folder, store) = store(&["llvm/sm_80/sequential.ptx", "llvm/sm_90/sequential.ptx"]);
        let later = SystemTime::now() + std::time::Duration::from_secs(10);
        let path = folder.path().join("llvm/sm_80/sequential.ptx");
        fs::File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
        assert_eq!(store.find("sequential", &testing_info()).unwrap().arch, Arch::new(8, 0));
    }

    #[test]
    fn code_generator_does_not_depend_on_built_files() {
        let (folder, llvm) = store(&["llvm/sm_80/sequential.ptx", "nvvm/sm_80/sequential.ptx"]);
        assert_eq!(llvm.find("sequential", &testing_info()).unwrap().codegen, Codegen::Llvm);
        let nvvm = PtxStore::at(folder.path(), Some(Codegen::Nvvm)).unwrap();
        assert_eq!(nvvm.find("sequential", &testing_info()).unwrap().codegen, Codegen::Nvvm);
        fs::remove_dir_all(folder.path().join("llvm")).unwrap();
        assert!(llvm.find("sequential", &testing_info()).is_err());
    }

    #[test]
    fn llvm_is_the_default_and_the_environment_names_another() {
        let named = |given: Option<&str>| codegen_named(given.map(OsStr::new));
        assert_eq!(named(None).unwrap(), Codegen::Llvm);
        assert_eq!(named(Some("llvm")).unwrap(), Codegen::Llvm);
        assert_eq!(named(Some("nvvm")).unwrap(), Codegen::Nvvm);
        for wrong in ["", "auto", "cuda-c", "nvm"] {
            let said = named(Some(wrong)).unwrap_err().to_string();
            assert!(said.contains(CODEGEN) && said.contains("use llvm or nvvm"), "{said}");
        }
    }

    #[test]
    fn missing_ptx_error_names_the_build_command() {
        let (_folder, store) = store(&["llvm/sm_100/sequential.ptx"]);
        let message = store.find("sequential", &testing_info()).unwrap_err().to_string();
        assert!(message.contains("sequential by llvm for sm_90"), "{message}");
        assert!(message.contains("cargo xtask build-ptx"), "{message}");
        assert!(PtxStore::at("/nowhere/at/all", None).is_err());
    }
}
