use std::ffi::{c_int, c_uint};

use warpfold_driver::sys::*;

use crate::{
    array::format,
    errors::{INVALID_VALUE, NOT_SUPPORTED, Outcome, check},
    functions,
    runtime::ready,
    types::{ChannelFormat, ResourceDesc, TextureDesc},
};

const NORMALIZED_FLOAT: c_int = 1;

fn resource(of: &ResourceDesc) -> Outcome<CUDA_RESOURCE_DESC_v1> {
    let given = &of.value;
    let mut value = [0; 16];
    value[0] = given[0];
    // The address is followed by the texel format, a `cudaChannelFormatDesc` of five 32-bit words.
    let channels = || -> Outcome<u64> {
        let word = |index: usize| (given[1 + index / 2] >> (32 * (index % 2))) as u32 as c_int;
        let bits = [word(0), word(1), word(2), word(3)];
        let (format, channels) = format(&ChannelFormat { bits, kind: word(4) })?;
        Ok(u64::from(format as u32) | u64::from(channels) << 32)
    };
    match of.kind {
        CU_RESOURCE_TYPE_ARRAY => {}
        CU_RESOURCE_TYPE_LINEAR => {
            value[1] = channels()?;
            value[2] = given[4];
        }
        CU_RESOURCE_TYPE_PITCH2D => {
            value[1] = channels()?;
            value[2..5].copy_from_slice(&given[4..7]);
        }
        CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => return Err(NOT_SUPPORTED),
        _ => return Err(INVALID_VALUE),
    }
    Ok(CUDA_RESOURCE_DESC_v1 { kind: of.kind, padding: 0, value, flags: 0, padding_behind: 0 })
}

fn sampler(of: &TextureDesc) -> CUDA_TEXTURE_DESC_v1 {
    let flag = |holds: bool, flag: c_uint| if holds { flag } else { 0 };
    CUDA_TEXTURE_DESC_v1 {
        address_mode: of.address_mode,
        filter_mode: of.filter_mode,
        flags: flag(of.read_mode != NORMALIZED_FLOAT, CU_TRSF_READ_AS_INTEGER)
            | flag(of.normalized_coordinates != 0, CU_TRSF_NORMALIZED_COORDINATES)
            | flag(of.srgb != 0, CU_TRSF_SRGB),
        max_anisotropy: of.max_anisotropy,
        mipmap_filter_mode: of.mipmap_filter_mode,
        mipmap_level_bias: of.levels[0],
        min_mipmap_level_clamp: of.levels[1],
        max_mipmap_level_clamp: of.levels[2],
        border_color: of.border_color,
        reserved: [0; 12],
    }
}

functions! {
    fn cudaCreateTextureObject(
        texture: *mut CUtexObject,
        of: *const ResourceDesc,
        about: *const TextureDesc,
        view: *const CUDA_RESOURCE_VIEW_DESC_v1,
    ) {
        let api = ready()?;
        if texture.is_null() || of.is_null() || about.is_null() {
            return Err(INVALID_VALUE);
        }
        let (resource, sampler) = (resource(&*of)?, sampler(&*about));
        check((api.cuTexObjectCreate)(texture, &resource, &sampler, view))
    }

    fn cudaDestroyTextureObject(texture: CUtexObject) {
        let api = ready()?;
        if texture == 0 {
            return Ok(());
        }
        check((api.cuTexObjectDestroy)(texture))
    }

    fn cudaCreateSurfaceObject(surface: *mut CUsurfObject, of: *const ResourceDesc) {
        let api = ready()?;
        if surface.is_null() || of.is_null() {
            return Err(INVALID_VALUE);
        }
        check((api.cuSurfObjectCreate)(surface, &resource(&*of)?))
    }

    fn cudaDestroySurfaceObject(surface: CUsurfObject) {
        let api = ready()?;
        if surface == 0 {
            return Ok(());
        }
        check((api.cuSurfObjectDestroy)(surface))
    }
}
