//! CUDA arrays.

use warpfold_driver::sys::*;
use warpfold_sim::{Channel, Texels};

use super::device::checked;
use super::memory::{allocate, tell};
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ArrayId, In, Out};
use crate::world::{self, Array};

/// Limits of a GPU of sm_90: texels along a dimension, and layers.
const MOST_1D: usize = 131_072;
const MOST_2D: [usize; 2] = [131_072, 65_536];
const MOST_3D: usize = 16_384;
const MOST_CUBE: usize = 32_768;
const MOST_LAYERED: usize = 32_768;
const MOST_LAYERS: usize = 2_048;
const MOST_CUBE_LAYERS: usize = 2_046;
const MOST_LINEAR: usize = 1 << 28;

pub(super) fn channel(format: CUarray_format) -> Outcome<Channel> {
    Ok(match format {
        CU_AD_FORMAT_UNSIGNED_INT8 => Channel::U8,
        CU_AD_FORMAT_UNSIGNED_INT16 => Channel::U16,
        CU_AD_FORMAT_UNSIGNED_INT32 => Channel::U32,
        CU_AD_FORMAT_SIGNED_INT8 => Channel::S8,
        CU_AD_FORMAT_SIGNED_INT16 => Channel::S16,
        CU_AD_FORMAT_SIGNED_INT32 => Channel::S32,
        CU_AD_FORMAT_HALF => Channel::F16,
        CU_AD_FORMAT_FLOAT => Channel::F32,
        _ => {
            let detail = format!(
                "format {format} is not simulated; allowed are integers of 8, 16 and 32 bits, halves and singles"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
    })
}

pub(super) fn check_channels(channels: c_uint) -> Outcome {
    match channels {
        1 | 2 | 4 => Ok(()),
        _ => fail_with(CUDA_ERROR_INVALID_VALUE, format!("{channels} channels; allowed are 1, 2 and 4")),
    }
}

/// Converts a descriptor to texels whose address is not set yet.
fn texels(descriptor: &CUDA_ARRAY3D_DESCRIPTOR_v2) -> Outcome<Texels> {
    let &CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, channels, flags } = descriptor;
    let channel = channel(format)?;
    check_channels(channels)?;
    let (layered, cube) = (flags & CUDA_ARRAY3D_LAYERED != 0, flags & CUDA_ARRAY3D_CUBEMAP != 0);
    let dimensions = match (height, depth) {
        (0, _) => 1,
        (_, 0) => 2,
        _ if layered || cube => 2,
        _ => 3,
    };
    let planes_fit = match (layered, cube) {
        (true, true) => depth != 0 && depth.is_multiple_of(6) && depth <= MOST_CUBE_LAYERS,
        (true, false) => (1..=MOST_LAYERS).contains(&depth),
        (false, true) => depth == 6,
        (false, false) => dimensions != 1 || depth == 0,
    };
    let most = match (dimensions, cube, layered) {
        (_, true, _) => [MOST_CUBE, MOST_CUBE, usize::MAX],
        (_, _, true) => [MOST_LAYERED, MOST_LAYERED, usize::MAX],
        (1, ..) => [MOST_1D, 0, 0],
        (2, ..) => [MOST_2D[0], MOST_2D[1], 0],
        _ => [MOST_3D; 3],
    };
    let fits = [width, height, depth].iter().zip(most).all(|(&extent, most)| extent <= most);
    if width == 0 || !planes_fit || !fits || cube && width != height {
        let detail = format!(
            "an array of {width} x {height} x {depth} texels, {} and {}, is not possible; allowed are {} x {} x {}, \
             {MOST_LAYERS} layers, and squares for cubes",
            if layered { "layered" } else { "without layers" },
            if cube { "of cubes" } else { "without cubes" },
            most[0],
            most[1],
            most[2],
        );
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    let extent = [width, height.max(1), if dimensions == 3 { depth } else { 1 }];
    let row_bytes = (width * (channel.bytes() * channels) as usize) as u64;
    let layers = layered.then(|| depth as u32 / if cube { 6 } else { 1 });
    Ok(Texels {
        address: 0,
        channel,
        channels,
        dimensions,
        extent: extent.map(|extent| extent as u32),
        layers,
        cube,
        row_bytes,
        plane_bytes: row_bytes * extent[1] as u64,
    })
}

pub(crate) fn cuArray3DCreate_v2(
    array: Out<CUarray>,
    descriptor: In<CUDA_ARRAY3D_DESCRIPTOR_v2>,
) -> Outcome {
    create("cuArray3DCreate", array, descriptor.0)
}

pub(crate) fn cuArrayCreate_v2(
    array: Out<CUarray>,
    descriptor: In<CUDA_ARRAY_DESCRIPTOR_v2>,
) -> Outcome {
    let CUDA_ARRAY_DESCRIPTOR_v2 { width, height, format, channels } = descriptor.0;
    let descriptor = CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth: 0, format, channels, flags: 0 };
    create("cuArrayCreate", array, descriptor)
}

fn create(call: &'static str, array: Out<CUarray>, descriptor: CUDA_ARRAY3D_DESCRIPTOR_v2) -> Outcome {
    let mut state = world::lock();
    let context = state.here()?;
    state.check_unsafe_call(call)?;
    let mut texels = texels(&descriptor)?;
    let bytes = (texels.plane_bytes * u64::from(texels.planes())) as usize;
    let (address, watcher) = allocate(&mut state, bytes)?;
    texels.address = address;
    let id = ArrayId(state.new_handle());
    state.arrays.insert(id, Array { context, descriptor, texels });
    drop(state);
    tell(watcher, address, bytes);
    array.put(id.raw())
}

pub(crate) fn cuArray3DGetDescriptor_v2(
    descriptor: Out<CUDA_ARRAY3D_DESCRIPTOR_v2>,
    array: ArrayId,
) -> Outcome {
    descriptor.put(world::lock().array(array)?.descriptor)
}

pub(crate) fn cuArrayGetDescriptor_v2(
    descriptor: Out<CUDA_ARRAY_DESCRIPTOR_v2>,
    array: ArrayId,
) -> Outcome {
    let CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, format, channels, .. } =
        world::lock().array(array)?.descriptor;
    descriptor.put(CUDA_ARRAY_DESCRIPTOR_v2 { width, height, format, channels })
}

pub(crate) fn cuArrayDestroy(array: ArrayId) -> Outcome {
    let mut state = world::lock();
    state.array(array)?;
    state.check_unsafe_call("cuArrayDestroy")?;
    let mut state = world::before_free(state)?;
    let Array { context, texels, .. } = state.array(array)?;
    let (context, address) = (*context, texels.address);
    let bytes = texels.plane_bytes * u64::from(texels.planes());
    state.note_freed(context, "cuArrayDestroy", address, bytes);
    state.arrays.remove(&array);
    state.context(context)?.gpu.free(address)?;
    Ok(())
}

pub(crate) fn cuDeviceGetTexture1DLinearMaxWidth(
    texels: Out<usize>,
    format: CUarray_format,
    channels: c_uint,
    device: CUdevice,
) -> Outcome {
    channel(format)?;
    check_channels(channels)?;
    checked(&world::lock(), device)?;
    texels.put(MOST_LINEAR)
}
