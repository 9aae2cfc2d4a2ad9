//! Host memory that kernels can access: page-locked or registered.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpfold_driver::sys::*;

use super::memory::{allocate_host, free_host};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::Out;
use crate::pages;
use crate::world::{self, HostAllocation, HostKind};

/// Polling interval while launches still use memory that is being unregistered.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

pub(crate) fn cuMemAllocHost_v2(address: Out<*mut c_void>, bytes: usize) -> Outcome {
    allocate(address, "cuMemAllocHost", bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE)
}

pub(crate) fn cuMemHostAlloc(address: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Outcome {
    let all = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if flags & !all != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // With unified addressing all page-locked memory is mapped.
    allocate(address, "cuMemHostAlloc", bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP)
}

fn allocate(place: Out<*mut c_void>, call: &'static str, bytes: usize, flags: c_uint) -> Outcome {
    let address = allocate_host(call, bytes, flags, HostKind::PageLocked)?;
    place.put(std::ptr::with_exposed_provenance_mut(address as usize))
}

pub(crate) fn cuMemFreeHost(address: *mut c_void) -> Outcome {
    let mut state = world::lock();
    state.here()?;
    state.check_unsafe_call("cuMemFreeHost")?;
    let mut state = world::before_free(state)?;
    let address = address.addr() as u64;
    match state.host.allocations.get(&address) {
        Some(HostAllocation { kind: HostKind::PageLocked, .. }) => {
            free_host(&mut state, "cuMemFreeHost", address)
        }
        _ => {
            let detail = format!("{address:#x} is not the start of allocated page-locked memory");
            fail_with(CUDA_ERROR_INVALID_VALUE, detail)
        }
    }
}

pub(crate) fn cuMemHostGetDevicePointer_v2(
    dptr: Out<CUdeviceptr>,
    address: *mut c_void,
    flags: c_uint,
) -> Outcome {
    let state = world::lock();
    state.here()?;
    let address = address.addr() as u64;
    match state.host.holder(address) {
        Some(_) if flags == 0 => dptr.put(address),
        _ => fail(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuMemHostGetFlags(flags: Out<c_uint>, address: *mut c_void) -> Outcome {
    let state = world::lock();
    state.here()?;
    let (_, found) = state.host.holder(address.addr() as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    flags.put(found.flags)
}

pub(crate) fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    let all = CU_MEMHOSTREGISTER_PORTABLE
        | CU_MEMHOSTREGISTER_DEVICEMAP
        | CU_MEMHOSTREGISTER_IOMEMORY
        | CU_MEMHOSTREGISTER_READ_ONLY;
    let mut state = world::lock();
    let context = state.here()?;
    state.check_unsafe_call("cuMemHostRegister")?;
    let start = address.expose_provenance() as u64;
    let is_whole = start != 0 && bytes != 0 && start.checked_add(bytes as u64 + 8).is_some();
    if flags & !all != 0 || !is_whole {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: CUDA requires that the program has allocated the bytes, keeps them until
    // `cuMemHostUnregister` returns, and does not touch them while work uses them. `cuMemHostUnregister`
    // waits until `keeper` has no other owner.
    let registered = unsafe { pages::register(&state.host.memory, start, bytes as u64) };
    let (lent_at, keeper) = registered?;
    let kind = HostKind::Registered(keeper);
    let allocation = HostAllocation { bytes: bytes as u64, context, flags, kind, lent_at };
    state.host.allocations.insert(start, allocation);
    Ok(())
}

pub(crate) fn cuMemHostUnregister(address: *mut c_void) -> Outcome {
    let mut state = world::lock();
    state.here()?;
    state.check_unsafe_call("cuMemHostUnregister")?;
    let start = address.addr() as u64;
    let Some(HostAllocation { kind: HostKind::Registered(keeper), .. }) =
        state.host.allocations.get(&start)
    else {
        return fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    };
    let keeper = Arc::clone(keeper);
    free_host(&mut state, "cuMemHostUnregister", start)?;
    drop(state);
    // The program may free the bytes next, so wait until no launch or copy of another thread can access
    // them any more.
    while Arc::strong_count(&keeper) > 1 {
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}
