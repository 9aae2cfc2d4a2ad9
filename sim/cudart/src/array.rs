//! Arrays and copies from and to them.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

use warpfold_driver::sys::*;

use crate::{
    errors::{INVALID_MEMCPY_DIRECTION, INVALID_VALUE, Outcome, check},
    functions,
    memory::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, Order},
    runtime::ready,
    types::{ChannelFormat, Extent, Memcpy3D, Pitched},
};

/// Values of `cudaChannelFormatKind`.
const SIGNED: c_int = 0;
const UNSIGNED: c_int = 1;
const FLOAT: c_int = 2;

const INVALID_CHANNEL_DESCRIPTOR: c_int = 20;

pub(crate) fn format(channels: &ChannelFormat) -> Outcome<(CUarray_format, c_uint)> {
    let [bits, rest @ ..] = channels.bits;
    let count = 1 + rest.iter().take_while(|&&other| other != 0).count();
    let alike = channels.bits[..count].iter().all(|&other| other == bits);
    let format = match (channels.kind, bits) {
        (UNSIGNED, 8) => CU_AD_FORMAT_UNSIGNED_INT8,
        (UNSIGNED, 16) => CU_AD_FORMAT_UNSIGNED_INT16,
        (UNSIGNED, 32) => CU_AD_FORMAT_UNSIGNED_INT32,
        (SIGNED, 8) => CU_AD_FORMAT_SIGNED_INT8,
        (SIGNED, 16) => CU_AD_FORMAT_SIGNED_INT16,
        (SIGNED, 32) => CU_AD_FORMAT_SIGNED_INT32,
        (FLOAT, 16) => CU_AD_FORMAT_HALF,
        (FLOAT, 32) => CU_AD_FORMAT_FLOAT,
        _ => return Err(INVALID_CHANNEL_DESCRIPTOR),
    };
    match count {
        1 | 2 | 4 if alike => Ok((format, count as c_uint)),
        _ => Err(INVALID_CHANNEL_DESCRIPTOR),
    }
}

fn channel_format(format: CUarray_format, channels: c_uint) -> ChannelFormat {
    let (kind, each) = match format {
        CU_AD_FORMAT_UNSIGNED_INT8 => (UNSIGNED, 8),
        CU_AD_FORMAT_UNSIGNED_INT16 => (UNSIGNED, 16),
        CU_AD_FORMAT_UNSIGNED_INT32 => (UNSIGNED, 32),
        CU_AD_FORMAT_SIGNED_INT8 => (SIGNED, 8),
        CU_AD_FORMAT_SIGNED_INT16 => (SIGNED, 16),
        CU_AD_FORMAT_SIGNED_INT32 => (SIGNED, 32),
        CU_AD_FORMAT_HALF => (FLOAT, 16),
        _ => (FLOAT, 32),
    };
    let bits = std::array::from_fn(|channel| if channel < channels as usize { each } else { 0 });
    ChannelFormat { bits, kind }
}

/// Returns an array's descriptor and the size of a texel in bytes.
///
/// # Safety
/// `array` is null or the handle of an array.
unsafe fn described(array: CUarray) -> Outcome<(CUDA_ARRAY3D_DESCRIPTOR_v2, usize)> {
    let mut found = CUDA_ARRAY3D_DESCRIPTOR_v2::default();
    // SAFETY: `array` is null or a handle, and the driver writes the descriptor to `found`.
    check(unsafe { (ready()?.cuArray3DGetDescriptor_v2)(&mut found, array) })?;
    let bits = channel_format(found.format, found.channels).bits;
    Ok((found, bits.iter().sum::<c_int>() as usize / 8))
}

/// Returns the memory type of the side that is not an array.
fn beside(kind: c_int, to_array: bool) -> Outcome<CUmemorytype> {
    Ok(match (kind, to_array) {
        (HOST_TO_DEVICE, true) | (DEVICE_TO_HOST, false) | (HOST_TO_HOST, _) => CU_MEMORYTYPE_HOST,
        (DEVICE_TO_DEVICE, _) => CU_MEMORYTYPE_DEVICE,
        (DEFAULT, _) => CU_MEMORYTYPE_UNIFIED,
        _ => return Err(INVALID_MEMCPY_DIRECTION),
    })
}

#[derive(Clone, Copy)]
enum Side {
    /// An array, and the start of the copy: the byte within the row, and the row.
    Array(CUarray, [usize; 2]),
    /// An address and the pitch in bytes.
    Memory(*mut c_void, usize),
}

/// # Safety
/// Both sides have `height` rows of `width` bytes. Sides that are not arrays have the given kind.
unsafe fn copy(to: Side, from: Side, [width, height]: [usize; 2], kind: c_int, order: Order) -> Outcome {
    let api = ready()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let memory = |to_array| beside(kind, to_array);
    let number = |pointer: *mut c_void| pointer.expose_provenance() as CUdeviceptr;
    let null = ptr::null_mut();
    let (src_memory_type, src_host, src_array, [src_x_bytes, src_y], src_pitch) = match from {
        Side::Array(array, at) => (CU_MEMORYTYPE_ARRAY, null, array, at, 0),
        Side::Memory(at, pitch) => (memory(true)?, at, ptr::null_mut(), [0; 2], pitch),
    };
    let (dst_memory_type, dst_host, dst_array, [dst_x_bytes, dst_y], dst_pitch) = match to {
        Side::Array(array, at) => (CU_MEMORYTYPE_ARRAY, null, array, at, 0),
        Side::Memory(at, pitch) => (memory(false)?, at, ptr::null_mut(), [0; 2], pitch),
    };
    let about = CUDA_MEMCPY2D_v2 {
        src_x_bytes,
        src_y,
        src_memory_type,
        src_host,
        src_device: number(src_host),
        src_array,
        src_pitch,
        dst_x_bytes,
        dst_y,
        dst_memory_type,
        dst_host,
        dst_device: number(dst_host),
        dst_array,
        dst_pitch,
        width_bytes: width,
        height,
    };
    // SAFETY: by this function's contract, both sides have the rows that `about` describes.
    check(unsafe {
        match order {
            None => (api.cuMemcpy2DUnaligned_v2)(&about),
            Some(stream) => (api.cuMemcpy2DAsync_v2)(&about, stream),
        }
    })
}

/// Copies bytes between contiguous `memory` and consecutive rows of an array.
///
/// # Safety
/// The bytes exist in the array and at `memory`, which has the given kind.
unsafe fn copy_along(
    (array, [x, y]): (CUarray, [usize; 2]),
    memory: *mut c_void,
    bytes: usize,
    to_array: bool,
    (kind, order): (c_int, Order),
) -> Outcome {
    // SAFETY: by this function's contract, `array` is the handle of an array.
    let (about, each) = unsafe { described(array) }?;
    let row = about.width * each;
    if x >= row {
        return Err(INVALID_VALUE);
    }
    let first = if x == 0 { 0 } else { bytes.min(row - x) };
    let whole = (bytes - first) / row;
    let skipped = usize::from(first != 0);
    let parts = [
        ([x, y], 0, [first, 1]),
        ([0, y + skipped], first, [row, whole]),
        ([0, y + skipped + whole], first + whole * row, [bytes - first - whole * row, 1]),
    ];
    for (at, done, extent) in parts {
        let (array, memory) =
            (Side::Array(array, at), Side::Memory(memory.wrapping_byte_add(done), row));
        let (to, from) = if to_array { (array, memory) } else { (memory, array) };
        // SAFETY: by this function's contract, the bytes of this part exist on both sides.
        unsafe { copy(to, from, extent, kind, order) }?;
    }
    Ok(())
}

/// Converts the runtime's parameters of a 3D copy. The extent is in texels if either side is an array,
/// otherwise in bytes. Positions in arrays are in texels, positions in other memory in bytes.
///
/// # Safety
/// The arrays are null or handles of arrays.
pub(crate) unsafe fn described_3d(parameters: &Memcpy3D) -> Outcome<CUDA_MEMCPY3D_v2> {
    let each =
        match [parameters.from_array, parameters.to_array].into_iter().find(|array| !array.is_null()) {
            // SAFETY: not null, and so the handle of an array by this function's contract.
            Some(array) => unsafe { described(array.cast()) }?.1,
            None => 1,
        };
    let side = |array: *mut c_void, of: &Pitched, place: &Extent, to: bool| -> Outcome<_> {
        let scale = if array.is_null() { 1 } else { each };
        let kind = match array.is_null() {
            true if parameters.kind == HOST_TO_HOST => CU_MEMORYTYPE_HOST,
            true => beside(parameters.kind, !to)?,
            false => CU_MEMORYTYPE_ARRAY,
        };
        let number = of.pointer.expose_provenance() as CUdeviceptr;
        Ok((kind, of.pointer, number, array.cast::<CUarray_st>(), place.x * scale))
    };
    let (from, to) = (&parameters.from, &parameters.to);
    let (src_memory_type, src_host, src_device, src_array, src_x_bytes) =
        side(parameters.from_array, from, &parameters.from_place, false)?;
    let (dst_memory_type, dst_host, dst_device, dst_array, dst_x_bytes) =
        side(parameters.to_array, to, &parameters.to_place, true)?;
    Ok(CUDA_MEMCPY3D_v2 {
        src_x_bytes,
        src_y: parameters.from_place.y,
        src_z: parameters.from_place.z,
        src_lod: 0,
        src_memory_type,
        src_host,
        src_device,
        src_array,
        reserved0: ptr::null_mut(),
        src_pitch: from.pitch,
        src_height: from.height,
        dst_x_bytes,
        dst_y: parameters.to_place.y,
        dst_z: parameters.to_place.z,
        dst_lod: 0,
        dst_memory_type,
        dst_host,
        dst_device,
        dst_array,
        reserved1: ptr::null_mut(),
        dst_pitch: to.pitch,
        dst_height: to.height,
        width_bytes: parameters.extent.x * each,
        height: parameters.extent.y,
        depth: parameters.extent.z,
    })
}

/// # Safety
/// Each pointer is null or valid.
unsafe fn create(
    array: *mut CUarray,
    channels: *const ChannelFormat,
    extent: Extent,
    flags: c_uint,
) -> Outcome {
    let api = ready()?;
    if array.is_null() || channels.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and so valid by this function's contract.
    let (format, channels) = format(unsafe { &*channels })?;
    let descriptor = CUDA_ARRAY3D_DESCRIPTOR_v2 {
        width: extent.x,
        height: extent.y,
        depth: extent.z,
        format,
        channels,
        flags,
    };
    // SAFETY: `array` is not null, and so valid by this function's contract.
    check(unsafe { (api.cuArray3DCreate_v2)(array, &descriptor) })
}

functions! {
    fn cudaMallocArray(
        array: *mut CUarray,
        channels: *const ChannelFormat,
        width: usize,
        height: usize,
        flags: c_uint,
    ) {
        create(array, channels, Extent { x: width, y: height, z: 0 }, flags)
    }

    fn cudaMalloc3DArray(
        array: *mut CUarray,
        channels: *const ChannelFormat,
        extent: Extent,
        flags: c_uint,
    ) {
        create(array, channels, extent, flags)
    }

    fn cudaFreeArray(array: CUarray) {
        let api = ready()?;
        if array.is_null() {
            return Ok(());
        }
        check((api.cuCtxSynchronize)())?;
        check((api.cuArrayDestroy)(array))
    }

    fn cudaArrayGetInfo(
        channels: *mut ChannelFormat,
        extent: *mut Extent,
        flags: *mut c_uint,
        array: CUarray,
    ) {
        let (about, _) = described(array)?;
        if !channels.is_null() {
            channels.write(channel_format(about.format, about.channels));
        }
        if !extent.is_null() {
            extent.write(Extent { x: about.width, y: about.height, z: about.depth });
        }
        if !flags.is_null() {
            flags.write(about.flags);
        }
        Ok(())
    }

    fn cudaGetChannelDesc(channels: *mut ChannelFormat, array: CUarray) {
        let (about, _) = described(array)?;
        channels.write(channel_format(about.format, about.channels));
        Ok(())
    }

    fn cudaDeviceGetTexture1DLinearMaxWidth(
        texels: *mut usize,
        channels: *const ChannelFormat,
        device: c_int,
    ) {
        let (format, channels) = format(&*channels)?;
        check((ready()?.cuDeviceGetTexture1DLinearMaxWidth)(texels, format, channels, device))
    }

    fn cudaMemcpyToArray(
        to: CUarray,
        x: usize,
        y: usize,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
    ) {
        copy_along((to, [x, y]), from.cast_mut(), bytes, true, (kind, None))
    }

    fn cudaMemcpyToArrayAsync(
        to: CUarray,
        x: usize,
        y: usize,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy_along((to, [x, y]), from.cast_mut(), bytes, true, (kind, Some(stream)))
    }

    fn cudaMemcpyFromArray(
        to: *mut c_void,
        from: CUarray,
        x: usize,
        y: usize,
        bytes: usize,
        kind: c_int,
    ) {
        copy_along((from, [x, y]), to, bytes, false, (kind, None))
    }

    fn cudaMemcpyFromArrayAsync(
        to: *mut c_void,
        from: CUarray,
        x: usize,
        y: usize,
        bytes: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy_along((from, [x, y]), to, bytes, false, (kind, Some(stream)))
    }

    fn cudaMemcpy2DToArray(
        to: CUarray,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) {
        let from = Side::Memory(from.cast_mut(), pitch);
        copy(Side::Array(to, [x, y]), from, [width, height], kind, None)
    }

    fn cudaMemcpy2DToArrayAsync(
        to: CUarray,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        let from = Side::Memory(from.cast_mut(), pitch);
        copy(Side::Array(to, [x, y]), from, [width, height], kind, Some(stream))
    }

    fn cudaMemcpy2DFromArray(
        to: *mut c_void,
        pitch: usize,
        from: CUarray,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) {
        copy(Side::Memory(to, pitch), Side::Array(from, [x, y]), [width, height], kind, None)
    }

    fn cudaMemcpy2DFromArrayAsync(
        to: *mut c_void,
        pitch: usize,
        from: CUarray,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy(Side::Memory(to, pitch), Side::Array(from, [x, y]), [width, height], kind, Some(stream))
    }

    fn cudaMemcpy2DArrayToArray(
        to: CUarray,
        to_x: usize,
        to_y: usize,
        from: CUarray,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) {
        copy(Side::Array(to, [to_x, to_y]), Side::Array(from, [x, y]), [width, height], kind, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_round_trip() {
        let formats = [
            CU_AD_FORMAT_UNSIGNED_INT8,
            CU_AD_FORMAT_UNSIGNED_INT16,
            CU_AD_FORMAT_UNSIGNED_INT32,
            CU_AD_FORMAT_SIGNED_INT8,
            CU_AD_FORMAT_SIGNED_INT16,
            CU_AD_FORMAT_SIGNED_INT32,
            CU_AD_FORMAT_HALF,
            CU_AD_FORMAT_FLOAT,
        ];
        for of in formats {
            for channels in [1, 2, 4] {
                assert_eq!(format(&channel_format(of, channels)), Ok((of, channels)));
            }
        }
        let odd = |bits, kind| format(&ChannelFormat { bits, kind }).expect_err("no such texels");
        assert_eq!(odd([8, 16, 0, 0], UNSIGNED), INVALID_CHANNEL_DESCRIPTOR);
        assert_eq!(odd([8, 8, 8, 0], UNSIGNED), INVALID_CHANNEL_DESCRIPTOR);
        assert_eq!(odd([64, 0, 0, 0], FLOAT), INVALID_CHANNEL_DESCRIPTOR);
    }
}
