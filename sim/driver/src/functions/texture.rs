use warpfold_driver::sys::*;
use warpfold_sim::{AddressMode, Sampler, Texels, Texture};

use super::array::{channel, check_channels};
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ArrayId, In, Out};
use crate::world::{self, Guard, Object};

fn texels(state: &Guard, resource: &CUDA_RESOURCE_DESC_v1) -> Outcome<Texels> {
    let value = &resource.value;
    let (format, channels) = (value[1] as u32 as c_int, (value[1] >> 32) as c_uint);
    match resource.kind {
        CU_RESOURCE_TYPE_ARRAY => Ok(state.array(ArrayId(value[0]))?.texels),
        CU_RESOURCE_TYPE_LINEAR => {
            let each = u64::from(channel(format)?.bytes() * channels.max(1));
            of_rows(state, value[0], (format, channels), [value[2] / each, 1], 1, value[2])
        }
        CU_RESOURCE_TYPE_PITCH2D => {
            of_rows(state, value[0], (format, channels), [value[2], value[3]], 2, value[4])
        }
        CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
            fail_with(CUDA_ERROR_NOT_SUPPORTED, "mipmapped textures are not simulated")
        }
        kind => fail_with(CUDA_ERROR_INVALID_VALUE, format!("{kind} is not a resource type")),
    }
}

fn of_rows(
    state: &Guard,
    address: u64,
    (format, channels): (CUarray_format, c_uint),
    [width, height]: [u64; 2],
    dimensions: u32,
    pitch: u64,
) -> Outcome<Texels> {
    let channel = channel(format)?;
    check_channels(channels)?;
    let bytes = width.saturating_mul(u64::from(channel.bytes() * channels));
    let rows = height.saturating_sub(1);
    let extent = [width, height].map(u32::try_from);
    let ([Ok(width), Ok(height)], true) = (extent, width != 0 && height != 0 && pitch >= bytes) else {
        let detail = format!("{width} x {height} texels do not fit into rows of {pitch} bytes");
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    };
    state.device_range("a texture", address, rows.saturating_mul(pitch).saturating_add(bytes))?;
    Ok(Texels {
        address,
        channel,
        channels,
        dimensions,
        extent: [width, height, 1],
        layers: None,
        cube: false,
        row_bytes: pitch,
        plane_bytes: pitch * u64::from(height),
    })
}

fn sampler(about: &CUDA_TEXTURE_DESC_v1) -> Outcome<Sampler> {
    let mut address = [AddressMode::Clamp; 3];
    for (mode, given) in address.iter_mut().zip(about.address_mode) {
        *mode = match given {
            CU_TR_ADDRESS_MODE_WRAP => AddressMode::Wrap,
            CU_TR_ADDRESS_MODE_CLAMP => AddressMode::Clamp,
            CU_TR_ADDRESS_MODE_MIRROR => AddressMode::Mirror,
            CU_TR_ADDRESS_MODE_BORDER => AddressMode::Border,
            _ => return fail_with(CUDA_ERROR_INVALID_VALUE, format!("{given} is not an address mode")),
        };
    }
    let filter = about.filter_mode;
    if !matches!(filter, CU_TR_FILTER_MODE_POINT | CU_TR_FILTER_MODE_LINEAR) {
        return fail_with(CUDA_ERROR_INVALID_VALUE, format!("{filter} is not a filter mode"));
    }
    Ok(Sampler {
        address,
        linear: filter == CU_TR_FILTER_MODE_LINEAR,
        normalized: about.flags & CU_TRSF_NORMALIZED_COORDINATES != 0,
        as_floats: about.flags & CU_TRSF_READ_AS_INTEGER == 0,
        srgb: about.flags & CU_TRSF_SRGB != 0,
        border: about.border_color,
    })
}

pub(crate) fn cuTexObjectCreate(
    texture: Out<CUtexObject>,
    resource: In<CUDA_RESOURCE_DESC_v1>,
    about: In<CUDA_TEXTURE_DESC_v1>,
    view: Option<In<CUDA_RESOURCE_VIEW_DESC_v1>>,
) -> Outcome {
    let mut state = world::lock();
    let context = state.here()?;
    if view.is_some_and(|view| view.0.format != 0) {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "views of textures are not simulated");
    }
    let texels = texels(&state, &resource.0)?;
    let sampler = sampler(&about.0)?;
    let handle = state.context(context)?.gpu.create_texture(Texture { texels, sampler });
    let object = Object { context, resource: resource.0, sampler: Some(about.0) };
    state.objects.insert(handle, object);
    texture.put(handle)
}

pub(crate) fn cuSurfObjectCreate(
    surface: Out<CUsurfObject>,
    resource: In<CUDA_RESOURCE_DESC_v1>,
) -> Outcome {
    let mut state = world::lock();
    let context = state.here()?;
    let resource = resource.0;
    if resource.kind != CU_RESOURCE_TYPE_ARRAY {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "the resource of a surface must be an array");
    }
    let array = state.array(ArrayId(resource.value[0]))?;
    if array.descriptor.flags & CUDA_ARRAY3D_SURFACE_LDST == 0 {
        let detail = "the array was not created for surfaces; set CUDA_ARRAY3D_SURFACE_LDST";
        return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
    }
    let texels = array.texels;
    let handle = state.context(context)?.gpu.create_surface(texels);
    state.objects.insert(handle, Object { context, resource, sampler: None });
    surface.put(handle)
}

pub(crate) fn cuTexObjectDestroy(texture: CUtexObject) -> Outcome {
    destroy(texture, true)
}

pub(crate) fn cuSurfObjectDestroy(surface: CUsurfObject) -> Outcome {
    destroy(surface, false)
}

/// Destroys a texture or surface after waiting for its context's pending work, which may read it.
fn destroy(handle: u64, texture: bool) -> Outcome {
    let state = world::lock();
    let context = object(&state, handle, texture)?.context;
    let tasks = state.tasks.of(context);
    let mut state = world::force(state, &tasks);
    state.objects.remove(&handle);
    let gpu = &state.context(context)?.gpu;
    let _was_there = if texture { gpu.destroy_texture(handle) } else { gpu.destroy_surface(handle) };
    Ok(())
}

fn object(state: &Guard, handle: u64, texture: bool) -> Outcome<&Object> {
    match state.objects.get(&handle).filter(|object| object.sampler.is_some() == texture) {
        Some(object) => Ok(object),
        None => {
            let what = if texture { "texture" } else { "surface" };
            fail_with(CUDA_ERROR_INVALID_VALUE, format!("{handle:#x} is not the handle of a {what}"))
        }
    }
}

pub(crate) fn cuTexObjectGetResourceDesc(
    resource: Out<CUDA_RESOURCE_DESC_v1>,
    texture: CUtexObject,
) -> Outcome {
    resource.put(object(&world::lock(), texture, true)?.resource)
}

pub(crate) fn cuTexObjectGetTextureDesc(
    about: Out<CUDA_TEXTURE_DESC_v1>,
    texture: CUtexObject,
) -> Outcome {
    let state = world::lock();
    let sampler = object(&state, texture, true)?.sampler.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    about.put(sampler)
}

pub(crate) fn cuSurfObjectGetResourceDesc(
    resource: Out<CUDA_RESOURCE_DESC_v1>,
    surface: CUsurfObject,
) -> Outcome {
    resource.put(object(&world::lock(), surface, false)?.resource)
}
