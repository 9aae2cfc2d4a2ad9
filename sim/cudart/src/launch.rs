//! Launches and attributes of kernels.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
};

use warpfold_driver::{
    Api,
    sys::{CUfunction, CUstream, LaunchConfig as Config},
};

use crate::{
    errors::{
        INVALID_DEVICE_FUNCTION, INVALID_HANDLE, INVALID_VALUE, MISSING_CONFIGURATION, Outcome, check,
    },
    functions,
    registry::function,
    runtime::ready,
    types::{Dim3, FuncAttributes, LaunchConfig},
};

type Chevrons = (Dim3, Dim3, usize, usize);

thread_local! {
    static CHEVRONS: RefCell<Vec<Chevrons>> = const { RefCell::new(Vec::new()) };
}

/// `__cudaPushCallConfiguration`: stores a launch configuration until `__cudaPopCallConfiguration`.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
) -> c_uint {
    CHEVRONS.with_borrow_mut(|all| all.push((grid, block, shared_bytes, stream.expose_provenance())));
    0
}

functions! {
    fn __cudaPopCallConfiguration(
        grid: *mut Dim3,
        block: *mut Dim3,
        shared_bytes: *mut usize,
        stream: *mut c_void,
    ) {
        let kept = CHEVRONS.with_borrow_mut(Vec::pop).ok_or(MISSING_CONFIGURATION)?;
        grid.write(kept.0);
        block.write(kept.1);
        shared_bytes.write(kept.2);
        stream.cast::<CUstream>().write(ptr::with_exposed_provenance_mut(kept.3));
        Ok(())
    }

    fn __cudaGetKernel(kernel: *mut *const c_void, host: *const c_void) {
        // The host address serves as the handle; the device is chosen at the launch.
        kernel.write(host);
        Ok(())
    }

    fn cudaGetKernel(kernel: *mut *const c_void, host: *const c_void) {
        kernel.write(host);
        Ok(())
    }

    fn __cudaLaunchKernel(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        parameters: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        launch(kernel, (grid, block), parameters, shared_bytes, stream)
    }

    fn cudaLaunchKernel(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        parameters: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        launch(kernel, (grid, block), parameters, shared_bytes, stream)
    }

    fn cudaLaunchCooperativeKernel(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        parameters: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        let (api, function) = (ready()?, launched(kernel)?);
        let shared_bytes = narrowed(shared_bytes)?;
        check((api.cuLaunchCooperativeKernel)(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, stream, parameters,
        ))
    }

    fn cudaLaunchKernelExC(
        config: *const LaunchConfig,
        kernel: *const c_void,
        parameters: *mut *mut c_void,
    ) {
        let (api, function, config) = (ready()?, launched(kernel)?, config.read());
        let shared_bytes = narrowed(config.shared_bytes)?;
        let config = Config {
            grid: [config.grid.x, config.grid.y, config.grid.z],
            block: [config.block.x, config.block.y, config.block.z],
            shared_bytes,
            stream: config.stream,
            attributes: config.attributes,
            attribute_count: config.attribute_count,
        };
        check((api.cuLaunchKernelEx)(&config, function, parameters, ptr::null_mut()))
    }

    fn cudaFuncGetAttributes(attributes: *mut FuncAttributes, kernel: *const c_void) {
        let (api, function) = (ready()?, launched(kernel)?);
        let ask = |attribute| asked(api, function, attribute);
        let numbers = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14].map(ask);
        let [shared_bytes, const_bytes, local_bytes] = [1, 2, 3].map(|bytes| ask(bytes) as usize);
        let reserved = [0; 16];
        attributes.write(FuncAttributes { shared_bytes, const_bytes, local_bytes, numbers, reserved });
        Ok(())
    }

    fn cudaFuncSetAttribute(kernel: *const c_void, attribute: c_int, value: c_int) {
        check((ready()?.cuFuncSetAttribute)(function(kernel)?, attribute, value))
    }

    fn cudaFuncSetCacheConfig(kernel: *const c_void, config: c_int) {
        check((ready()?.cuFuncSetCacheConfig)(function(kernel)?, config))
    }

    fn cudaFuncSetSharedMemConfig(kernel: *const c_void, config: c_int) {
        check((ready()?.cuFuncSetSharedMemConfig)(function(kernel)?, config))
    }

    fn cudaFuncGetName(name: *mut *const c_char, kernel: *const c_void) {
        check((ready()?.cuFuncGetName)(name, function(kernel)?))
    }

    fn cudaFuncGetParamInfo(
        kernel: *const c_void,
        index: usize,
        offset: *mut usize,
        bytes: *mut usize,
    ) {
        check((ready()?.cuFuncGetParamInfo)(function(kernel)?, index, offset, bytes))
    }

    fn cudaGetFuncBySymbol(found: *mut CUfunction, kernel: *const c_void) {
        found.write(function(kernel)?);
        Ok(())
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        kernel: *const c_void,
        block_size: c_int,
        shared_bytes: usize,
    ) {
        let api = ready()?;
        let function = function(kernel)?;
        check((api.cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, function, block_size, shared_bytes))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        kernel: *const c_void,
        block_size: c_int,
        shared_bytes: usize,
        flags: c_uint,
    ) {
        let ask = ready()?.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        check(ask(blocks, function(kernel)?, block_size, shared_bytes, flags))
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        kernel: *const c_void,
        blocks: c_int,
        block_size: c_int,
    ) {
        let ask = ready()?.cuOccupancyAvailableDynamicSMemPerBlock;
        check(ask(bytes, function(kernel)?, blocks, block_size))
    }
}

/// Returns an attribute of a kernel; 0 if the driver does not know it.
fn asked(api: &Api, function: CUfunction, attribute: c_int) -> c_int {
    let mut value = 0;
    // SAFETY: the driver writes a number, and the function exists.
    let _ = unsafe { (api.cuFuncGetAttribute)(&mut value, attribute, function) };
    value
}

/// # Safety
/// The parameters are those of the kernel, and the stream exists.
unsafe fn launch(
    kernel: *const c_void,
    (grid, block): (Dim3, Dim3),
    parameters: *mut *mut c_void,
    shared_bytes: usize,
    stream: CUstream,
) -> Outcome {
    let (api, function) = (ready()?, launched(kernel)?);
    let shared_bytes = narrowed(shared_bytes)?;
    let Dim3 { x, y, z } = block;
    // SAFETY: the kernel exists; by this function's contract, so do its parameters and the stream.
    check(unsafe {
        (api.cuLaunchKernel)(
            function,
            grid.x,
            grid.y,
            grid.z,
            x,
            y,
            z,
            shared_bytes,
            stream,
            parameters,
            ptr::null_mut(),
        )
    })
}

fn narrowed(shared_bytes: usize) -> Outcome<c_uint> {
    c_uint::try_from(shared_bytes).map_err(|_| INVALID_VALUE)
}

/// Returns the function to launch. For an unknown kernel, launches return a different error code than
/// the runtime's other functions.
fn launched(kernel: *const c_void) -> Outcome<CUfunction> {
    function(kernel).map_err(|code| if code == INVALID_DEVICE_FUNCTION { INVALID_HANDLE } else { code })
}
