//! Finds `libcuda.so.1`, opens it and binds the symbols to it.

use std::env;
use std::error::Error;
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::DriverError;
use crate::symbols;

/// The name under which every NVIDIA driver for Linux installs its library.
pub const LIBRARY: &str = "libcuda.so.1";

/// The environment variable that, when set and not empty, names the library that [`load`] opens. It
/// is then the only one tried.
pub const PATH_VARIABLE: &str = "WARPFOLD_LIBCUDA";

/// Where a driver may be that the dynamic linker does not search: WSL, Debian and Ubuntu, Fedora and
/// SUSE, containers, NixOS.
const FOLDERS: &[&str] = &[
    "/usr/lib/wsl/lib",
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// What `cuDriverGetVersion` of the CUDA toolkit's stub returns: `CUDA_ERROR_STUB_LIBRARY`.
const STUB_LIBRARY: c_int = 34;

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Held while a library is tried and bound, so that slots are filled by one thread and once.
static LOADING: Mutex<()> = Mutex::new(());

/// The driver that the `cu*` symbols are bound to. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Driver {
    library: ManuallyDrop<Library>,
    path: PathBuf,
    version: (u32, u32),
    missing: Vec<&'static str>,
}

impl Driver {
    /// The newest CUDA version that the driver supports, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The name or path that the library was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entry points of `cust::sys` that this driver does not have. They return
    /// [`NOT_PRESENT`](crate::NOT_PRESENT).
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The driver's function of this name, for entry points that `cust::sys` does not declare, such
    /// as `cuLaunchKernelEx`. `None` where the driver does not have it.
    ///
    /// Transmute it to the function's type to call it, with `c_int` for `CUresult`, and give the
    /// result to [`check`](Self::check). It is valid for the rest of the process.
    pub fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        find(&self.library, name)
    }
}

/// Finds and binds the CUDA driver, the first time; returns the same driver ever after.
///
/// Opens the library that [`PATH_VARIABLE`] names, if it is set; else `libcuda.so.1` wherever the
/// dynamic linker finds it; else in the usual folders. A failure binds nothing and may be followed
/// by another attempt.
///
/// This does not call `cuInit`: a driver that loads may still find no GPU.
pub fn load() -> Result<&'static Driver, DriverError> {
    once(None, || match env::var_os(PATH_VARIABLE) {
        Some(path) if !path.is_empty() => {
            let path = PathBuf::from(path);
            Candidate::open(&path).map_err(|reason| DriverError::Unusable {
                path,
                reason,
                from_environment: true,
            })
        }
        _ => search(FOLDERS.iter().map(Path::new)),
    })
}

/// Binds the library at `path` as the CUDA driver, whatever the environment says.
///
/// # Errors
/// If it is not a CUDA driver, or a driver from another path is loaded already.
///
/// # Safety
/// Every function of the library that has the name of a CUDA driver function must behave like it.
pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Driver, DriverError> {
    let path = path.as_ref();
    once(Some(path), || {
        Candidate::open(path).map_err(|reason| DriverError::Unusable {
            path: path.to_owned(),
            reason,
            from_environment: false,
        })
    })
}

/// The driver, if one is loaded. Never opens anything.
pub fn loaded() -> Option<&'static Driver> {
    DRIVER.get()
}

fn once(
    asked: Option<&Path>,
    open: impl FnOnce() -> Result<Candidate, DriverError>,
) -> Result<&'static Driver, DriverError> {
    // The lock guards no data: a thread that panicked in here has left `DRIVER` empty, and at most
    // some slots bound to a library that is still loaded. They are bound again below.
    let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = DRIVER.get() {
        return match asked {
            Some(asked) if asked != driver.path => {
                Err(DriverError::AlreadyLoaded { loaded: driver.path.clone(), asked: asked.to_owned() })
            }
            _ => Ok(driver),
        };
    }
    let Candidate { library, path, version } = open()?;
    let library = ManuallyDrop::new(library);
    // SAFETY: `Candidate::open` found the entry points that identify a CUDA driver, which is all
    // that can be told of a library; the rest is the contract of `load_from`, and of whoever sets
    // the environment or the dynamic linker's search path. From the line above on nothing closes the
    // library.
    let missing = unsafe { symbols::bind(|name| find(&library, name)) };
    Ok(DRIVER.get_or_init(|| Driver { library, path, version, missing }))
}

/// A library that has been opened and answers like a CUDA driver.
struct Candidate {
    library: Library,
    path: PathBuf,
    version: (u32, u32),
}

impl Candidate {
    /// The error starts with the path and says what is wrong with it.
    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading a library runs its initialisers. They are those of a driver that is
        // installed on the machine or that the user named, as trusted as any library that the
        // dynamic linker loads for this program. `RTLD_NOW` reports an incomplete library here
        // rather than at some later call.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| one_line(&innermost(&error)))?;
        let fail = |reason: &str| Err(format!("{}: {reason}", path.display()));
        let (Some(_), Some(get_version)) =
            (find(&library, "cuInit"), find(&library, "cuDriverGetVersion"))
        else {
            return fail("not a CUDA driver (no cuInit, no cuDriverGetVersion)");
        };
        // SAFETY: this is the driver's cuDriverGetVersion, whose type this is in every release.
        let get_version: unsafe extern "C" fn(*mut c_int) -> c_int =
            unsafe { std::mem::transmute(get_version) };
        let mut version: c_int = 0;
        // SAFETY: it may be called before cuInit, and writes one int to a local variable.
        match unsafe { get_version(&mut version) } {
            0 => {}
            STUB_LIBRARY => return fail("the stub of a CUDA toolkit, not a driver"),
            code => return fail(&format!("cuDriverGetVersion failed with code {code}")),
        }
        let Ok(version) = u32::try_from(version) else {
            return fail(&format!("cuDriverGetVersion says {version}"));
        };
        Ok(Self { library, path: path.to_owned(), version: (version / 1000, version % 1000 / 10) })
    }
}

fn search<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<Candidate, DriverError> {
    let mut refused = Vec::new();
    let mut absent = Vec::new();
    match Candidate::open(Path::new(LIBRARY)) {
        Ok(candidate) => return Ok(candidate),
        Err(reason) => refused.push(reason),
    }
    for folder in folders {
        let path = folder.join(LIBRARY);
        if !path.exists() {
            absent.push(folder.to_owned());
            continue;
        }
        match Candidate::open(&path) {
            Ok(candidate) => return Ok(candidate),
            Err(reason) => refused.push(reason),
        }
    }
    Err(DriverError::NotFound { refused, absent })
}

/// Bytes that hold the longest name of a driver function and a zero.
const NAME_BYTES: usize = 128;

/// Allocates nothing: some calls look their function up each time.
fn find(library: &Library, name: &str) -> Option<NonNull<c_void>> {
    let mut bytes = [0; NAME_BYTES];
    bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let terminated = CStr::from_bytes_with_nul(bytes.get(..=name.len())?).ok()?;
    // SAFETY: as a raw pointer the symbol claims no type; whoever calls it does.
    let symbol = unsafe { library.get::<*mut c_void>(terminated) }.ok()?;
    NonNull::new(*symbol)
}

/// The dynamic linker's own message, which names the file.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_search_reports_what_it_refused_and_what_was_absent() {
        if Candidate::open(Path::new(LIBRARY)).is_ok() {
            return; // The search ends at once where there is a driver.
        }
        let broken = tempfile::tempdir().unwrap();
        let empty = tempfile::tempdir().unwrap();
        fs::write(broken.path().join(LIBRARY), "no library\n").unwrap();
        let folders = [broken.path(), empty.path()];
        let error = search(folders.into_iter()).err().unwrap();
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        let DriverError::NotFound { refused, absent } = error else {
            panic!("{text}");
        };
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused[0].contains(LIBRARY), "{refused:?}");
        assert!(refused[1].contains(broken.path().to_str().unwrap()));
        assert_eq!(absent, [empty.path()]);
        for part in [&refused[0], &refused[1], PATH_VARIABLE, "install"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(one_line("a\n b\t c "), "a b c");
    }
}
