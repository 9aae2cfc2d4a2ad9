//! Access of a device to the memory of another one.

use warpfold_driver::sys::*;

use super::device::checked;
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, Out};
use crate::world;

pub(crate) fn cuDeviceCanAccessPeer(
    can_access: Out<c_int>,
    device: CUdevice,
    peer: CUdevice,
) -> Outcome {
    let state = world::lock();
    let (device, peer) = (checked(&state, device)?, checked(&state, peer)?);
    can_access.put(c_int::from(device != peer && !state.devices[device as usize].apart))
}

pub(crate) fn cuCtxEnablePeerAccess(peer: ContextId, flags: c_uint) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    if flags != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let device = state.context(here)?.device;
    let Some(other) = state.contexts.get(&peer).filter(|_| peer != here) else {
        return fail(CUDA_ERROR_INVALID_CONTEXT);
    };
    if other.device == device || state.devices[device as usize].apart {
        return fail(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    if state.context(here)?.peers.contains(&peer) {
        return fail(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    }
    state.change_peers(here, |peers| peers.insert(peer));
    Ok(())
}

pub(crate) fn cuCtxDisablePeerAccess(peer: ContextId) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    if !state.context(here)?.peers.contains(&peer) {
        return fail(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    }
    state.change_peers(here, |peers| peers.remove(&peer));
    Ok(())
}

pub(crate) fn cuDeviceGetP2PAttribute(
    value: Out<c_int>,
    attribute: CUdevice_P2PAttribute,
    src_device: CUdevice,
    dst_device: CUdevice,
) -> Outcome {
    let state = world::lock();
    let device = checked(&state, src_device)?;
    if device == checked(&state, dst_device)? {
        return fail(CUDA_ERROR_INVALID_DEVICE);
    }
    let reaches = c_int::from(!state.devices[device as usize].apart);
    value.put(match attribute {
        CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED | CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => {
            reaches
        }
        CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
        | CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED
        | CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED => 0,
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    })
}
