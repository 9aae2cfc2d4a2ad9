//! Graph nodes that allocate and free, and the device memory of graphs.

use std::sync::Arc;

use warpfold_driver::sys::*;

use super::device::checked;
use super::graph_nodes::add;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, GraphId, NodeId, Out, list};
use crate::world::{self, Guard, Reserved, State, Work};

pub(crate) fn cuGraphAddMemAllocNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: Out<CUDA_MEM_ALLOC_NODE_PARAMS_v1>,
) -> Outcome {
    let mut given = node_params.get();
    add_allocation(world::lock(), node, graph, (dependencies, num_dependencies), &mut given)?;
    node_params.put(given)
}

pub(super) fn add_allocation(
    mut state: Guard,
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: (*const CUgraphNode, usize),
    params: &mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
) -> Outcome {
    let range = reserve(&mut state, graph, params)?;
    params.dptr = range.address;
    add(state, node, graph, dependencies, Work::Allocate(range))
}

fn reserve(
    state: &mut Guard,
    graph: GraphId,
    params: &CUDA_MEM_ALLOC_NODE_PARAMS_v1,
) -> Outcome<Arc<Reserved>> {
    let CUmemPoolProps { alloc_type, handle_types, location, .. } = params.pool_props;
    if alloc_type != CU_MEM_ALLOCATION_TYPE_PINNED || location.kind != CU_MEM_LOCATION_TYPE_DEVICE {
        return fail_with(
            CUDA_ERROR_INVALID_VALUE,
            "graphs can allocate only pinned memory of a device",
        );
    }
    if handle_types != CU_MEM_HANDLE_TYPE_NONE {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "memory cannot be shared with other processes");
    }
    let own = checked(state, location.id)?;
    let context = context_on(state, own)?;
    // SAFETY: the caller passes `access_desc_count` descriptors.
    let access = unsafe { list(params.access_descs, params.access_desc_count) }?;
    let mut reaching = Vec::new();
    for CUmemAccessDesc { location, flags } in &access {
        if location.kind != CU_MEM_LOCATION_TYPE_DEVICE {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        let device = checked(state, location.id)?;
        match *flags {
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE if device == own => {}
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE if !state.devices[device as usize].apart => {
                reaching.push(device);
            }
            _ => return fail(CUDA_ERROR_INVALID_VALUE),
        }
    }
    let range = state.reserve(graph, context, params.bytes, access.into_boxed_slice())?;
    // As with pools, devices get access to all memory of the device `own`, not only to this allocation.
    state.devices[own as usize].graph_pool.open_to.extend(reaching);
    state.update_visible_memory();
    Ok(range)
}

/// Returns the context of a device in which a node allocates: the current one if it is on the device,
/// otherwise the primary one.
fn context_on(state: &State, device: u32) -> Outcome<ContextId> {
    let here = state.here()?;
    if state.contexts[&here].device == device {
        return Ok(here);
    }
    match state.active_primary(device as usize) {
        Some(primary) => Ok(primary),
        None => {
            let detail = format!("device {device} has no context to allocate in");
            fail_with(CUDA_ERROR_INVALID_VALUE, detail)
        }
    }
}

fn work_of(state: &State, node: NodeId) -> Outcome<&Work> {
    state.nodes.get(&node).map(|node| &node.work).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
}

pub(crate) fn cuGraphMemAllocNodeGetParams(
    node: NodeId,
    params_out: Out<CUDA_MEM_ALLOC_NODE_PARAMS_v1>,
) -> Outcome {
    let state = world::lock();
    let Work::Allocate(range) = work_of(&state, node)? else {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "the node does not allocate memory");
    };
    let location = CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: range.device as c_int };
    let pool_props = CUmemPoolProps {
        alloc_type: CU_MEM_ALLOCATION_TYPE_PINNED,
        handle_types: CU_MEM_HANDLE_TYPE_NONE,
        location,
        win32_security_attributes: std::ptr::null_mut(),
        max_size: 0,
        usage: 0,
        reserved: [0; 54],
    };
    params_out.put(CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
        pool_props,
        // The list lives as long as the node. Null replaces the dangling pointer of an empty list.
        access_descs: if range.access.is_empty() { std::ptr::null() } else { range.access.as_ptr() },
        access_desc_count: range.access.len(),
        bytes: range.asked,
        dptr: range.address,
    })
}

pub(crate) fn cuGraphAddMemFreeNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    dptr: CUdeviceptr,
) -> Outcome {
    let state = world::lock();
    let work = state.free_in_graph(graph, dptr)?;
    add(state, node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn cuGraphMemFreeNodeGetParams(node: NodeId, dptr_out: Out<CUdeviceptr>) -> Outcome {
    let state = world::lock();
    match work_of(&state, node)? {
        Work::Release(address) => dptr_out.put(*address),
        _ => fail_with(CUDA_ERROR_INVALID_VALUE, "the node does not free memory"),
    }
}

pub(crate) fn cuDeviceGraphMemTrim(device: CUdevice) -> Outcome {
    let mut state = world::lock();
    let device = checked(&state, device)?;
    state.trim_graph_memory(device);
    Ok(())
}

pub(crate) fn cuDeviceGetGraphMemAttribute(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
) -> Outcome {
    let state = world::lock();
    let device = checked(&state, device)?;
    let ([used, kept], [most_used, most_kept]) =
        (state.graph_bytes(device), state.most_graph_bytes(device));
    let found = match attribute {
        CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => used,
        CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => most_used,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => kept,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => most_kept,
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    };
    if value.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so the caller passes 64 bits to write, the size of every attribute.
    unsafe { value.cast::<u64>().write_unaligned(found) };
    Ok(())
}

pub(crate) fn cuDeviceSetGraphMemAttribute(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
) -> Outcome {
    let mut state = world::lock();
    let device = checked(&state, device)?;
    if value.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so the caller passes 64 bits to read.
    let given = unsafe { value.cast::<u64>().read_unaligned() };
    let which = match attribute {
        CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => 0,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => 1,
        _ => return fail_with(CUDA_ERROR_INVALID_VALUE, "only the high-water marks can be set"),
    };
    if given != 0 {
        return fail_with(
            CUDA_ERROR_INVALID_VALUE,
            format!("the high-water mark cannot be set to {given}; allowed is 0"),
        );
    }
    state.reset_most_graph_bytes(device, which);
    Ok(())
}
