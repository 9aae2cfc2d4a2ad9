//! A driver: its table of functions and where they come from.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

use crate::api::Api;
use crate::error::{CallError, DriverError};
use crate::provider::Provider;
use crate::sys::{CUDA_ERROR_NOT_FOUND, CUDA_ERROR_STUB_LIBRARY, CUDA_SUCCESS, Code};

/// Calls a function of a driver's table and checks what it returned, under the function's name.
macro_rules! call {
    ($driver:ident.$name:ident($($argument:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.api().$name)($($argument),*))
    };
}

pub(crate) use call;

/// A CUDA driver in this process. It stays until the process ends; several may be there.
pub struct Driver {
    provider: &'static dyn Provider,
    api: Api,
    version: (u32, u32),
    missing: Vec<&'static str>,
}

impl Driver {
    /// The driver of an NVIDIA GPU: finds and opens `libcuda.so.1` the first time, and returns the same
    /// driver ever after.
    ///
    /// Opens the library that [`PATH_VARIABLE`](crate::PATH_VARIABLE) names, if it is set and not empty;
    /// else `libcuda.so.1` wherever the dynamic linker finds it; else in the usual folders. A failure
    /// may be followed by another attempt.
    ///
    /// This does not call `cuInit`: a driver that loads may still find no GPU.
    ///
    /// # Errors
    /// [`DriverError::NotFound`] or [`DriverError::Unusable`]; on a system that NVIDIA has no driver
    /// for, [`DriverError::NoDriverHere`].
    pub fn load() -> Result<&'static Self, DriverError> {
        crate::loader::load()
    }

    /// The driver whose library is at `path`, whatever the environment says. A library that is open
    /// already is the same driver again.
    ///
    /// # Errors
    /// [`DriverError::Unusable`], if it is not a CUDA driver; [`DriverError::NoDriverHere`] as for
    /// [`load`](Self::load).
    ///
    /// # Safety
    /// Every function of the library that has the name of a CUDA driver function must behave like it.
    pub unsafe fn load_from(path: impl AsRef<std::path::Path>) -> Result<&'static Self, DriverError> {
        crate::loader::load_from(path.as_ref())
    }

    /// A driver of functions that come from somewhere else than a library, such as a simulator. Every
    /// call makes another driver that is never freed: keep the first.
    ///
    /// # Errors
    /// [`DriverError::Provided`], if it has no `cuInit`, or says no version.
    ///
    /// # Safety
    /// What the provider finds under the name of a CUDA driver function must have that function's type,
    /// keep its contract, and stay until the process ends.
    pub unsafe fn provided(provider: &'static dyn Provider) -> Result<&'static Self, DriverError> {
        // SAFETY: the caller's contract.
        let version = unsafe { identify(|name| provider.find(name)) }
            .map_err(|reason| DriverError::Provided { name: provider.name().to_owned(), reason })?;
        // SAFETY: likewise.
        Ok(unsafe { Self::new(provider, version) })
    }

    /// # Safety
    /// As [`provided`](Self::provided).
    pub(crate) unsafe fn new(provider: &'static dyn Provider, version: (u32, u32)) -> &'static Self {
        // SAFETY: the caller's contract.
        let (api, missing) = unsafe { Api::from_symbols(|name| provider.find(name)) };
        Box::leak(Box::new(Self { provider, api, version, missing }))
    }

    /// Returns the table of functions.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// What messages call it: the name or path that a library was opened by, or the provider's name.
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// Whether it only computes what a GPU would.
    pub fn is_simulated(&self) -> bool {
        self.provider.simulated()
    }

    /// Says that the host is about to take a result of `bytes` bytes out of memory that it reaches by
    /// itself, at the device's address: see [`Provider::host_takes`]. To a GPU's driver it is nothing.
    pub fn host_takes(&self, address: u64, bytes: usize) {
        self.provider.host_takes(address, bytes);
    }

    /// The newest CUDA version that the driver supports, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The functions of [`Api`] that this driver does not have. They return [`CUDA_ERROR_NOT_FOUND`].
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The driver's function of this name, for what is not in [`Api`]. `None` where the driver does not
    /// have it.
    ///
    /// Transmute it to the function's type to call it, with `c_int` for `CUresult`, and give the result
    /// to [`check`](Self::check). It is valid for the rest of the process.
    pub fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        self.provider.find(name)
    }

    /// Turns what a driver function returned into a result. `call` names the function.
    pub fn check(&self, call: &'static str, code: c_int) -> Result<(), CallError> {
        if code == CUDA_SUCCESS { Ok(()) } else { Err(self.failure(call, code)) }
    }

    /// What to say of a call on this thread that returned this code just now.
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

    /// The driver's own words for a code that is newer than our list.
    fn words(
        &self,
        function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
        code: c_int,
    ) -> Option<String> {
        let mut text = ptr::null();
        // SAFETY: either function takes any code and writes one pointer to a local variable.
        let status = unsafe { function(code, &mut text) };
        if status != CUDA_SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: the driver answered with a string of its own, which ends in a zero byte and is never
        // freed.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    }
}

/// The CUDA version of what answers like a driver, as (major, minor); else what is wrong with it.
///
/// # Safety
/// As [`Driver::provided`], for `cuDriverGetVersion`.
pub(crate) unsafe fn identify(
    find: impl Fn(&str) -> Option<NonNull<c_void>>,
) -> Result<(u32, u32), String> {
    let (Some(_), Some(get_version)) = (find("cuInit"), find("cuDriverGetVersion")) else {
        return Err("not a CUDA driver (no cuInit or no cuDriverGetVersion)".to_owned());
    };
    // SAFETY: this is the driver's cuDriverGetVersion, whose type this is in every release.
    let get_version: unsafe extern "C" fn(*mut c_int) -> c_int =
        unsafe { std::mem::transmute(get_version) };
    let mut version: c_int = 0;
    // SAFETY: it may be called before cuInit, and writes one int to a local variable.
    match unsafe { get_version(&mut version) } {
        CUDA_SUCCESS => {}
        CUDA_ERROR_STUB_LIBRARY => return Err("the stub of a CUDA toolkit, not a driver".to_owned()),
        code => return Err(format!("cuDriverGetVersion failed with code {code}")),
    }
    match u32::try_from(version) {
        Ok(version) => Ok((version / 1000, version % 1000 / 10)),
        Err(_) => Err(format!("cuDriverGetVersion says {version}")),
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
