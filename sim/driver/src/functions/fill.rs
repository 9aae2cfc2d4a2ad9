use warpfold_driver::sys::*;

use super::copy::finish;
use crate::failure::{Outcome, fail_with};
use crate::ffi::StreamId;
use crate::world::{self, Fill, Work};

/// `height` rows of `width` elements, which start one pitch apart.
struct Rows {
    to: CUdeviceptr,
    pitch: usize,
    width: usize,
    height: usize,
}

/// Enqueues a memset of `count` elements of `width` bytes, on the default stream if none is given.
fn submit(
    call: &'static str,
    dst: CUdeviceptr,
    element: (u64, u64),
    count: usize,
    stream: Option<StreamId>,
) -> Outcome {
    submit_rows(call, Rows { to: dst, pitch: 0, width: count, height: 1 }, element, stream)
}

/// Enqueues a memset of rows with elements of `size` bytes, on the default stream if none is given.
/// Waits for the memset only if no stream is given and the host can access the memory.
fn submit_rows(
    call: &'static str,
    Rows { to, pitch, width, height }: Rows,
    (value, size): (u64, u64),
    stream: Option<StreamId>,
) -> Outcome {
    let mut state = world::lock();
    let blocking = stream.is_none();
    let stream = state.stream(stream.unwrap_or(StreamId(0)))?;
    if blocking {
        state.check_unsafe_call(call)?;
    }
    let (pitch, rows) = (pitch as u64, height as u64);
    if !to.is_multiple_of(size) || (rows > 1 && !pitch.is_multiple_of(size)) {
        let rows = if rows > 1 { format!(" with a pitch of {pitch} bytes") } else { String::new() };
        let detail =
            format!("{call} at {to:#x}{rows} is misaligned; allowed are multiples of {size} bytes");
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    let bytes = (width as u64).checked_mul(size).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if bytes == 0 || rows == 0 {
        return Ok(());
    }
    if rows > 1 && pitch < bytes {
        let detail =
            format!("{call}: rows of {bytes} bytes overlap, because the pitch is {pitch} bytes");
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    let pitch = if rows > 1 { pitch } else { bytes };
    let span = pitch.checked_mul(rows - 1).and_then(|before| before.checked_add(bytes));
    state.device_range("memset", to, span.ok_or(CUDA_ERROR_INVALID_VALUE)?)?;
    let work = Work::Fill(Fill { to, pattern: repeated(value, size), bytes, rows, pitch });
    let task = state.submit(stream, work)?;
    match task {
        Some(task) if blocking && state.host.holder(to).is_some() => finish(state, stream, task),
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

/// Defines memsets of rows: the waiting one and the asynchronous one of each element type.
macro_rules! memset_rows {
    ($($name:ident $name_async:ident: $kind:ty, $size:literal;)*) => {$(
        pub(crate) fn $name(
            dst: CUdeviceptr,
            pitch: usize,
            value: $kind,
            width: usize,
            height: usize,
        ) -> Outcome {
            let rows = Rows { to: dst, pitch, width, height };
            submit_rows(stringify!($name), rows, (value.into(), $size), None)
        }

        pub(crate) fn $name_async(
            dst: CUdeviceptr,
            pitch: usize,
            value: $kind,
            width: usize,
            height: usize,
            stream: StreamId,
        ) -> Outcome {
            let rows = Rows { to: dst, pitch, width, height };
            submit_rows(stringify!($name_async), rows, (value.into(), $size), Some(stream))
        }
    )*};
}

memset_rows! {
    cuMemsetD2D8_v2 cuMemsetD2D8Async: u8, 1;
    cuMemsetD2D16_v2 cuMemsetD2D16Async: c_ushort, 2;
    cuMemsetD2D32_v2 cuMemsetD2D32Async: c_uint, 4;
}
