//! Modules and their kernels.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr;

use crate::driver::{Driver, call};
use crate::error::{CallError, PtxError};
use crate::handle::{Function, Module};
use crate::sys;

const LOAD: &str = "cuModuleLoadDataEx";

const LOG_BYTES: usize = 16 * 1024;

impl Driver {
    /// Compiles PTX for the device of the current context and loads it.
    ///
    /// # Errors
    /// Returns the driver's error with the log of its compiler.
    pub fn module_load_ptx(&self, ptx: &str) -> Result<Module, PtxError> {
        self.module_load_c_ptx(&self.c_ptx(ptx)?)
    }

    pub(crate) fn c_ptx(&self, ptx: &str) -> Result<CString, PtxError> {
        CString::new(ptx).map_err(|error| {
            let log = format!("error: the PTX has a zero byte at offset {}", error.nul_position());
            self.rejected(sys::CUDA_ERROR_INVALID_PTX, log)
        })
    }

    /// Compiles and loads NUL-terminated PTX, like [`module_load_ptx`](Self::module_load_ptx).
    pub fn module_load_c_ptx(&self, ptx: &CStr) -> Result<Module, PtxError> {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut module = ptr::null_mut();
        let mut options = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver takes a value that fits into a pointer in place of the pointer.
        let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut::<c_void>(LOG_BYTES)];
        // SAFETY: the text is NUL-terminated and outlives the call; both arrays have the given length;
        // the driver writes at most `LOG_BYTES` bytes to the log, and overwrites the second value.
        let code = unsafe {
            (self.api().cuModuleLoadDataEx)(
                &mut module,
                ptx.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == sys::CUDA_SUCCESS {
            return Ok(Module::from_raw(module));
        }
        let length = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
        Err(self.rejected(code, String::from_utf8_lossy(&log[..length]).into_owned()))
    }

    fn rejected(&self, code: c_int, log: String) -> PtxError {
        PtxError::new(self.failure(LOAD, code), log)
    }

    /// Loads a cubin or a fatbin.
    ///
    /// # Safety
    /// The image must be complete: the driver takes the length from the image's headers.
    pub unsafe fn module_load_data(&self, image: &[u8]) -> Result<Module, CallError> {
        let mut module = ptr::null_mut();
        // SAFETY: the caller guarantees a complete image; the call writes to a local variable.
        unsafe { call!(self.cuModuleLoadData(&mut module, image.as_ptr().cast())) }?;
        Ok(Module::from_raw(module))
    }

    /// Unloads a module.
    ///
    /// # Safety
    /// The module must be alive. The module, its functions and its globals must not be used afterwards,
    /// and no work that uses them may be pending.
    pub unsafe fn module_unload(&self, module: Module) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live module that is not used afterwards.
        unsafe { call!(self.cuModuleUnload(module.raw())) }
    }

    /// Returns the kernel of this name, which lives as long as its module.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_NOT_FOUND` if the module does not contain it.
    ///
    /// # Safety
    /// The module must be alive.
    pub unsafe fn module_get_function(
        &self,
        module: Module,
        name: &CStr,
    ) -> Result<Function, CallError> {
        let mut function = ptr::null_mut();
        // SAFETY: the caller guarantees a live module; the call writes one handle to a local variable.
        unsafe { call!(self.cuModuleGetFunction(&mut function, module.raw(), name.as_ptr())) }?;
        Ok(Function::from_raw(function))
    }

    /// Returns the address and the size in bytes of the global variable of this name.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_NOT_FOUND` if the module does not contain it.
    ///
    /// # Safety
    /// The module must be alive.
    pub unsafe fn module_get_global(
        &self,
        module: Module,
        name: &CStr,
    ) -> Result<(sys::CUdeviceptr, usize), CallError> {
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the caller guarantees a live module; the call writes two numbers to local variables.
        unsafe {
            call!(self.cuModuleGetGlobal_v2(&mut address, &mut bytes, module.raw(), name.as_ptr()))
        }?;
        Ok((address, bytes))
    }

    /// Returns an attribute of a kernel. `attribute` is a number such as
    /// [`sys::CU_FUNC_ATTRIBUTE_NUM_REGS`].
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn func_get_attribute(
        &self,
        function: Function,
        attribute: sys::CUfunction_attribute,
    ) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: the caller guarantees a live function; the call writes one int to a local variable.
        unsafe { call!(self.cuFuncGetAttribute(&mut value, attribute, function.raw())) }?;
        Ok(value)
    }

    /// Sets an attribute of a kernel. For example, more than 48 KiB of dynamic shared memory require
    /// [`sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`].
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_VALUE` for a value above the device's maximum.
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn func_set_attribute(
        &self,
        function: Function,
        attribute: sys::CUfunction_attribute,
        value: i32,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live function.
        unsafe { call!(self.cuFuncSetAttribute(function.raw(), attribute, value)) }
    }

    /// Returns the offset and the size in bytes of the kernel parameter at `index`, or `None` past the
    /// last one. Requires a driver of CUDA 12.4 or newer.
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn func_get_param_info(
        &self,
        function: Function,
        index: usize,
    ) -> Result<Option<(usize, usize)>, CallError> {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the caller guarantees a live function; the call writes two numbers to local variables.
        let asked =
            unsafe { call!(self.cuFuncGetParamInfo(function.raw(), index, &mut offset, &mut bytes)) };
        match asked {
            Ok(()) => Ok(Some((offset, bytes))),
            Err(error) if error.code == sys::CUDA_ERROR_INVALID_VALUE => Ok(None),
            Err(error) => Err(error),
        }
    }
}
