//! Copies of consecutive bytes.

use std::sync::Arc;

use warpfold_driver::sys::*;

use crate::failure::Outcome;
use crate::ffi::{ContextId, StreamId};
use crate::host;
use crate::staging::Staged;
use crate::world::{self, End, Guard, TaskId, Transfer, Work};

/// Maximum bytes staged for pending copies. A copy beyond that runs at once, as the interface allows.
const STAGED: u64 = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// A copy with host memory waits for the stream, and then until it is done or its source is staged.
    Blocking,
    /// Returns at once, or after reading or writing pageable memory.
    Asynchronous,
    /// Like `Asynchronous`, for copies that cannot have pageable memory.
    OnDevice,
}

/// The kind of memory that the caller states for one end of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Device,
    Host,
    Any,
}

struct Copy {
    to: (Side, u64),
    from: (Side, u64),
    bytes: usize,
}

impl Copy {
    fn end(state: &Guard, what: &str, (side, address): (Side, u64), bytes: u64) -> Outcome<End> {
        match side {
            Side::Device => state.device_range(what, address, bytes),
            Side::Host | Side::Any => state.any_range(what, address, bytes),
        }
    }

    fn submit(self, call: &'static str, stream: StreamId, manner: Manner) -> Outcome {
        let mut state = world::lock();
        let stream = state.stream(stream)?;
        if manner == Manner::Blocking {
            state.check_unsafe_call(call)?;
        }
        let bytes = self.bytes as u64;
        let to = Self::end(&state, "copy", self.to, bytes)?;
        let from = Self::end(&state, "copy", self.from, bytes)?;
        submit(state, stream, manner, Transfer::of(to, from, bytes))
    }
}

pub(super) fn submit(
    mut state: Guard,
    stream: StreamId,
    manner: Manner,
    mut transfer: Transfer,
) -> Outcome {
    if transfer.is_empty() {
        return Ok(());
    }
    // A captured copy reads pageable memory when the graph runs.
    if state.is_captured(stream)? {
        return state.capture_work(stream, Work::Copy(Arc::new(transfer)));
    }
    state.check_legacy(stream)?;
    if let (Manner::Blocking, End::Host(_), End::Memory(_)) = (manner, &transfer.from, &transfer.to) {
        // The interface promises to wait for the stream before the source is read.
        let before = state.before_next(stream);
        state = world::force(state, &before);
        state.check(state.streams[&stream].context)?;
    }
    let bytes = transfer.span(transfer.from_step);
    let waits = must_wait(&state, manner, &transfer.to, &transfer.from, bytes);
    if !waits {
        transfer.from = staged(transfer.from, bytes)?;
    }
    let task = state.enqueue(stream, Work::Copy(Arc::new(transfer)), &[]);
    if waits { finish(state, stream, task) } else { Ok(()) }
}

fn must_wait(state: &Guard, manner: Manner, to: &End, from: &End, bytes: u64) -> bool {
    let is_host = |end: &End| match end {
        End::Host(_) => true,
        End::Memory(address) => state.host.holder(*address).is_some(),
        End::Staged(_) => false,
    };
    match (to, from) {
        (End::Host(_), _) => true,
        (_, End::Host(_)) => state.tasks.staged() + bytes > STAGED,
        // Here no end is pageable. A blocking copy waits only if an end is page-locked memory.
        _ => manner == Manner::Blocking && (is_host(to) || is_host(from)),
    }
}

fn staged(from: End, bytes: u64) -> Outcome<End> {
    let End::Host(address) = from else { return Ok(from) };
    // SAFETY: the program passed the address to this call, which returns after the read.
    let copy = unsafe { host::with_bytes(address, bytes, Staged::copy) };
    Ok(End::Staged(Arc::new(copy.map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?)))
}

pub(super) fn finish(state: Guard, stream: StreamId, task: TaskId) -> Outcome {
    let context = state.streams[&stream].context;
    world::force(state, &[task]).check(context)
}

/// The default stream of the called variant, legacy or per-thread, for calls without a stream.
pub(super) const DEFAULT: StreamId = StreamId(0);

pub(crate) fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Outcome {
    let copy = Copy { to: (Side::Any, dst), from: (Side::Any, src), bytes };
    copy.submit("cuMemcpy", DEFAULT, Manner::Blocking)
}

pub(crate) fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    let copy = Copy { to: (Side::Any, dst), from: (Side::Any, src), bytes };
    copy.submit("cuMemcpyAsync", stream, Manner::Asynchronous)
}

pub(crate) fn cuMemcpyHtoD_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize) -> Outcome {
    let from = (Side::Host, src.expose_provenance() as u64);
    Copy { to: (Side::Device, dst), from, bytes }.submit("cuMemcpyHtoD", DEFAULT, Manner::Blocking)
}

pub(crate) fn cuMemcpyHtoDAsync_v2(
    dst: CUdeviceptr,
    src: *const c_void,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    let from = (Side::Host, src.expose_provenance() as u64);
    let copy = Copy { to: (Side::Device, dst), from, bytes };
    copy.submit("cuMemcpyHtoDAsync", stream, Manner::Asynchronous)
}

pub(crate) fn cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize) -> Outcome {
    let to = (Side::Host, dst.expose_provenance() as u64);
    Copy { to, from: (Side::Device, src), bytes }.submit("cuMemcpyDtoH", DEFAULT, Manner::Blocking)
}

pub(crate) fn cuMemcpyDtoHAsync_v2(
    dst: *mut c_void,
    src: CUdeviceptr,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    let to = (Side::Host, dst.expose_provenance() as u64);
    let copy = Copy { to, from: (Side::Device, src), bytes };
    copy.submit("cuMemcpyDtoHAsync", stream, Manner::Asynchronous)
}

pub(crate) fn cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Outcome {
    let copy = Copy { to: (Side::Device, dst), from: (Side::Device, src), bytes };
    copy.submit("cuMemcpyDtoD", DEFAULT, Manner::OnDevice)
}

pub(crate) fn cuMemcpyDtoDAsync_v2(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    let copy = Copy { to: (Side::Device, dst), from: (Side::Device, src), bytes };
    copy.submit("cuMemcpyDtoDAsync", stream, Manner::OnDevice)
}

pub(crate) fn cuMemcpyPeer(
    dst: CUdeviceptr,
    dst_ctx: ContextId,
    src: CUdeviceptr,
    src_ctx: ContextId,
    bytes: usize,
) -> Outcome {
    settle([dst_ctx, src_ctx])?;
    let copy = Copy { to: (Side::Device, dst), from: (Side::Device, src), bytes };
    copy.submit("cuMemcpyPeer", DEFAULT, Manner::OnDevice)?;
    // A copy on the legacy stream of one context must also precede later work in the other context.
    let here = world::lock().here()?;
    settle([here])
}

pub(crate) fn cuMemcpyPeerAsync(
    dst: CUdeviceptr,
    dst_ctx: ContextId,
    src: CUdeviceptr,
    src_ctx: ContextId,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    check_contexts([dst_ctx, src_ctx])?;
    let copy = Copy { to: (Side::Device, dst), from: (Side::Device, src), bytes };
    copy.submit("cuMemcpyPeerAsync", stream, Manner::OnDevice)
}

fn settle<const N: usize>(contexts: [ContextId; N]) -> Outcome {
    for context in contexts {
        let mut state = world::lock();
        state.check(context)?;
        state.check_context_wait("cuMemcpyPeer", context)?;
        let tasks = state.tasks.of(context);
        world::force(state, &tasks).check(context)?;
    }
    Ok(())
}

fn check_contexts(contexts: [ContextId; 2]) -> Outcome {
    let state = world::lock();
    contexts.into_iter().try_for_each(|id| state.check(id))
}
