//! Devices, their properties, and functions that concern the whole runtime.

use std::ffi::{c_char, c_int, c_uint, c_void};

use warpfold_driver::sys::CUuuid;

use crate::{
    errors::{INVALID_VALUE, Outcome, check},
    functions,
    runtime::{api, device, primary, ready, reset, set_device},
    types::{ChannelFormat, DeviceProp},
};

/// Version of the implemented interface: CUDA 13.0.
const VERSION: c_int = 13_000;

functions! {
    fn cudaGetDeviceCount(count: *mut c_int) {
        check((api()?.cuDeviceGetCount)(count))
    }

    fn cudaGetDevice(current: *mut c_int) {
        current.write(device()?);
        Ok(())
    }

    fn cudaSetDevice(ordinal: c_int) {
        set_device(ordinal)
    }

    fn cudaInitDevice(ordinal: c_int, _flags: c_uint, _valid: c_uint) {
        primary(ordinal).map(drop)
    }

    fn cudaSetValidDevices(_devices: *mut c_int, _count: c_int) {
        Ok(())
    }

    fn cudaChooseDevice(chosen: *mut c_int, _wanted: *const DeviceProp) {
        api()?;
        chosen.write(0);
        Ok(())
    }

    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, ordinal: c_int) {
        check((api()?.cuDeviceGetAttribute)(value, attribute, ordinal))
    }

    fn cudaGetDeviceProperties(properties: *mut DeviceProp, ordinal: c_int) {
        if properties.is_null() {
            return Err(INVALID_VALUE);
        }
        properties.write(of_device(ordinal)?);
        Ok(())
    }

    fn cudaDeviceSynchronize() {
        check((ready()?.cuCtxSynchronize)())
    }

    fn cudaDeviceReset() {
        reset(device()?)
    }

    fn cudaDeviceGetLimit(value: *mut usize, limit: c_int) {
        check((ready()?.cuCtxGetLimit)(value, limit))
    }

    fn cudaDeviceSetLimit(limit: c_int, value: usize) {
        check((ready()?.cuCtxSetLimit)(limit, value))
    }

    fn cudaDeviceGetCacheConfig(config: *mut c_int) {
        check((ready()?.cuCtxGetCacheConfig)(config))
    }

    fn cudaDeviceSetCacheConfig(config: c_int) {
        check((ready()?.cuCtxSetCacheConfig)(config))
    }

    fn cudaDeviceGetSharedMemConfig(config: *mut c_int) {
        check((ready()?.cuCtxGetSharedMemConfig)(config))
    }

    fn cudaDeviceSetSharedMemConfig(config: c_int) {
        check((ready()?.cuCtxSetSharedMemConfig)(config))
    }

    fn cudaGetDeviceFlags(flags: *mut c_uint) {
        check((ready()?.cuCtxGetFlags)(flags))
    }

    fn cudaSetDeviceFlags(flags: c_uint) {
        // The flags choose how the host waits, which changes no result. `cudaDeviceMapHost`, which is 8,
        // is always in effect.
        if flags & !0x1f != 0 {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        check((ready()?.cuCtxGetStreamPriorityRange)(least, greatest))
    }

    fn cudaDeviceGetPCIBusId(id: *mut c_char, len: c_int, ordinal: c_int) {
        check((api()?.cuDeviceGetPCIBusId)(id, len, ordinal))
    }

    fn cudaDeviceGetByPCIBusId(ordinal: *mut c_int, id: *const c_char) {
        check((api()?.cuDeviceGetByPCIBusId)(ordinal, id))
    }

    fn cudaDeviceCanAccessPeer(can: *mut c_int, ordinal: c_int, peer: c_int) {
        check((api()?.cuDeviceCanAccessPeer)(can, ordinal, peer))
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        check((ready()?.cuCtxEnablePeerAccess)(primary(peer)?, flags))
    }

    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        check((ready()?.cuCtxDisablePeerAccess)(primary(peer)?))
    }

    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, from: c_int, to: c_int) {
        check((api()?.cuDeviceGetP2PAttribute)(value, attribute, from, to))
    }

    fn cudaDriverGetVersion(version: *mut c_int) {
        // Without a driver the version is 0, and the call succeeds.
        version.write(0);
        match api() {
            Ok(api) => check((api.cuDriverGetVersion)(version)),
            Err(_) => Ok(()),
        }
    }

    fn cudaRuntimeGetVersion(version: *mut c_int) {
        version.write(VERSION);
        Ok(())
    }

    fn cudaProfilerStart() {
        check((ready()?.cuProfilerStart)())
    }

    fn cudaProfilerStop() {
        check((ready()?.cuProfilerStop)())
    }

    fn cudaGetDriverEntryPoint(
        symbol: *const c_char,
        function: *mut *mut c_void,
        flags: u64,
        status: *mut c_int,
    ) {
        check((api()?.cuGetProcAddress_v2)(symbol, function, VERSION, flags, status))
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: c_uint,
        flags: u64,
        status: *mut c_int,
    ) {
        check((api()?.cuGetProcAddress_v2)(symbol, function, version as c_int, flags, status))
    }
}

fn of_device(ordinal: c_int) -> Outcome<DeviceProp> {
    let api = api()?;
    let ask = |attribute: c_int| -> c_int {
        let mut value = 0;
        // Attributes unknown to the driver are 0.
        // SAFETY: the driver writes an integer to `value`.
        let _ = unsafe { (api.cuDeviceGetAttribute)(&mut value, attribute, ordinal) };
        value
    };
    let (mut name, mut uuid, mut total_bytes) = ([0; 256], CUuuid::default(), 0);
    // SAFETY: the driver writes at most `name.len()` bytes of text, a size, and 16 bytes of UUID.
    unsafe {
        check((api.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, ordinal))?;
        check((api.cuDeviceTotalMem_v2)(&mut total_bytes, ordinal))?;
        let _ = (api.cuDeviceGetUuid_v2)(&mut uuid, ordinal);
    }
    let mut textures = [0; 39];
    // Only the texture sizes of one, two and three dimensions are filled in.
    for (at, attribute) in [(0, 21), (2, 22), (3, 23), (11, 24), (12, 25), (13, 26)] {
        textures[at] = ask(attribute);
    }
    Ok(DeviceProp {
        name,
        uuid: uuid.bytes,
        luid: [0; 8],
        luid_mask: 0,
        total_bytes,
        shared_bytes: ask(8) as usize,
        registers: ask(12),
        warp: ask(10),
        pitch: ask(11) as usize,
        block_threads: ask(1),
        block: [2, 3, 4].map(ask),
        grid: [5, 6, 7].map(ask),
        const_bytes: ask(9) as usize,
        major: ask(75),
        minor: ask(76),
        texture_alignment: ask(14) as usize,
        texture_pitch_alignment: ask(51) as usize,
        multiprocessors: ask(16),
        integrated: ask(18),
        can_map_host: ask(19),
        textures,
        surface_alignment: ask(30) as usize,
        from_concurrent: [31, 32, 33, 34, 50, 35, 40, 41, 37, 38, 108, 39, 78, 79, 80].map(ask),
        multiprocessor_shared_bytes: ask(81) as usize,
        from_registers: [82, 83, 84, 85, 86, 88, 89, 90, 91, 95].map(ask),
        optin_shared_bytes: ask(97) as usize,
        from_page_tables: [100, 101, 106, 109].map(ask),
        reserved_shared_bytes: ask(111) as usize,
        from_host_register: [
            99, 112, 113, 114, 115, 116, 117, 118, 119, 121, 125, 120, 129, 130, 131, 133, 134, 0, 0, 0,
        ]
        .map(|attribute| if attribute == 0 { 0 } else { ask(attribute) }),
        reserved: [0; 56],
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    kind: c_int,
) -> ChannelFormat {
    ChannelFormat { bits: [x, y, z, w], kind }
}
