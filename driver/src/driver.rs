//! A loaded driver with its table of functions.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

use crate::api::Api;
use crate::error::{CallError, DriverError};
use crate::provider::Provider;
use crate::sys::{CUDA_ERROR_NOT_FOUND, CUDA_ERROR_STUB_LIBRARY, CUDA_SUCCESS, Code};

/// Calls a function of a driver's [`Api`]. Returns a `Result` whose error names the function.
macro_rules! call {
    ($driver:ident.$name:ident($($argument:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.api().$name)($($argument),*))
    };
}

pub(crate) use call;

/// A CUDA driver in this process. It is never unloaded; a process may have several.
pub struct Driver {
    provider: &'static dyn Provider,
    api: Api,
    version: (u32, u32),
    missing: Vec<&'static str>,
}

impl Driver {
    /// Returns the driver of an NVIDIA GPU. The first call finds and opens `libcuda.so.1`; later calls
    /// return the same driver.
    ///
    /// Opens the library that the environment variable [`PATH_VARIABLE`](crate::PATH_VARIABLE) names, if
    /// it is set and not empty. Otherwise looks for `libcuda.so.1` in the dynamic linker's search path,
    /// then in the usual directories. After a failure the call may be repeated.
    ///
    /// This does not call `cuInit`: a driver that loads may still find no GPU.
    ///
    /// # Errors
    /// Returns [`DriverError::NotFound`] or [`DriverError::Unusable`], or [`DriverError::NoDriverHere`]
    /// on a system other than Linux.
    pub fn load() -> Result<&'static Self, DriverError> {
        crate::loader::load()
    }

    /// Returns the driver whose library is at `path`, whatever the environment. A library that is
    /// already open yields the same driver.
    ///
    /// # Errors
    /// Returns [`DriverError::Unusable`] if the library is not a CUDA driver, or
    /// [`DriverError::NoDriverHere`] on a system other than Linux.
    ///
    /// # Safety
    /// Functions of the library that have the names of CUDA driver functions must behave like these.
    pub unsafe fn load_from(path: impl AsRef<std::path::Path>) -> Result<&'static Self, DriverError> {
        crate::loader::load_from(path.as_ref())
    }

    /// Creates a driver whose functions do not come from a library but, for example, from a simulator.
    /// Each call leaks a new driver, so call this once.
    ///
    /// # Errors
    /// Returns [`DriverError::Provided`] if the provider has no `cuInit` or reports no version.
    ///
    /// # Safety
    /// Each function that the provider finds must have the type of the CUDA driver function of that
    /// name, keep its contract, and stay valid until the process ends.
    pub unsafe fn provided(provider: &'static dyn Provider) -> Result<&'static Self, DriverError> {
        // SAFETY: the caller guarantees that the provider's functions behave like a driver's.
        let version = unsafe { identify(|name| provider.find(name)) }
            .map_err(|reason| DriverError::Provided { name: provider.name().to_owned(), reason })?;
        // SAFETY: the caller guarantees that the functions stay valid until the process ends.
        Ok(unsafe { Self::new(provider, version) })
    }

    /// # Safety
    /// The conditions of [`provided`](Self::provided) apply.
    pub(crate) unsafe fn new(provider: &'static dyn Provider, version: (u32, u32)) -> &'static Self {
        // SAFETY: the caller guarantees that the provider's functions behave like a driver's.
        let (api, missing) = unsafe { Api::from_symbols(|name| provider.find(name)) };
        Box::leak(Box::new(Self { provider, api, version, missing }))
    }

    /// Returns the table of functions.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Returns the driver's name for messages: the library's name or path, or the provider's name.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// Returns whether the driver only simulates a GPU.
    pub fn is_simulated(&self) -> bool {
        self.provider.simulated()
    }

    /// Reports that the host is about to read `bytes` bytes of results directly from memory at this
    /// device address: see [`Provider::host_takes`]. The driver of a real GPU ignores the report.
    pub fn host_takes(&self, address: u64, bytes: usize) {
        self.provider.host_takes(address, bytes);
    }

    /// Returns the newest CUDA version that the driver supports, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the functions of [`Api`] that this driver lacks. Calls to them return
    /// [`CUDA_ERROR_NOT_FOUND`].
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Returns the driver's function of this name, for functions outside [`Api`], or `None` if the
    /// driver does not have it.
    ///
    /// To call it, transmute it to the function's type with `c_int` for `CUresult`, and pass the result
    /// to [`check`](Self::check). The function stays valid until the process ends.
    pub fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        self.provider.find(name)
    }

    /// Converts the code that the driver function `call` returned to a `Result`.
    pub fn check(&self, call: &'static str, code: c_int) -> Result<(), CallError> {
        if code == CUDA_SUCCESS { Ok(()) } else { Err(self.failure(call, code)) }
    }

    /// Returns the error for a call that has just returned this code on this thread.
    #[cold]
    pub(crate) fn failure(&self, call: &'static str, code: c_int) -> CallError {
        let (name, text): (Cow<'static, str>, Cow<'static, str>) = match Code::of(code) {
            Some(known) => (known.name().into(), known.text().into()),
            None => (
                self.words(self.api.cuGetErrorName, code).map_or("unnamed".into(), Cow::Owned),
                self.words(self.api.cuGetErrorString, code).map_or("unknown error".into(), Cow::Owned),
            ),
        };
        let detail = if code == CUDA_ERROR_NOT_FOUND && self.missing.contains(&call) {
            Some("this driver does not have the function".to_owned())
        } else {
            self.provider.detail()
        };
        CallError { call, code, name, text, detail }
    }

    /// Calls `cuGetErrorName` or `cuGetErrorString` for a code that this crate does not know.
    fn words(
        &self,
        function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
        code: c_int,
    ) -> Option<String> {
        let mut text = ptr::null();
        // SAFETY: both functions take any code, and write one pointer to a local variable.
        let status = unsafe { function(code, &mut text) };
        if status != CUDA_SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: the driver returned its own NUL-terminated string, which is never freed.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    }
}

/// Returns the CUDA version of a candidate driver as (major, minor), or why it is not a driver.
///
/// # Safety
/// A `cuDriverGetVersion` that `find` returns must have the type and contract of the driver function.
pub(crate) unsafe fn identify(
    find: impl Fn(&str) -> Option<NonNull<c_void>>,
) -> Result<(u32, u32), String> {
    let (Some(_), Some(get_version)) = (find("cuInit"), find("cuDriverGetVersion")) else {
        return Err("not a CUDA driver (no cuInit or no cuDriverGetVersion)".to_owned());
    };
    // SAFETY: the caller guarantees that the function has the type of the driver function.
    let get_version: unsafe extern "C" fn(*mut c_int) -> c_int =
        unsafe { std::mem::transmute(get_version) };
    let mut version: c_int = 0;
    // SAFETY: the function may be called before `cuInit`, and writes one int to a local variable.
    match unsafe { get_version(&mut version) } {
        CUDA_SUCCESS => {}
        CUDA_ERROR_STUB_LIBRARY => return Err("the stub of a CUDA toolkit, not a driver".to_owned()),
        code => return Err(format!("cuDriverGetVersion failed with code {code}")),
    }
    match u32::try_from(version) {
        Ok(version) => Ok((version / 1000, version % 1000 / 10)),
        Err(_) => Err(format!("cuDriverGetVersion returned the version {version}")),
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("name", &self.name())
            .field("version", &self.version)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}
