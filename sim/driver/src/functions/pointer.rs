//! Attributes of addresses.

use std::ptr;

use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, PoolId, list};
use crate::world::{self, HostKind, State};

struct Known {
    context: ContextId,
    kind: CUmemorytype,
    base: u64,
    bytes: u64,
    is_managed: bool,
    pool: Option<PoolId>,
}

fn look_up(state: &State, address: u64) -> Option<Known> {
    if let Some((base, found)) = state.host.holder(address) {
        let is_managed = matches!(found.kind, HostKind::Managed);
        let kind = if is_managed { CU_MEMORYTYPE_DEVICE } else { CU_MEMORYTYPE_HOST };
        let (context, bytes) = (found.context, found.bytes);
        return Some(Known { context, kind, base, bytes, is_managed, pool: None });
    }
    let (context, memory) = state.owner_of(address)?;
    let (base, bytes) = memory.allocation_of(address)?;
    let pool = state.pools.iter().find(|(_, pool)| pool.live.contains_key(&base)).map(|(&id, _)| id);
    Some(Known { context, kind: CU_MEMORYTYPE_DEVICE, base, bytes, is_managed: false, pool })
}

/// The value of an attribute, with the type that the interface gives it.
enum Value {
    Int(c_int),
    Unsigned(c_uint),
    Long(c_ulonglong),
    Pointer(*mut c_void),
    Size(usize),
}

/// Returns an attribute of an address; `None` if the driver does not know the memory.
fn value_of(state: &State, attribute: CUpointer_attribute, address: u64) -> Outcome<Option<Value>> {
    let Some(known) = look_up(state, address) else { return Ok(None) };
    let is_host = known.kind == CU_MEMORYTYPE_HOST || known.is_managed;
    let pointer = |address: u64| ptr::with_exposed_provenance_mut(address as usize);
    let device = state.contexts.get(&known.context).map_or(0, |context| context.device);
    Ok(Some(match attribute {
        CU_POINTER_ATTRIBUTE_CONTEXT => Value::Pointer(known.context.raw().cast()),
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE => Value::Unsigned(known.kind as c_uint),
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER => Value::Long(address),
        CU_POINTER_ATTRIBUTE_HOST_POINTER if is_host => Value::Pointer(pointer(address)),
        CU_POINTER_ATTRIBUTE_HOST_POINTER => return fail(CUDA_ERROR_INVALID_VALUE),
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
        | CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE => Value::Int(0),
        CU_POINTER_ATTRIBUTE_BUFFER_ID => Value::Long(known.base),
        CU_POINTER_ATTRIBUTE_IS_MANAGED => Value::Int(c_int::from(known.is_managed)),
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => Value::Int(device as c_int),
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR | CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => {
            Value::Pointer(pointer(known.base))
        }
        CU_POINTER_ATTRIBUTE_RANGE_SIZE | CU_POINTER_ATTRIBUTE_MAPPING_SIZE => {
            Value::Size(known.bytes as usize)
        }
        CU_POINTER_ATTRIBUTE_MAPPED => Value::Int(1),
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => Value::Long(0),
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => Value::Int(CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => {
            Value::Pointer(known.pool.unwrap_or(PoolId(0)).raw().cast())
        }
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    }))
}

impl Value {
    /// # Safety
    /// `place` can be written with the type that the interface gives the attribute.
    unsafe fn put(self, place: *mut c_void) {
        // SAFETY: by this function's contract, `place` can be written with this type.
        unsafe {
            match self {
                Self::Int(value) => place.cast::<c_int>().write_unaligned(value),
                Self::Unsigned(value) => place.cast::<c_uint>().write_unaligned(value),
                Self::Long(value) => place.cast::<c_ulonglong>().write_unaligned(value),
                Self::Pointer(value) => place.cast::<*mut c_void>().write_unaligned(value),
                Self::Size(value) => place.cast::<usize>().write_unaligned(value),
            }
        }
    }
}

pub(crate) fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: CUpointer_attribute,
    ptr: CUdeviceptr,
) -> Outcome {
    let state = world::lock();
    state.here()?;
    let Some(value) = value_of(&state, attribute, ptr)?.filter(|_| !data.is_null()) else {
        return fail_with(
            CUDA_ERROR_INVALID_VALUE,
            format!("{ptr:#x} is not an address in memory of the driver"),
        );
    };
    // SAFETY: not null, so the caller passes a variable of the attribute's type.
    unsafe { value.put(data) };
    Ok(())
}

pub(crate) fn cuPointerGetAttributes(
    num_attributes: c_uint,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    ptr: CUdeviceptr,
) -> Outcome {
    let state = world::lock();
    state.here()?;
    let count = num_attributes as usize;
    // SAFETY: the caller passes `num_attributes` attributes and pointers.
    let (attributes, places) = unsafe { (list(attributes, count), list(data, count)) };
    for (attribute, place) in attributes?.into_iter().zip(places?) {
        // This call returns zeros, not an error, for unknown memory and for attributes that do not
        // apply.
        let zero = match attribute {
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => Value::Int(-2),
            CU_POINTER_ATTRIBUTE_CONTEXT | CU_POINTER_ATTRIBUTE_HOST_POINTER => {
                Value::Pointer(ptr::null_mut())
            }
            CU_POINTER_ATTRIBUTE_DEVICE_POINTER => Value::Long(0),
            _ => Value::Int(0),
        };
        let value = value_of(&state, attribute, ptr).ok().flatten().unwrap_or(zero);
        if place.is_null() {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null, so it points to a variable of the attribute's type.
        unsafe { value.put(place) };
    }
    Ok(())
}
