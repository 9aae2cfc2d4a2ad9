//! Memory, copies and fills.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

use warpfold_driver::{
    Api,
    sys::{CUdeviceptr, CUstream},
};

use crate::{
    array::described_3d,
    errors::{INVALID_MEMCPY_DIRECTION, INVALID_VALUE, Outcome, check},
    functions,
    registry::variable,
    runtime::{driver, primary, ready},
    types::{Extent, Location, Memcpy3D, Pitched, PointerAttributes},
};

/// Values of `cudaMemcpyKind`.
pub(crate) const HOST_TO_HOST: c_int = 0;
pub(crate) const HOST_TO_DEVICE: c_int = 1;
pub(crate) const DEVICE_TO_HOST: c_int = 2;
pub(crate) const DEVICE_TO_DEVICE: c_int = 3;
pub(crate) const DEFAULT: c_int = 4;

const OF_HOST: c_int = 1;

/// Element size passed to `cuMemAllocPitch`, in bytes.
const PITCH_ELEMENT: c_uint = 4;

/// First and last code of errors that make a context unusable: every later call returns the same code.
const FIRST_LOST: c_int = 700;
const LAST_LOST: c_int = 719;

/// Returns an error if the context is unusable. A free of a null pointer does nothing else.
fn lost(api: &Api) -> Outcome {
    // SAFETY: the legacy stream always exists.
    match unsafe { (api.cuStreamQuery)(ptr::null_mut()) } {
        code @ FIRST_LOST..=LAST_LOST => Err(code),
        _ => Ok(()),
    }
}

/// Waits for pending work, which may use memory that is about to be freed. NVIDIA's runtime waits as
/// well, and programs rely on that.
fn settle(api: &Api) -> Outcome {
    // SAFETY: `cuCtxSynchronize` takes no arguments.
    check(unsafe { (api.cuCtxSynchronize)() })
}

/// The stream of an asynchronous copy; `None` for a blocking one.
pub(crate) type Order = Option<CUstream>;

fn number<T>(address: *const T) -> CUdeviceptr {
    address.expose_provenance() as CUdeviceptr
}

fn pointer(address: CUdeviceptr) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// # Safety
/// `bytes` bytes can be read at `from` and written at `to`, in memory of the given kind.
unsafe fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    order: Order,
) -> Outcome {
    let api = ready()?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: by this function's contract, the bytes can be read and written in memory of this kind.
    check(unsafe {
        match (kind, order) {
            (HOST_TO_DEVICE, None) => (api.cuMemcpyHtoD_v2)(number(to), from, bytes),
            (HOST_TO_DEVICE, Some(on)) => (api.cuMemcpyHtoDAsync_v2)(number(to), from, bytes, on),
            (DEVICE_TO_HOST, None) => (api.cuMemcpyDtoH_v2)(to, number(from), bytes),
            (DEVICE_TO_HOST, Some(on)) => (api.cuMemcpyDtoHAsync_v2)(to, number(from), bytes, on),
            (DEVICE_TO_DEVICE, None) => (api.cuMemcpyDtoD_v2)(number(to), number(from), bytes),
            (DEVICE_TO_DEVICE, Some(on)) => {
                (api.cuMemcpyDtoDAsync_v2)(number(to), number(from), bytes, on)
            }
            (HOST_TO_HOST | DEFAULT, None) => (api.cuMemcpy)(number(to), number(from), bytes),
            (HOST_TO_HOST | DEFAULT, Some(on)) => {
                (api.cuMemcpyAsync)(number(to), number(from), bytes, on)
            }
            _ => return Err(INVALID_MEMCPY_DIRECTION),
        }
    })
}

/// Copies `extent.z` layers of `extent.y` rows of `extent.x` bytes. Rows start one pitch apart, and
/// layers start one pitch times the height apart.
///
/// # Safety
/// Each row meets the contract of [`copy`].
unsafe fn copy_rows(
    (to, to_pitch, to_height): (*mut c_void, usize, usize),
    (from, from_pitch, from_height): (*const c_void, usize, usize),
    extent: Extent,
    kind: c_int,
    order: Order,
) -> Outcome {
    if extent.y > 1 && (to_pitch < extent.x || from_pitch < extent.x) {
        // `cudaErrorInvalidPitchValue`
        return Err(12);
    }
    let whole = to_pitch == extent.x && from_pitch == extent.x;
    for layer in 0..extent.z {
        let (to_row, from_row) = (layer * to_height * to_pitch, layer * from_height * from_pitch);
        let rows = if whole { 1 } else { extent.y };
        let bytes = if whole { extent.x * extent.y } else { extent.x };
        for row in 0..rows {
            let to = to.wrapping_byte_add(to_row + row * to_pitch);
            let from = from.wrapping_byte_add(from_row + row * from_pitch);
            // SAFETY: by this function's contract, each row meets the contract of `copy`.
            unsafe { copy(to, from, bytes, kind, order) }?;
        }
    }
    Ok(())
}

/// # Safety
/// Each row meets the contract of [`copy`], and each array is null or the handle of an array.
unsafe fn copy_3d(parameters: &Memcpy3D, order: Order) -> Outcome {
    if !parameters.from_array.is_null() || !parameters.to_array.is_null() {
        let api = ready()?;
        // SAFETY: by this function's contract, each array is null or a handle.
        let about = unsafe { described_3d(parameters) }?;
        // SAFETY: by this function's contract, all rows exist on both sides.
        return check(unsafe {
            match order {
                None => (api.cuMemcpy3D_v2)(&about),
                Some(stream) => (api.cuMemcpy3DAsync_v2)(&about, stream),
            }
        });
    }
    let place = |of: &Pitched, at: &Extent| {
        of.pointer.wrapping_byte_add((at.z * of.height + at.y) * of.pitch + at.x)
    };
    let (to, from) = (&parameters.to, &parameters.from);
    let (to_place, from_place) =
        (place(to, &parameters.to_place), place(from, &parameters.from_place).cast_const());
    // SAFETY: by this function's contract, each row meets the contract of `copy`.
    unsafe {
        copy_rows(
            (to_place, to.pitch, to.height),
            (from_place, from.pitch, from.height),
            parameters.extent,
            parameters.kind,
            order,
        )
    }
}

/// # Safety
/// `bytes` bytes can be written at `to`.
unsafe fn fill(to: *mut c_void, value: c_int, bytes: usize, order: Order) -> Outcome {
    let api = ready()?;
    if bytes == 0 {
        return Ok(());
    }
    // `cudaMemset` uses only the lowest byte of the value.
    let value = value as u8;
    // SAFETY: by this function's contract, the bytes can be written.
    check(unsafe {
        match order {
            None => (api.cuMemsetD8_v2)(number(to), value, bytes),
            Some(on) => (api.cuMemsetD8Async)(number(to), value, bytes, on),
        }
    })
}

/// # Safety
/// Each row meets the contract of [`fill`].
unsafe fn fill_rows(to: Pitched, value: c_int, extent: Extent, order: Order) -> Outcome {
    for layer in 0..extent.z {
        for row in 0..extent.y {
            let to = to.pointer.wrapping_byte_add((layer * to.height + row) * to.pitch);
            // SAFETY: by this function's contract, each row meets the contract of `fill`.
            unsafe { fill(to, value, extent.x, order) }?;
        }
    }
    Ok(())
}

fn part(symbol: *const c_void, bytes: usize, offset: usize) -> Outcome<*mut c_void> {
    let (address, size) = variable(symbol)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(pointer(address).wrapping_byte_add(offset)),
        _ => Err(INVALID_VALUE),
    }
}

/// # Safety
/// The contract of `cuMemAllocPitch`.
unsafe fn pitched(api: &Api, width: usize, rows: usize) -> Outcome<(CUdeviceptr, usize)> {
    let (mut address, mut pitch) = (0, 0);
    // SAFETY: the driver writes the address and the pitch.
    check(unsafe { (api.cuMemAllocPitch_v2)(&mut address, &mut pitch, width, rows, PITCH_ELEMENT) })?;
    Ok((address, pitch))
}

functions! {
    fn cudaMalloc(address: *mut *mut c_void, bytes: usize) {
        let api = ready()?;
        if bytes == 0 {
            address.write(ptr::null_mut());
            return Ok(());
        }
        let mut found = 0;
        check((api.cuMemAlloc_v2)(&mut found, bytes))?;
        address.write(pointer(found));
        Ok(())
    }

    fn cudaMallocManaged(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let mut found = 0;
        check((ready()?.cuMemAllocManaged)(&mut found, bytes, flags))?;
        address.write(pointer(found));
        Ok(())
    }

    fn cudaMallocPitch(address: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        let found = pitched(ready()?, width, height)?;
        address.write(pointer(found.0));
        pitch.write(found.1);
        Ok(())
    }

    fn cudaMalloc3D(made: *mut Pitched, extent: Extent) {
        let (address, pitch) = pitched(ready()?, extent.x, extent.y * extent.z)?;
        made.write(Pitched { pointer: pointer(address), pitch, width: extent.x, height: extent.y });
        Ok(())
    }

    fn cudaFree(address: *mut c_void) {
        let api = ready()?;
        if address.is_null() {
            return lost(api);
        }
        settle(api)?;
        check((api.cuMemFree_v2)(number(address)))
    }

    fn cudaMallocHost(address: *mut *mut c_void, bytes: usize) {
        check((ready()?.cuMemHostAlloc)(address, bytes, 0))
    }

    fn cudaHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        check((ready()?.cuMemHostAlloc)(address, bytes, flags))
    }

    fn cudaFreeHost(address: *mut c_void) {
        let api = ready()?;
        if address.is_null() {
            return lost(api);
        }
        settle(api)?;
        check((api.cuMemFreeHost)(address))
    }

    fn cudaHostRegister(address: *mut c_void, bytes: usize, flags: c_uint) {
        check((ready()?.cuMemHostRegister_v2)(address, bytes, flags))
    }

    fn cudaHostUnregister(address: *mut c_void) {
        check((ready()?.cuMemHostUnregister)(address))
    }

    fn cudaHostGetDevicePointer(found: *mut *mut c_void, address: *mut c_void, flags: c_uint) {
        let mut device = 0;
        check((ready()?.cuMemHostGetDevicePointer_v2)(&mut device, address, flags))?;
        found.write(pointer(device));
        Ok(())
    }

    fn cudaHostGetFlags(flags: *mut c_uint, address: *mut c_void) {
        check((ready()?.cuMemHostGetFlags)(flags, address))
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        check((ready()?.cuMemGetInfo_v2)(free, total))
    }

    fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) {
        copy(to, from, bytes, kind, None)
    }

    fn cudaMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy(to, from, bytes, kind, Some(stream))
    }

    fn cudaMemcpyPeer(
        to: *mut c_void,
        to_device: c_int,
        from: *const c_void,
        from_device: c_int,
        bytes: usize,
    ) {
        let (to_context, from_context) = (primary(to_device)?, primary(from_device)?);
        check((ready()?.cuMemcpyPeer)(number(to), to_context, number(from), from_context, bytes))
    }

    fn cudaMemcpyPeerAsync(
        to: *mut c_void,
        to_device: c_int,
        from: *const c_void,
        from_device: c_int,
        bytes: usize,
        stream: CUstream,
    ) {
        let (to_context, from_context) = (primary(to_device)?, primary(from_device)?);
        let copy = ready()?.cuMemcpyPeerAsync;
        check(copy(number(to), to_context, number(from), from_context, bytes, stream))
    }

    fn cudaMemcpy2D(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) {
        let extent = Extent { x: width, y: height, z: 1 };
        copy_rows((to, to_pitch, 0), (from, from_pitch, 0), extent, kind, None)
    }

    fn cudaMemcpy2DAsync(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        let extent = Extent { x: width, y: height, z: 1 };
        copy_rows((to, to_pitch, 0), (from, from_pitch, 0), extent, kind, Some(stream))
    }

    fn cudaMemcpy3D(parameters: *const Memcpy3D) {
        copy_3d(&parameters.read(), None)
    }

    fn cudaMemcpy3DAsync(parameters: *const Memcpy3D, stream: CUstream) {
        copy_3d(&parameters.read(), Some(stream))
    }

    fn cudaMemcpyToSymbol(
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        copy(part(symbol, bytes, offset)?, from, bytes, kind, None)
    }

    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy(part(symbol, bytes, offset)?, from, bytes, kind, Some(stream))
    }

    fn cudaMemcpyFromSymbol(
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        copy(to, part(symbol, bytes, offset)?, bytes, kind, None)
    }

    fn cudaMemcpyFromSymbolAsync(
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
        stream: CUstream,
    ) {
        copy(to, part(symbol, bytes, offset)?, bytes, kind, Some(stream))
    }

    fn cudaGetSymbolAddress(found: *mut *mut c_void, symbol: *const c_void) {
        found.write(pointer(variable(symbol)?.0));
        Ok(())
    }

    fn cudaGetSymbolSize(bytes: *mut usize, symbol: *const c_void) {
        bytes.write(variable(symbol)?.1);
        Ok(())
    }

    fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) {
        fill(to, value, bytes, None)
    }

    fn cudaMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: CUstream) {
        fill(to, value, bytes, Some(stream))
    }

    fn cudaMemset2D(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        let to = Pitched { pointer: to, pitch, width, height };
        fill_rows(to, value, Extent { x: width, y: height, z: 1 }, None)
    }

    fn cudaMemset2DAsync(
        to: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        let to = Pitched { pointer: to, pitch, width, height };
        fill_rows(to, value, Extent { x: width, y: height, z: 1 }, Some(stream))
    }

    fn cudaMemset3D(to: Pitched, value: c_int, extent: Extent) {
        fill_rows(to, value, extent, None)
    }

    fn cudaMemset3DAsync(to: Pitched, value: c_int, extent: Extent, stream: CUstream) {
        fill_rows(to, value, extent, Some(stream))
    }

    fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, address: *const c_void) {
        if attributes.is_null() {
            return Err(INVALID_VALUE);
        }
        ready()?;
        let known = driver()?.pointer_get_attributes(number(address)).map_err(|error| error.code)?;
        let kind = match known.memory_type {
            // `cudaMemoryTypeUnregistered`: host memory unknown to the driver.
            0 => 0,
            _ if known.is_managed => 3,
            OF_HOST => 1,
            _ => 2,
        };
        attributes.write(PointerAttributes {
            kind,
            device: known.device_ordinal,
            device_pointer: pointer(known.device_address),
            host_pointer: if kind == 0 { address.cast_mut() } else { known.host_address },
            reserved: [0; 8],
        });
        Ok(())
    }

    fn cudaMemAdvise(_address: *const c_void, _bytes: usize, _advice: c_int, _location: Location) {
        // Advice affects where pages are stored, but no result.
        ready().map(drop)
    }

    fn cudaMemPrefetchAsync(
        _address: *const c_void,
        _bytes: usize,
        _location: Location,
        _flags: c_uint,
        _stream: CUstream,
    ) {
        ready().map(drop)
    }

    fn cudaMallocAsync(address: *mut *mut c_void, bytes: usize, stream: CUstream) {
        let mut found = 0;
        check((ready()?.cuMemAllocAsync)(&mut found, bytes, stream))?;
        address.write(pointer(found));
        Ok(())
    }

    fn cudaFreeAsync(address: *mut c_void, stream: CUstream) {
        check((ready()?.cuMemFreeAsync)(number(address), stream))
    }

    fn cudaStreamAttachMemAsync(
        stream: CUstream,
        address: *mut c_void,
        bytes: usize,
        flags: c_uint,
    ) {
        check((ready()?.cuStreamAttachMemAsync)(stream, number(address), bytes, flags))
    }
}
