//! Locates and opens `libcuda.so.1`.

use std::env;
use std::error::Error;
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::driver::{Driver, identify};
use crate::error::{DriverError, LIBRARY, PATH_VARIABLE};
use crate::provider::Provider;

/// Directories of the driver that may be outside the dynamic linker's search path: those of WSL, Debian
/// and Ubuntu, Fedora and SUSE, containers, and NixOS.
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

static FOUND: OnceLock<&Driver> = OnceLock::new();

/// The drivers whose libraries are open. Locked during each opening, so that none is opened twice.
static OPEN: Mutex<Vec<&Driver>> = Mutex::new(Vec::new());

pub(crate) fn load() -> Result<&'static Driver, DriverError> {
    if let Some(driver) = FOUND.get() {
        return Ok(driver);
    }
    let driver = match env::var_os(PATH_VARIABLE) {
        Some(path) if !path.is_empty() => {
            let path = PathBuf::from(path);
            open(&path).map_err(|reason| DriverError::Unusable { path, reason, from_environment: true })
        }
        _ => search(FOLDERS.iter().map(Path::new)),
    }?;
    Ok(FOUND.get_or_init(|| driver))
}

/// Implements [`Driver::load_from`], whose safety conditions the caller must keep.
pub(crate) fn load_from(path: &Path) -> Result<&'static Driver, DriverError> {
    open(path).map_err(|reason| DriverError::Unusable {
        path: path.to_owned(),
        reason,
        from_environment: false,
    })
}

fn search<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<&'static Driver, DriverError> {
    let mut refused = Vec::new();
    let mut absent = Vec::new();
    match open(Path::new(LIBRARY)) {
        Ok(driver) => return Ok(driver),
        Err(reason) => refused.push(reason),
    }
    for folder in folders {
        let path = folder.join(LIBRARY);
        if !path.exists() {
            absent.push(folder.to_owned());
            continue;
        }
        match open(&path) {
            Ok(driver) => return Ok(driver),
            Err(reason) => refused.push(reason),
        }
    }
    Err(DriverError::NotFound { refused, absent })
}

/// Opens a library as a driver, or returns the driver if it is already open. The error names the path
/// and the problem.
fn open(path: &Path) -> Result<&'static Driver, String> {
    // A panic in this function cannot leave the list in an inconsistent state, so poisoning is ignored.
    let mut drivers = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: loading a library runs its initialisers. They are those of a driver that is installed on
    // the machine or that the user named, as trusted as any library that the dynamic linker loads for
    // this program. `RTLD_NOW` reports an incomplete library here rather than at some later call.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| one_line(&innermost(&error)))?;
    // The linker opens a file only once, whatever its path, so an equal `cuInit` means the same driver.
    if let Some(init) = find(&library, "cuInit")
        && let Some(driver) = drivers.iter().find(|driver| driver.find("cuInit") == Some(init))
    {
        return Ok(driver);
    }
    let name = path.display().to_string();
    // SAFETY: functions that have the names of driver functions must behave like them, which cannot be
    // checked. The caller of `Driver::load_from` guarantees it, or the user who sets the environment
    // variable or the dynamic linker's search path.
    let version = unsafe { identify(|name| find(&library, name)) }
        .map_err(|reason| format!("{name}: {reason}"))?;
    let file = Box::leak(Box::new(LibraryFile { library: ManuallyDrop::new(library), name }));
    // SAFETY: the user or the caller guarantees functions that behave like a driver's; none is unloaded.
    let driver = unsafe { Driver::new(file, version) };
    drivers.push(driver);
    Ok(driver)
}

struct LibraryFile {
    library: ManuallyDrop<Library>,
    name: String,
}

impl Provider for LibraryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        find(&self.library, name)
    }
}

/// Enough bytes for the longest name of a driver function and its terminator.
const NAME_BYTES: usize = 128;

fn find(library: &Library, name: &str) -> Option<NonNull<c_void>> {
    let mut bytes = [0; NAME_BYTES];
    bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let terminated = CStr::from_bytes_with_nul(bytes.get(..=name.len())?).ok()?;
    // SAFETY: the symbol is only read as an untyped pointer; the callers choose its type.
    let symbol = unsafe { library.get::<*mut c_void>(terminated) }.ok()?;
    NonNull::new(*symbol)
}

/// Returns the message of the innermost error: the dynamic linker's, which names the file.
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
    fn failed_search_lists_refused_and_absent_libraries() {
        if open(Path::new(LIBRARY)).is_ok() {
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
