use std::{mem, ptr};

use warpfold_driver::sys::*;

use super::device::checked;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, ContextParams, Out, put_if};
use crate::world::{self, Guard, LocalValue, State};

/// Default limits: bytes of a thread's stack, of the printf buffer and of the heap.
const STACK: usize = 1024;
const PRINTF: usize = 1 << 20;
const HEAP: usize = 8 << 20;

/// Greatest priority of a stream; the least is 0.
pub(crate) const GREATEST_PRIORITY: c_int = -5;

pub(crate) fn cuDevicePrimaryCtxRetain(ctx: Out<CUcontext>, device: CUdevice) -> Outcome {
    let mut state = world::lock();
    let number = checked(&state, device)?;
    let id = state.activate_primary(number);
    if state.context(id)?.ends {
        return fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    state.check(id)?;
    state.devices[number as usize].retains += 1;
    ctx.put(id.raw())
}

pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> Outcome {
    let mut state = world::lock();
    let number = checked(&state, device)? as usize;
    match state.devices[number].retains {
        0 => fail(CUDA_ERROR_INVALID_CONTEXT),
        retains => {
            state.devices[number].retains = retains - 1;
            if retains == 1 {
                end_primary(state, number);
            }
            Ok(())
        }
    }
}

/// Destroys the primary context and keeps its number of retains: each retain must still be released, and
/// the next one creates the context again.
pub(crate) fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> Outcome {
    let state = world::lock();
    let number = checked(&state, device)? as usize;
    end_primary(state, number);
    Ok(())
}

fn end_primary(state: Guard, number: usize) {
    if let Some(id) = state.active_primary(number) {
        end(state, id);
    }
}

/// Runs the destructors of a context's storage, and then removes the context. Does nothing if another
/// call has begun to do so.
fn end(mut state: Guard, id: ContextId) {
    let Some(context) = state.contexts.get_mut(&id) else { return };
    if mem::replace(&mut context.ends, true) {
        return;
    }
    // Destructors may store other values.
    while let Some((key, LocalValue { value, destructor })) =
        state.contexts.get_mut(&id).and_then(|context| context.local.pop_first())
    {
        let Some(destructor) = destructor else { continue };
        // Destructors may call the driver.
        drop(state);
        let [key, value] = [key, value].map(ptr::with_exposed_provenance_mut);
        // SAFETY: the caller that stored key and value passed this function for them, and each value
        // is taken out of the storage once.
        unsafe { destructor(id.raw(), key, value) };
        state = world::lock();
    }
    state.remove_context(id);
}

/// Returns the handle that the primary context of a device has whenever it is active.
pub(crate) fn primary_handle(device: CUdevice) -> Outcome<ContextId> {
    let mut state = world::lock();
    let number = checked(&state, device)?;
    Ok(state.primary_handle(number))
}

pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) -> Outcome {
    let mut state = world::lock();
    let number = checked(&state, device)? as usize;
    if flags & !CU_CTX_FLAGS_MASK != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.devices[number].primary_flags = flags;
    if let Some(id) = state.active_primary(number) {
        state.context(id)?.flags = flags;
    }
    Ok(())
}

pub(crate) fn cuDevicePrimaryCtxGetState(
    device: CUdevice,
    flags: Out<c_uint>,
    active: Out<c_int>,
) -> Outcome {
    let state = world::lock();
    let number = checked(&state, device)? as usize;
    flags.put(state.devices[number].primary_flags)?;
    active.put(c_int::from(state.active_primary(number).is_some()))
}

pub(crate) fn cuCtxCreate_v2(ctx: Out<CUcontext>, flags: c_uint, device: CUdevice) -> Outcome {
    let mut state = world::lock();
    let number = checked(&state, device)?;
    if flags & !CU_CTX_FLAGS_MASK != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let id = state.add_context(number, flags);
    world::push_current(id);
    ctx.put(id.raw())
}

pub(crate) fn cuCtxCreate_v3(
    ctx: Out<CUcontext>,
    affinities: *mut c_void,
    num_affinities: c_int,
    flags: c_uint,
    device: CUdevice,
) -> Outcome {
    if !affinities.is_null() || num_affinities != 0 {
        return fail_with(
            CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
            "contexts on a part of a device are not supported",
        );
    }
    cuCtxCreate_v2(ctx, flags, device)
}

pub(crate) fn cuCtxCreate_v4(
    ctx: Out<CUcontext>,
    params: ContextParams,
    flags: c_uint,
    device: CUdevice,
) -> Outcome {
    if params.ask_for_part {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "contexts on a part of a device are not supported");
    }
    cuCtxCreate_v2(ctx, flags, device)
}

pub(crate) fn cuCtxDestroy_v2(ctx: ContextId) -> Outcome {
    let state = world::lock();
    live(&state, ctx)?;
    if state.devices.iter().any(|device| device.primary == Some(ctx)) {
        let detail = "a primary context cannot be destroyed; use cuDevicePrimaryCtxRelease";
        return fail_with(CUDA_ERROR_INVALID_CONTEXT, detail);
    }
    end(state, ctx);
    if world::current() == Some(ctx) {
        world::pop_current();
    }
    Ok(())
}

/// Returns an error unless the context exists, lost or not.
fn live(state: &State, ctx: ContextId) -> Outcome {
    if state.contexts.contains_key(&ctx) { Ok(()) } else { fail(CUDA_ERROR_INVALID_CONTEXT) }
}

/// Returns an error unless the context exists or is a primary one, which may be inactive.
fn known(state: &State, ctx: ContextId) -> Outcome {
    if state.devices.iter().any(|device| device.primary == Some(ctx)) {
        return Ok(());
    }
    live(state, ctx)
}

pub(crate) fn cuCtxPushCurrent_v2(ctx: ContextId) -> Outcome {
    known(&world::lock(), ctx)?;
    world::push_current(ctx);
    Ok(())
}

pub(crate) fn cuCtxPopCurrent_v2(ctx: Option<Out<CUcontext>>) -> Outcome {
    let popped = world::pop_current().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    put_if(ctx, popped.raw())
}

pub(crate) fn cuCtxSetCurrent(ctx: ContextId) -> Outcome {
    if ctx.0 == 0 {
        world::set_current(None);
        return Ok(());
    }
    known(&world::lock(), ctx)?;
    world::set_current(Some(ctx));
    Ok(())
}

pub(crate) fn cuCtxGetCurrent(ctx: Out<CUcontext>) -> Outcome {
    ctx.put(world::current().unwrap_or(ContextId(0)).raw())
}

pub(crate) fn cuCtxGetDevice(device: Out<CUdevice>) -> Outcome {
    cuCtxGetDevice_v2(device, ContextId(0))
}

pub(crate) fn cuCtxGetDevice_v2(device: Out<CUdevice>, ctx: ContextId) -> Outcome {
    let mut state = world::lock();
    let id = named(&state, ctx)?;
    device.put(state.context(id)?.device as CUdevice)
}

pub(crate) fn cuCtxGetFlags(flags: Out<c_uint>) -> Outcome {
    let mut state = world::lock();
    let here = state.here_or_lost()?;
    flags.put(state.context(here)?.flags)
}

/// Returns the given context, or the current one for null.
pub(crate) fn named(state: &State, ctx: ContextId) -> Outcome<ContextId> {
    if ctx.0 == 0 {
        return state.here_or_lost();
    }
    live(state, ctx).map(|()| ctx)
}

pub(crate) fn cuCtxGetId(ctx: ContextId, id: Out<c_ulonglong>) -> Outcome {
    id.put(named(&world::lock(), ctx)?.0)
}

pub(crate) fn cuCtxGetApiVersion(ctx: ContextId, version: Out<c_uint>) -> Outcome {
    named(&world::lock(), ctx)?;
    version.put(3020)
}

pub(crate) fn cuCtxSynchronize() -> Outcome {
    let state = world::lock();
    let here = state.here()?;
    synchronize(state, here)
}

pub(crate) fn cuCtxSynchronize_v2(ctx: ContextId) -> Outcome {
    let state = world::lock();
    let id = named(&state, ctx)?;
    state.check(id)?;
    synchronize(state, id)
}

fn synchronize(mut state: Guard, id: ContextId) -> Outcome {
    state.check_context_wait("cuCtxSynchronize", id)?;
    let tasks = state.tasks.of(id);
    world::force(state, &tasks).check(id)
}

pub(crate) fn cuCtxSetLimit(limit: CUlimit, value: usize) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    limit_of(limit)?;
    let context = state.context(here)?;
    if limit == CU_LIMIT_MALLOC_HEAP_SIZE && !context.gpu.set_heap_bytes(value as u64) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    context.limits.insert(limit, value);
    Ok(())
}

pub(crate) fn cuCtxGetLimit(value: Out<usize>, limit: CUlimit) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    let default = limit_of(limit)?;
    value.put(state.context(here)?.limits.get(&limit).copied().unwrap_or(default))
}

/// Returns the default of a limit.
fn limit_of(limit: CUlimit) -> Outcome<usize> {
    match limit {
        CU_LIMIT_STACK_SIZE => Ok(STACK),
        CU_LIMIT_PRINTF_FIFO_SIZE => Ok(PRINTF),
        CU_LIMIT_MALLOC_HEAP_SIZE => Ok(HEAP),
        CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => Ok(2048),
        CU_LIMIT_MAX_L2_FETCH_GRANULARITY => Ok(64),
        CU_LIMIT_PERSISTING_L2_CACHE_SIZE => Ok(0),
        CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH | CU_LIMIT_SHMEM_SIZE => fail(CUDA_ERROR_UNSUPPORTED_LIMIT),
        _ => fail(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuCtxGetStreamPriorityRange(
    least_priority: Option<Out<c_int>>,
    greatest_priority: Option<Out<c_int>>,
) -> Outcome {
    world::lock().here()?;
    put_if(least_priority, 0)?;
    put_if(greatest_priority, GREATEST_PRIORITY)
}

pub(crate) fn cuCtxGetCacheConfig(config: Out<CUfunc_cache>) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    config.put(state.context(here)?.cache_config)
}

pub(crate) fn cuCtxSetCacheConfig(config: CUfunc_cache) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    if !(CU_FUNC_CACHE_PREFER_NONE..=CU_FUNC_CACHE_PREFER_EQUAL).contains(&config) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.context(here)?.cache_config = config;
    Ok(())
}

pub(crate) fn cuCtxGetSharedMemConfig(config: Out<CUsharedconfig>) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    config.put(state.context(here)?.bank_config)
}

pub(crate) fn cuCtxSetSharedMemConfig(config: CUsharedconfig) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    match config {
        // Banks of this capability are always 4 bytes wide; a request for another width changes nothing.
        CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE..=CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE => {
            state.context(here)?.bank_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
            Ok(())
        }
        _ => fail(CUDA_ERROR_INVALID_VALUE),
    }
}
