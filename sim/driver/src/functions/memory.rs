//! Device and managed memory.

use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::GlobalMemory;

use super::device;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{Out, put_if};
use crate::pages;
use crate::watch::Watcher;
use crate::world::{self, HostAllocation, HostKind, State};

/// The number of the host as a device.
const CU_DEVICE_CPU: CUdevice = -1;

/// Alignment of rows of pitched memory, in bytes.
const PITCH: usize = 512;

/// The contents of new memory. A GPU's driver leaves them undefined, and they are often zero, which
/// hides a missing initialisation. This pattern is NaN in every floating-point type and an implausible
/// count.
const NEW: u64 = u64::MAX;

/// Number of bytes at the start of an allocation that are filled with [`NEW`]. The rest stays zero: the
/// host provides a page when it is touched, and a program may touch few pages of a large allocation.
const NEW_BYTES: u64 = 1 << 20;

pub(crate) fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    let device = state.context(here)?.device;
    free.put(state.free_bytes(device) as usize)?;
    total.put(state.devices[device as usize].addresses.budget().limit() as usize)
}

/// Allocates device memory in the current context, and returns the watcher to notify.
pub(crate) fn allocate(state: &mut State, bytes: usize) -> Outcome<(u64, Option<Arc<dyn Watcher>>)> {
    let here = state.here()?;
    if bytes == 0 {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "0 bytes are requested; allowed are 1 or more");
    }
    state.require_room(bytes)?;
    let device = state.contexts[&here].device;
    let rounded = (bytes as u64).next_multiple_of(state.devices[device as usize].round);
    state.check_promised(device, rounded)?;
    let context = state.context(here)?;
    let address = context.gpu.alloc(rounded)?;
    make_new(context.gpu.memory(), address, bytes as u64)?;
    Ok((address, context.watcher.clone()))
}

pub(crate) fn make_new(memory: &GlobalMemory, address: u64, bytes: u64) -> Outcome {
    Ok(memory.fill(address, NEW, bytes.min(NEW_BYTES))?)
}

/// Notifies a watcher of new memory. The caller has released the lock.
pub(crate) fn tell(watcher: Option<Arc<dyn Watcher>>, address: u64, bytes: usize) {
    if let Some(watcher) = watcher {
        watcher.allocated(address, bytes as u64);
    }
}

pub(crate) fn cuMemAlloc_v2(dptr: Out<CUdeviceptr>, bytes: usize) -> Outcome {
    let mut state = world::lock();
    state.here()?;
    state.check_unsafe_call("cuMemAlloc")?;
    let (address, watcher) = allocate(&mut state, bytes)?;
    drop(state);
    tell(watcher, address, bytes);
    dptr.put(address)
}

pub(crate) fn cuMemAllocPitch_v2(
    dptr: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width_in_bytes: usize,
    height: usize,
    element_size_bytes: c_uint,
) -> Outcome {
    if ![4, 8, 16].contains(&element_size_bytes) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let row = width_in_bytes.checked_next_multiple_of(PITCH).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let bytes = row.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    cuMemAlloc_v2(dptr, bytes)?;
    pitch.put(row)
}

pub(crate) fn cuMemFree_v2(dptr: CUdeviceptr) -> Outcome {
    let mut state = world::lock();
    state.here()?;
    if dptr == 0 {
        return Ok(());
    }
    state.check_unsafe_call("cuMemFree")?;
    let mut state = world::before_free(state)?;
    if let Some(since) = state.may_free(dptr)? {
        state = world::force(state, &[since]);
    }
    if state.host.allocations.get(&dptr).is_some_and(|found| matches!(found.kind, HostKind::Managed)) {
        return free_host(&mut state, "cuMemFree", dptr);
    }
    let Some((owner, memory)) = state.owner_of(dptr) else { return not_allocated(dptr) };
    state.check(owner)?;
    let bytes = memory.allocation_of(dptr).filter(|&(base, _)| base == dptr).map(|(_, bytes)| bytes);
    let Some(bytes) = bytes else { return not_allocated(dptr) };
    state.note_freed(owner, "cuMemFree", dptr, bytes);
    state.leave_pool(dptr);
    memory.free(dptr)?;
    state.freed_by_call(dptr, None);
    let watcher = state.contexts.get(&owner).and_then(|context| context.watcher.clone());
    drop(state);
    if let Some(watcher) = watcher {
        watcher.freed(dptr, bytes);
    }
    Ok(())
}

fn not_allocated(address: u64) -> Outcome {
    let detail = format!("{address:#x} is not the start of allocated memory");
    fail_with(CUDA_ERROR_INVALID_VALUE, detail)
}

pub(crate) fn free_host(state: &mut State, call: &'static str, address: u64) -> Outcome {
    let Some(found) = state.host.allocations.get(&address) else { return not_allocated(address) };
    let (owner, bytes, lent_at) = (found.context, found.bytes, found.lent_at);
    state.note_freed(owner, call, address, bytes);
    state.host.allocations.remove(&address);
    state.host.memory.free(lent_at)?;
    Ok(())
}

pub(crate) fn cuMemGetAddressRange_v2(
    base: Option<Out<CUdeviceptr>>,
    size: Option<Out<usize>>,
    dptr: CUdeviceptr,
) -> Outcome {
    let state = world::lock();
    state.here()?;
    let (address, bytes) = state.allocation_of(dptr).ok_or(CUDA_ERROR_NOT_FOUND)?;
    put_if(base, address)?;
    put_if(size, bytes as usize)
}

pub(crate) fn cuMemAllocManaged(dptr: Out<CUdeviceptr>, bytes: usize, flags: c_uint) -> Outcome {
    if flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    dptr.put(allocate_host("cuMemAllocManaged", bytes, flags, HostKind::Managed)?)
}

pub(crate) fn allocate_host(
    call: &'static str,
    bytes: usize,
    flags: c_uint,
    kind: HostKind,
) -> Outcome<u64> {
    let mut state = world::lock();
    let context = state.here()?;
    state.check_unsafe_call(call)?;
    if bytes == 0 {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "0 bytes are requested; allowed are 1 or more");
    }
    state.require_room(bytes)?;
    let address = pages::allocate(&state.host.memory, bytes as u64)?;
    make_new(&state.host.memory, address, bytes as u64)?;
    let allocation = HostAllocation { bytes: bytes as u64, context, flags, kind, lent_at: address };
    state.host.allocations.insert(address, allocation);
    Ok(address)
}

pub(crate) fn cuMemAdvise(
    dptr: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> Outcome {
    cuMemAdvise_v2(dptr, count, advice, location_of(device))
}

pub(crate) fn cuMemAdvise_v2(
    dptr: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    location: CUmemLocation,
) -> Outcome {
    let state = world::lock();
    match advice {
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION => check_location(&state, location)?,
        CU_MEM_ADVISE_SET_ACCESSED_BY | CU_MEM_ADVISE_UNSET_ACCESSED_BY => match location.kind {
            CU_MEM_LOCATION_TYPE_DEVICE | CU_MEM_LOCATION_TYPE_HOST => check_location(&state, location)?,
            kind => {
                let detail = format!("the type of the location is {kind}; allowed are 1 and 2");
                return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
            }
        },
        // The location is ignored.
        CU_MEM_ADVISE_SET_READ_MOSTLY
        | CU_MEM_ADVISE_UNSET_READ_MOSTLY
        | CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => {}
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    }
    check_managed(&state, dptr, count)
}

/// Returns the location of a device, or of the host for `CU_DEVICE_CPU`.
pub(crate) const fn location_of(device: CUdevice) -> CUmemLocation {
    let kind =
        if device == CU_DEVICE_CPU { CU_MEM_LOCATION_TYPE_HOST } else { CU_MEM_LOCATION_TYPE_DEVICE };
    CUmemLocation { kind, id: device }
}

/// Checks a location in managed memory: a device, or the host or one of its NUMA nodes.
pub(crate) fn check_location(state: &State, location: CUmemLocation) -> Outcome {
    let CUmemLocation { kind, id } = location;
    match kind {
        CU_MEM_LOCATION_TYPE_DEVICE => device::checked(state, id).map(|_| ()),
        CU_MEM_LOCATION_TYPE_HOST | CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(()),
        CU_MEM_LOCATION_TYPE_HOST_NUMA if id >= 0 => Ok(()),
        CU_MEM_LOCATION_TYPE_HOST_NUMA => {
            let detail = format!("the NUMA node is {id}; allowed are numbers from 0");
            fail_with(CUDA_ERROR_INVALID_VALUE, detail)
        }
        _ => {
            let detail = format!("the type of the location is {kind}; allowed are 1 to 4");
            fail_with(CUDA_ERROR_INVALID_VALUE, detail)
        }
    }
}

pub(crate) fn check_managed(state: &State, dptr: CUdeviceptr, count: usize) -> Outcome {
    state.here()?;
    match state.host.holder(dptr) {
        Some((_, HostAllocation { kind: HostKind::Managed, .. })) => {
            state.device_range("the range", dptr, count as u64).map(|_| ())
        }
        _ => {
            fail_with(CUDA_ERROR_INVALID_VALUE, format!("{dptr:#x} is not an address in managed memory"))
        }
    }
}
