//! Stream-ordered allocation.

use warpfold_driver::sys::*;

use super::device::checked;
use super::memory::{allocate, check_location, check_managed, location_of, tell};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{In, Out, PoolId, StreamId};
use crate::world::{self, State, Work};

pub(crate) fn cuMemAllocAsync(dptr: Out<CUdeviceptr>, bytes: usize, stream: StreamId) -> Outcome {
    allocate_from(dptr, bytes, None, stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    dptr: Out<CUdeviceptr>,
    bytes: usize,
    pool: PoolId,
    stream: StreamId,
) -> Outcome {
    allocate_from(dptr, bytes, Some(pool), stream)
}

/// Allocates at once, which is earlier than the order of the stream requires.
fn allocate_from(
    dptr: Out<CUdeviceptr>,
    bytes: usize,
    pool: Option<PoolId>,
    stream: StreamId,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let here = state.here()?;
    let device = state.context(here)?.device;
    let pool = pool.or(state.devices[device as usize].pool).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if find(&mut state, pool)?.device != device {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "the pool belongs to another device");
    }
    if state.is_captured(stream)? {
        return dptr.put(state.capture_allocation(stream, here, bytes)?);
    }
    let (address, watcher) = allocate(&mut state, bytes)?;
    find(&mut state, pool)?.add(address, bytes as u64);
    state.submit(stream, Work::Nothing)?;
    drop(state);
    tell(watcher, address, bytes);
    dptr.put(address)
}

pub(crate) fn cuMemFreeAsync(dptr: CUdeviceptr, stream: StreamId) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if dptr == 0 {
        return Ok(());
    }
    if state.is_captured(stream)? {
        return state.capture_free(stream, dptr);
    }
    if state.may_free(dptr)?.is_some() {
        if let Some(task) = state.submit(stream, Work::Release(dptr))? {
            state.freed_by_call(dptr, Some((stream, task)));
        }
        return Ok(());
    }
    match state.owner_of(dptr).and_then(|(_, memory)| memory.allocation_of(dptr)) {
        Some((base, _)) if base == dptr => state.submit(stream, Work::Release(dptr)).map(|_| ()),
        _ => fail_with(CUDA_ERROR_INVALID_VALUE, format!("{dptr:#x} is not the start of device memory")),
    }
}

fn find(state: &mut State, pool: PoolId) -> Outcome<&mut world::Pool> {
    state.pools.get_mut(&pool).ok_or_else(|| CUDA_ERROR_INVALID_VALUE.into())
}

pub(crate) fn cuMemPoolCreate(pool: Out<CUmemoryPool>, pool_props: In<CUmemPoolProps>) -> Outcome {
    let mut state = world::lock();
    let In(CUmemPoolProps { alloc_type, handle_types, location, .. }) = pool_props;
    if alloc_type != CU_MEM_ALLOCATION_TYPE_PINNED || location.kind != CU_MEM_LOCATION_TYPE_DEVICE {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    if handle_types != CU_MEM_HANDLE_TYPE_NONE {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "pools cannot be shared with other processes");
    }
    let device = checked(&state, location.id)?;
    pool.put(state.add_pool(device, false).raw())
}

pub(crate) fn cuMemPoolDestroy(pool: PoolId) -> Outcome {
    let mut state = world::lock();
    if find(&mut state, pool)?.is_default {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.pools.remove(&pool);
    state.update_visible_memory();
    for device in &mut state.devices {
        if device.pool == Some(pool) {
            device.pool = device.default_pool;
        }
    }
    Ok(())
}

pub(crate) fn cuMemPoolTrimTo(pool: PoolId, _min_bytes_to_keep: usize) -> Outcome {
    find(&mut world::lock(), pool).map(|_| ())
}

/// Attributes of type `int`; the others have 64 bits.
const INTS: std::ops::RangeInclusive<CUmemPool_attribute> =
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES..=CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

pub(crate) fn cuMemPoolGetAttribute(
    pool: PoolId,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> Outcome {
    let mut state = world::lock();
    let pool = find(&mut state, pool)?;
    let found = match attribute {
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT | CU_MEMPOOL_ATTR_USED_MEM_CURRENT => Some(pool.used()),
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | CU_MEMPOOL_ATTR_USED_MEM_HIGH => Some(pool.high),
        _ => pool.attributes.get(&attribute).copied(),
    };
    let Some(found) = found.filter(|_| !value.is_null()) else {
        return fail(CUDA_ERROR_INVALID_VALUE);
    };
    // SAFETY: not null, so the caller passes a variable of the attribute's type.
    unsafe {
        match INTS.contains(&attribute) {
            true => value.cast::<c_int>().write_unaligned(found as c_int),
            false => value.cast::<u64>().write_unaligned(found),
        }
    }
    Ok(())
}

pub(crate) fn cuMemPoolSetAttribute(
    pool: PoolId,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> Outcome {
    let mut state = world::lock();
    let pool = find(&mut state, pool)?;
    if value.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: `value` is not null, and the caller passes a value of the attribute's type.
    let given = unsafe {
        match INTS.contains(&attribute) {
            true => u64::from(value.cast::<c_int>().read_unaligned() != 0),
            false => value.cast::<u64>().read_unaligned(),
        }
    };
    match attribute {
        // Only zero may be set: it resets the high-water mark.
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | CU_MEMPOOL_ATTR_USED_MEM_HIGH if given == 0 => {
            pool.high = pool.used();
        }
        _ => *pool.attributes.get_mut(&attribute).ok_or(CUDA_ERROR_INVALID_VALUE)? = given,
    }
    Ok(())
}

pub(crate) fn cuMemPoolSetAccess(pool: PoolId, map: *const CUmemAccessDesc, count: usize) -> Outcome {
    if map.is_null() && count > 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = world::lock();
    let found = find(&mut state, pool)?;
    let (own, mut open_to) = (found.device, found.open_to.clone());
    for at in 0..count {
        // SAFETY: not null, so the caller passes `count` descriptors.
        let CUmemAccessDesc { location, flags } = unsafe { map.add(at).read_unaligned() };
        if location.kind != CU_MEM_LOCATION_TYPE_DEVICE {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        let device = checked(&state, location.id)?;
        match flags {
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE if device == own => {}
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE if !state.devices[device as usize].apart => {
                open_to.insert(device);
            }
            CU_MEM_ACCESS_FLAGS_PROT_NONE if device != own => {
                open_to.remove(&device);
            }
            _ => return fail(CUDA_ERROR_INVALID_VALUE),
        }
    }
    find(&mut state, pool)?.open_to = open_to;
    state.update_visible_memory();
    Ok(())
}

pub(crate) fn cuMemPoolGetAccess(
    flags: Out<CUmemAccess_flags>,
    mem_pool: PoolId,
    location: In<CUmemLocation>,
) -> Outcome {
    let mut state = world::lock();
    let asked = checked(&state, location.0.id)?;
    let pool = find(&mut state, mem_pool)?;
    let reached = pool.device == asked || pool.open_to.contains(&asked);
    flags.put(if reached { CU_MEM_ACCESS_FLAGS_PROT_READWRITE } else { CU_MEM_ACCESS_FLAGS_PROT_NONE })
}

pub(crate) fn cuMemPrefetchAsync(
    dptr: CUdeviceptr,
    count: usize,
    dst_device: CUdevice,
    stream: StreamId,
) -> Outcome {
    cuMemPrefetchAsync_v2(dptr, count, location_of(dst_device), 0, stream)
}

pub(crate) fn cuMemPrefetchAsync_v2(
    dptr: CUdeviceptr,
    count: usize,
    location: CUmemLocation,
    flags: c_uint,
    stream: StreamId,
) -> Outcome {
    // No flags are defined.
    if flags != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    check_location(&state, location)?;
    check_managed(&state, dptr, count)?;
    // All devices can access managed memory, so the prefetch is only an empty task in the stream.
    state.submit(stream, Work::Nothing)?;
    Ok(())
}

pub(crate) fn cuStreamAttachMemAsync(
    stream: StreamId,
    dptr: CUdeviceptr,
    _length: usize,
    flags: c_uint,
) -> Outcome {
    let known = [CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_SINGLE];
    if !known.contains(&flags) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    check_managed(&state, dptr, 1)?;
    // All streams and the host can access managed memory, so this is just an empty task in the stream.
    state.submit(stream, Work::Nothing)?;
    Ok(())
}
