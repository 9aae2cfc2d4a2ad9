//! Fat binaries, kernels and variables that the program registers by host address before `main`. They
//! are loaded on first use, separately on each device.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use warpfold_driver::sys::{
    CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUdeviceptr, CUfunction, CUmodule,
};

use crate::{
    errors::{INVALID_DEVICE_FUNCTION, INVALID_SYMBOL, Outcome, check, say},
    runtime::{device, ready},
    types::Dim3,
};

/// Size in bytes of the buffer for the driver's error log.
const MOST_SAID: usize = 4096;

/// Host addresses and driver handles are stored as numbers, because pointers are not `Send`.
#[derive(Default)]
struct Registry {
    /// Addresses of fat binaries; 0 after the program has unregistered one.
    images: Vec<usize>,
    /// Kernels by host address: the index of the fat binary, and the name in it.
    kernels: HashMap<usize, (usize, CString)>,
    /// Variables by host address: the index of the fat binary, the name in it, and the size in bytes.
    variables: HashMap<usize, (usize, CString, usize)>,
    modules: HashMap<(usize, c_int), usize>,
    functions: HashMap<(usize, c_int), usize>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

#[repr(C)]
struct Wrapper {
    magic: c_int,
    version: c_int,
    image: *const c_void,
    others: *mut c_void,
}

/// `__cudaRegisterFatBinary`: registers a fat binary and returns its handle.
///
/// # Safety
/// Only code that nvcc generates may call this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    // SAFETY: nvcc's code passes the address of a static `Wrapper`.
    let image = unsafe { (*wrapper.cast::<Wrapper>()).image };
    let mut registry = registry();
    registry.images.push(image.expose_provenance());
    ptr::without_provenance_mut(registry.images.len())
}

/// `__cudaRegisterFatBinaryEnd`: does nothing, because images are loaded on first use.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// `__cudaInitModule`: does nothing, because images are loaded on first use.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(_handle: *mut *mut c_void) -> c_char {
    0
}

/// `__cudaUnregisterFatBinary`: called when the program ends, or unloads the library that contains the
/// image.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let mut registry = registry();
    let at = handle.addr().wrapping_sub(1);
    if let Some(image) = registry.images.get_mut(at) {
        *image = 0;
    }
    registry.kernels.retain(|_, (image, _)| *image != at);
    registry.variables.retain(|_, (image, ..)| *image != at);
}

/// `__cudaRegisterFunction`: registers the host address of a kernel.
///
/// # Safety
/// Only code that nvcc generates may call this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut Dim3,
    _grid_dim: *mut Dim3,
    _warp_size: *mut c_int,
) {
    // SAFETY: nvcc's code passes a null-terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    registry().kernels.insert(host.addr(), (handle.addr().wrapping_sub(1), name));
}

/// `__cudaRegisterVar`: registers the host address of a variable.
///
/// # Safety
/// Only code that nvcc generates may call this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: nvcc's code passes a null-terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    registry().variables.insert(host.addr(), (handle.addr().wrapping_sub(1), name, bytes));
}

pub(crate) fn forget(device: c_int) {
    let mut registry = registry();
    registry.modules.retain(|(_, of), _| *of != device);
    registry.functions.retain(|(_, of), _| *of != device);
}

impl Registry {
    /// Returns the module of an image on `device`, the thread's current device; loads it on first use.
    fn module(&mut self, image: usize, device: c_int) -> Outcome<CUmodule> {
        if let Some(&module) = self.modules.get(&(image, device)) {
            return Ok(ptr::with_exposed_provenance_mut(module));
        }
        let address: *const c_void = match self.images.get(image) {
            None | Some(0) => return Err(INVALID_DEVICE_FUNCTION),
            Some(&address) => ptr::with_exposed_provenance(address),
        };
        let api = ready()?;
        let mut module: CUmodule = ptr::null_mut();
        let mut said = [0_u8; MOST_SAID];
        let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [said.as_mut_ptr().cast(), ptr::without_provenance_mut(MOST_SAID)];
        let (count, options, values) =
            (options.len() as c_uint, options.as_mut_ptr(), values.as_mut_ptr());
        // SAFETY: the program has registered the image, and the options give the buffer and its size.
        let loaded =
            unsafe { check((api.cuModuleLoadDataEx)(&mut module, address, count, options, values)) };
        loaded.inspect_err(|code| {
            let said = CStr::from_bytes_until_nul(&said).unwrap_or_default().to_string_lossy();
            say(&format!(
                "libcudart: the driver cannot load the program's kernels (code {code}): {said}"
            ));
        })?;
        self.modules.insert((image, device), module.expose_provenance());
        Ok(module)
    }
}

pub(crate) fn function(host: *const c_void) -> Outcome<CUfunction> {
    let (api, device, mut registry) = (ready()?, device()?, registry());
    if let Some(&function) = registry.functions.get(&(host.addr(), device)) {
        return Ok(ptr::with_exposed_provenance_mut(function));
    }
    let (image, name) = registry.kernels.get(&host.addr()).cloned().ok_or(INVALID_DEVICE_FUNCTION)?;
    let module = registry.module(image, device)?;
    let mut function: CUfunction = ptr::null_mut();
    // SAFETY: the module exists, and the name is null-terminated.
    check(unsafe { (api.cuModuleGetFunction)(&mut function, module, name.as_ptr()) })?;
    registry.functions.insert((host.addr(), device), function.expose_provenance());
    Ok(function)
}

pub(crate) fn variable(host: *const c_void) -> Outcome<(CUdeviceptr, usize)> {
    let (api, device, mut registry) = (ready()?, device()?, registry());
    let (image, name, bytes) = registry.variables.get(&host.addr()).cloned().ok_or(INVALID_SYMBOL)?;
    let module = registry.module(image, device)?;
    let (mut address, mut found) = (0, 0);
    // SAFETY: the module exists, and the name is null-terminated.
    let code = unsafe { (api.cuModuleGetGlobal_v2)(&mut address, &mut found, module, name.as_ptr()) };
    check(code).map_err(|_| INVALID_SYMBOL)?;
    Ok((address, bytes.max(found)))
}
