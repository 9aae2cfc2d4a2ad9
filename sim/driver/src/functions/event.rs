use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail};
use crate::ffi::{EventId, Out, StreamId};
use crate::world::{self, Record, Work};

pub(crate) fn cuEventCreate(event: Out<CUevent>, flags: c_uint) -> Outcome {
    let all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    let mut state = world::lock();
    let here = state.here()?;
    if flags & !all != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    if flags & CU_EVENT_INTERPROCESS != 0 {
        return fail(CUDA_ERROR_NOT_SUPPORTED);
    }
    event.put(state.add_event(here, flags).raw())
}

pub(crate) fn cuEventRecord(event: EventId, stream: StreamId) -> Outcome {
    cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT)
}

pub(crate) fn cuEventRecordWithFlags(event: EventId, stream: StreamId, flags: c_uint) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let context = state.event(event)?.context;
    state.check_same_context(stream, context)?;
    match flags {
        CU_EVENT_RECORD_DEFAULT => {}
        CU_EVENT_RECORD_EXTERNAL => return fail(CUDA_ERROR_NOT_SUPPORTED),
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    }
    if state.is_captured(stream)? {
        return state.capture_record(stream, event);
    }
    state.submit(stream, Work::Record(event)).map(|_| ())
}

pub(crate) fn cuEventQuery(event: EventId) -> Outcome {
    let mut state = world::lock();
    let record = state.pending_record(event)?;
    state.check_unsafe_call("cuEventQuery")?;
    let Some(task) = record else { return Ok(()) };
    let context = state.event(event)?.context;
    if state.tasks.query_runs(task, 1) {
        world::force(state, &[task]).check(context)?;
    }
    fail(CUDA_ERROR_NOT_READY)
}

pub(crate) fn cuEventSynchronize(event: EventId) -> Outcome {
    let mut state = world::lock();
    let Some(task) = state.pending_record(event)? else { return Ok(()) };
    let context = state.event(event)?.context;
    world::force(state, &[task]).check(context)
}

pub(crate) fn cuEventDestroy_v2(event: EventId) -> Outcome {
    let mut state = world::lock();
    // An event of a lost context can be destroyed as well.
    let removed = state.events.remove(&event).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.check(removed.context)
}

/// Returns the wall-clock time of the simulation between two events, never a GPU's.
pub(crate) fn cuEventElapsedTime(milliseconds: Out<f32>, start: EventId, end: EventId) -> Outcome {
    let mut state = world::lock();
    let mut pending = Vec::new();
    let mut at = Vec::new();
    for id in [start, end] {
        pending.extend(state.pending_record(id)?);
        let event = state.event(id)?;
        if event.flags & CU_EVENT_DISABLE_TIMING != 0 {
            return fail(CUDA_ERROR_INVALID_HANDLE);
        }
        match event.record {
            Record::Never => return fail(CUDA_ERROR_INVALID_HANDLE),
            Record::Done(instant) => at.push(instant),
            Record::Pending(_) | Record::Captured(..) => {}
        }
    }
    if let [start, end] = at[..] {
        let forward = end.saturating_duration_since(start).as_secs_f64();
        let backward = start.saturating_duration_since(end).as_secs_f64();
        return milliseconds.put(((forward - backward) * 1e3) as f32);
    }
    let context = state.event(start)?.context;
    // Unlike in `cuEventQuery`, the first call runs the work: programs seldom poll with this function.
    if pending.last().is_none_or(|&task| state.tasks.query_runs(task, 0)) {
        world::force(state, &pending).check(context)?;
    }
    fail(CUDA_ERROR_NOT_READY)
}

pub(crate) fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: EventId, end: EventId) -> Outcome {
    cuEventElapsedTime(milliseconds, start, end)
}
