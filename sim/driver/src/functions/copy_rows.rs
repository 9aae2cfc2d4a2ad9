//! Copies of rows and planes, and copies from and to arrays.

use warpfold_driver::sys::*;

use super::copy::{DEFAULT, Manner, submit};
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ArrayId, In, StreamId};
use crate::world::{self, End, State, Step, Transfer};

struct Side {
    kind: CUmemorytype,
    host: u64,
    device: u64,
    array: CUarray,
    /// Start of the copy: the byte in the row, the row and the plane.
    at: [usize; 3],
    pitch: usize,
    height: usize,
}

type Extent = [usize; 3];

impl Side {
    fn end(&self, state: &State, extent: Extent) -> Outcome<(End, Step)> {
        let [bytes, rows, planes] = extent;
        if self.kind == CU_MEMORYTYPE_ARRAY {
            return self.of_array(state, extent);
        }
        let pitch = if self.pitch == 0 { self.at[0] + bytes } else { self.pitch };
        let height = if self.height == 0 { self.at[1] + rows } else { self.height };
        if self.at[0] + bytes > pitch && rows > 1 || self.at[1] + rows > height && planes > 1 {
            let detail = format!(
                "{rows} rows of {bytes} bytes do not fit into rows of {pitch} bytes, {height} rows per \
                 plane"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let step = Step { row: pitch as u64, plane: (pitch * height) as u64 };
        let start = self.at[2] as u64 * step.plane + self.at[1] as u64 * step.row + self.at[0] as u64;
        let whole = Transfer {
            planes: planes as u64,
            rows: rows as u64,
            ..Transfer::of(End::Memory(0), End::Memory(0), bytes as u64)
        };
        let span = whole.span(step);
        let end = match self.kind {
            CU_MEMORYTYPE_HOST => state.any_range("copy", self.host + start, span),
            CU_MEMORYTYPE_DEVICE => state.device_range("copy", self.device + start, span),
            CU_MEMORYTYPE_UNIFIED => state.any_range("copy", self.device + start, span),
            kind => fail_with(CUDA_ERROR_INVALID_VALUE, format!("{kind} is not a memory type")),
        };
        Ok((end?, step))
    }

    fn of_array(&self, state: &State, extent: Extent) -> Outcome<(End, Step)> {
        let texels = &state.array(ArrayId::from(self.array))?.texels;
        let whole = [texels.row_bytes as usize, texels.extent[1] as usize, texels.planes() as usize];
        let ends = [0, 1, 2].map(|axis: usize| self.at[axis].saturating_add(extent[axis]));
        if ends.iter().zip(whole).any(|(&end, whole)| end > whole) {
            let detail = format!(
                "a copy up to {ends:?} reaches past the end of an array of {whole:?} (bytes, rows, \
                 planes)"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let step = Step { row: texels.row_bytes, plane: texels.plane_bytes };
        let [x, y, z] = self.at.map(|at| at as u64);
        Ok((End::Memory(texels.address + z * step.plane + y * step.row + x), step))
    }
}

fn transfer(state: &State, to: &Side, from: &Side, extent: Extent) -> Outcome<Transfer> {
    let ((to, to_step), (from, from_step)) = (to.end(state, extent)?, from.end(state, extent)?);
    let [bytes, rows, planes] = extent.map(|extent| extent as u64);
    Ok(Transfer { to, from, bytes, rows, planes, to_step, from_step })
}

pub(super) fn transfer_of(state: &State, copy: &CUDA_MEMCPY3D_v2) -> Outcome<Transfer> {
    if copy.src_lod != 0 || copy.dst_lod != 0 {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "mipmapped arrays are not simulated");
    }
    let from = Side {
        kind: copy.src_memory_type,
        host: copy.src_host.expose_provenance() as u64,
        device: copy.src_device,
        array: copy.src_array,
        at: [copy.src_x_bytes, copy.src_y, copy.src_z],
        pitch: copy.src_pitch,
        height: copy.src_height,
    };
    let to = Side {
        kind: copy.dst_memory_type,
        host: copy.dst_host.expose_provenance() as u64,
        device: copy.dst_device,
        array: copy.dst_array,
        at: [copy.dst_x_bytes, copy.dst_y, copy.dst_z],
        pitch: copy.dst_pitch,
        height: copy.dst_height,
    };
    transfer(state, &to, &from, [copy.width_bytes, copy.height.max(1), copy.depth.max(1)])
}

fn plane_of(state: &State, copy: &CUDA_MEMCPY2D_v2) -> Outcome<Transfer> {
    let from = Side {
        kind: copy.src_memory_type,
        host: copy.src_host.expose_provenance() as u64,
        device: copy.src_device,
        array: copy.src_array,
        at: [copy.src_x_bytes, copy.src_y, 0],
        pitch: copy.src_pitch,
        height: 0,
    };
    let to = Side {
        kind: copy.dst_memory_type,
        host: copy.dst_host.expose_provenance() as u64,
        device: copy.dst_device,
        array: copy.dst_array,
        at: [copy.dst_x_bytes, copy.dst_y, 0],
        pitch: copy.dst_pitch,
        height: 0,
    };
    transfer(state, &to, &from, [copy.width_bytes, copy.height, 1])
}

fn copy(
    call: &'static str,
    stream: StreamId,
    manner: Manner,
    made: impl FnOnce(&State) -> Outcome<Transfer>,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if manner == Manner::Blocking {
        state.check_unsafe_call(call)?;
    }
    let transfer = made(&state)?;
    submit(state, stream, manner, transfer)
}

pub(crate) fn cuMemcpy2D_v2(about: In<CUDA_MEMCPY2D_v2>) -> Outcome {
    copy("cuMemcpy2D", DEFAULT, Manner::Blocking, |state| plane_of(state, &about.0))
}

pub(crate) fn cuMemcpy2DUnaligned_v2(about: In<CUDA_MEMCPY2D_v2>) -> Outcome {
    copy("cuMemcpy2DUnaligned", DEFAULT, Manner::Blocking, |state| plane_of(state, &about.0))
}

pub(crate) fn cuMemcpy2DAsync_v2(about: In<CUDA_MEMCPY2D_v2>, stream: StreamId) -> Outcome {
    copy("cuMemcpy2DAsync", stream, Manner::Asynchronous, |state| plane_of(state, &about.0))
}

pub(crate) fn cuMemcpy3D_v2(about: In<CUDA_MEMCPY3D_v2>) -> Outcome {
    copy("cuMemcpy3D", DEFAULT, Manner::Blocking, |state| transfer_of(state, &about.0))
}

pub(crate) fn cuMemcpy3DAsync_v2(about: In<CUDA_MEMCPY3D_v2>, stream: StreamId) -> Outcome {
    copy("cuMemcpy3DAsync", stream, Manner::Asynchronous, |state| transfer_of(state, &about.0))
}

/// Returns the side that starts at a byte offset of a 1D array.
fn part(array: CUarray, offset: usize) -> Side {
    Side {
        kind: CU_MEMORYTYPE_ARRAY,
        host: 0,
        device: 0,
        array,
        at: [offset, 0, 0],
        pitch: 0,
        height: 0,
    }
}

fn memory(kind: CUmemorytype, address: u64) -> Side {
    let array = std::ptr::null_mut();
    Side { kind, host: address, device: address, array, at: [0; 3], pitch: 0, height: 0 }
}

fn row(call: &'static str, to: &Side, from: &Side, bytes: usize, stream: Option<StreamId>) -> Outcome {
    let manner = if stream.is_some() { Manner::Asynchronous } else { Manner::Blocking };
    copy(call, stream.unwrap_or(DEFAULT), manner, |state| transfer(state, to, from, [bytes, 1, 1]))
}

fn host(address: *const c_void) -> Side {
    memory(CU_MEMORYTYPE_HOST, address.expose_provenance() as u64)
}

pub(crate) fn cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: *const c_void, bytes: usize) -> Outcome {
    row("cuMemcpyHtoA", &part(dst, offset), &host(src), bytes, None)
}

pub(crate) fn cuMemcpyAtoH_v2(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize) -> Outcome {
    row("cuMemcpyAtoH", &host(dst), &part(src, offset), bytes, None)
}

pub(crate) fn cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize) -> Outcome {
    let from = memory(CU_MEMORYTYPE_DEVICE, src);
    row("cuMemcpyDtoA", &part(dst, offset), &from, bytes, None)
}

pub(crate) fn cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize) -> Outcome {
    let to = memory(CU_MEMORYTYPE_DEVICE, dst);
    row("cuMemcpyAtoD", &to, &part(src, offset), bytes, None)
}

pub(crate) fn cuMemcpyAtoA_v2(
    dst: CUarray,
    offset: usize,
    src: CUarray,
    from: usize,
    bytes: usize,
) -> Outcome {
    row("cuMemcpyAtoA", &part(dst, offset), &part(src, from), bytes, None)
}

pub(crate) fn cuMemcpyHtoAAsync_v2(
    dst: CUarray,
    offset: usize,
    src: *const c_void,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    row("cuMemcpyHtoAAsync", &part(dst, offset), &host(src), bytes, Some(stream))
}

pub(crate) fn cuMemcpyAtoHAsync_v2(
    dst: *mut c_void,
    src: CUarray,
    offset: usize,
    bytes: usize,
    stream: StreamId,
) -> Outcome {
    row("cuMemcpyAtoHAsync", &host(dst), &part(src, offset), bytes, Some(stream))
}
