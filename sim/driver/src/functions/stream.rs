use std::ptr;

use warpfold_driver::sys::*;

use super::context::GREATEST_PRIORITY;
use crate::failure::{Outcome, fail};
use crate::ffi::{EventId, Out, StreamId, put_if};
use crate::world::{self, HostCall, HostFunction, Kind, Record, Work};

pub(crate) fn cuStreamCreate(stream: Out<CUstream>, flags: c_uint) -> Outcome {
    cuStreamCreateWithPriority(stream, flags, 0)
}

pub(crate) fn cuStreamCreateWithPriority(
    stream: Out<CUstream>,
    flags: c_uint,
    priority: c_int,
) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    let kind = match flags {
        CU_STREAM_DEFAULT => Kind::Blocking,
        CU_STREAM_NON_BLOCKING => Kind::NonBlocking,
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    };
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    stream.put(state.add_stream(here, kind, priority).raw())
}

pub(crate) fn cuStreamDestroy_v2(stream: StreamId) -> Outcome {
    let mut state = world::lock();
    if stream.0 <= 2 {
        return fail(CUDA_ERROR_INVALID_HANDLE);
    }
    // A stream can also be destroyed if its context is lost, or if none is current.
    match state.streams.get(&stream) {
        Some(found) if !found.destroyed => {}
        _ => return fail(CUDA_ERROR_INVALID_HANDLE),
    }
    let context = state.streams[&stream].context;
    state.leave_capture(stream);
    state.remove_stream(stream);
    state.check(context)
}

pub(crate) fn cuStreamSynchronize(stream: StreamId) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.check_wait("cuStreamSynchronize", stream)?;
    state.check_legacy(stream)?;
    let context = state.streams[&stream].context;
    let left = state.left_on(stream);
    world::force(state, &left).check(context)
}

pub(crate) fn cuStreamQuery(stream: StreamId) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.check_wait("cuStreamQuery", stream)?;
    state.check_legacy(stream)?;
    let context = state.streams[&stream].context;
    let left = state.left_on(stream);
    let Some(&last) = left.last() else { return Ok(()) };
    if state.tasks.query_runs(last, 1) {
        world::force(state, &left).check(context)?;
    }
    fail(CUDA_ERROR_NOT_READY)
}

pub(crate) fn cuStreamWaitEvent(stream: StreamId, event: EventId, flags: c_uint) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if flags & !CU_EVENT_WAIT_EXTERNAL != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    match state.event(event)?.record.clone() {
        Record::Captured(capture, nodes) => state.capture_wait(stream, capture, &nodes),
        _ if state.is_captured(stream)? => {
            // The captured graph would depend on work that is not in the graph.
            if let Some(capturing) = &state.streams[&stream].capture {
                let capture = capturing.capture;
                state.invalidate(capture);
            }
            fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
        }
        Record::Pending(task) => {
            state.check_legacy(stream)?;
            state.enqueue(stream, Work::Nothing, &[task]);
            Ok(())
        }
        Record::Never | Record::Done(_) => Ok(()),
    }
}

pub(crate) fn cuStreamAddCallback(
    stream: StreamId,
    callback: CUstreamCallback,
    user_data: *mut c_void,
    flags: c_uint,
) -> Outcome {
    let callback = callback.filter(|_| flags == 0).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut state = world::lock();
    let id = state.stream(stream)?;
    // Captured streams accept host functions, not callbacks.
    state.check_wait("cuStreamAddCallback", id)?;
    let function = HostFunction::Callback(callback, stream);
    let call = HostCall { function, data: user_data.expose_provenance() };
    state.submit(id, Work::Host(call)).map(|_| ())
}

pub(crate) fn cuLaunchHostFunc(stream: StreamId, function: CUhostFn, user_data: *mut c_void) -> Outcome {
    let function = HostFunction::Plain(function.ok_or(CUDA_ERROR_INVALID_VALUE)?);
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let call = HostCall { function, data: user_data.expose_provenance() };
    state.submit(stream, Work::Host(call)).map(|_| ())
}

pub(crate) fn cuStreamGetFlags(stream: StreamId, flags: Out<c_uint>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    flags.put(match state.streams[&stream].kind {
        Kind::NonBlocking => CU_STREAM_NON_BLOCKING,
        Kind::Legacy | Kind::Blocking => CU_STREAM_DEFAULT,
    })
}

pub(crate) fn cuStreamGetPriority(stream: StreamId, priority: Out<c_int>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    priority.put(state.streams[&stream].priority)
}

pub(crate) fn cuStreamGetCtx(stream: StreamId, ctx: Out<CUcontext>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    ctx.put(state.streams[&stream].context.raw())
}

/// Like [`cuStreamGetCtx`]; no stream belongs to a green context.
pub(crate) fn cuStreamGetCtx_v2(
    stream: StreamId,
    ctx: Out<CUcontext>,
    green: Option<Out<*mut c_void>>,
) -> Outcome {
    put_if(green, ptr::null_mut())?;
    cuStreamGetCtx(stream, ctx)
}

pub(crate) fn cuStreamGetId(stream: StreamId, id: Out<c_ulonglong>) -> Outcome {
    id.put(world::lock().stream(stream)?.0)
}

pub(crate) fn cuStreamGetDevice(stream: StreamId, device: Out<CUdevice>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let context = state.streams[&stream].context;
    device.put(state.context(context)?.device as CUdevice)
}

pub(super) const fn null<T>() -> *mut T {
    ptr::null_mut()
}
