use warpfold_driver::sys::*;

use super::copy::finish;
use crate::failure::{Outcome, fail_with};
use crate::ffi::StreamId;
use crate::world::{self, Fill, Work};

/// Enqueues a memset of `count` elements of `width` bytes, on the legacy default stream if none is
/// given. Waits for the memset only if no stream is given and the host can access the memory.
fn submit(
    call: &'static str,
    dst: CUdeviceptr,
    (value, width): (u64, u64),
    count: usize,
    stream: Option<StreamId>,
) -> Outcome {
    let mut state = world::lock();
    let blocking = stream.is_none();
    let stream = state.stream(stream.unwrap_or(StreamId(0)))?;
    if blocking {
        state.check_unsafe_call(call)?;
    }
    if !dst.is_multiple_of(width) {
        let detail =
            format!("{call} at {dst:#x} is misaligned; the address must be a multiple of {width}");
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    let bytes = (count as u64).checked_mul(width).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    state.device_range("memset", dst, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    let work =
        Work::Fill(Fill { to: dst, pattern: repeated(value, width), bytes, rows: 1, pitch: bytes });
    let task = state.submit(stream, work)?;
    match task {
        Some(task) if blocking && state.host.holder(dst).is_some() => finish(state, stream, task),
        _ => Ok(()),
    }
}

/// Repeats a value of `width` bytes to eight bytes.
pub(super) fn repeated(value: u64, width: u64) -> u64 {
    match width {
        1 => (value & 0xff) * 0x0101_0101_0101_0101,
        2 => (value & 0xffff) * 0x0001_0001_0001_0001,
        _ => (value & 0xffff_ffff) * 0x0000_0001_0000_0001,
    }
}

pub(crate) fn cuMemsetD8_v2(dst: CUdeviceptr, value: u8, count: usize) -> Outcome {
    submit("cuMemsetD8", dst, (value.into(), 1), count, None)
}

pub(crate) fn cuMemsetD16_v2(dst: CUdeviceptr, value: c_ushort, count: usize) -> Outcome {
    submit("cuMemsetD16", dst, (value.into(), 2), count, None)
}

pub(crate) fn cuMemsetD32_v2(dst: CUdeviceptr, value: c_uint, count: usize) -> Outcome {
    submit("cuMemsetD32", dst, (value.into(), 4), count, None)
}

pub(crate) fn cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize, stream: StreamId) -> Outcome {
    submit("cuMemsetD8Async", dst, (value.into(), 1), count, Some(stream))
}

pub(crate) fn cuMemsetD16Async(
    dst: CUdeviceptr,
    value: c_ushort,
    count: usize,
    stream: StreamId,
) -> Outcome {
    submit("cuMemsetD16Async", dst, (value.into(), 2), count, Some(stream))
}

pub(crate) fn cuMemsetD32Async(
    dst: CUdeviceptr,
    value: c_uint,
    count: usize,
    stream: StreamId,
) -> Outcome {
    submit("cuMemsetD32Async", dst, (value.into(), 4), count, Some(stream))
}
