//! Nodes of graphs that are added by hand.

use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::Launch;

use super::fill::repeated;
use super::launch::{Arguments, Wishes, prepare};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, GraphId, In, NodeId, Out, list};
use crate::world::{self, End, Fill, Guard, HostCall, HostFunction, Transfer, Work};

/// Adds a node behind those that the caller lists.
fn add(
    mut state: Guard,
    place: Out<CUgraphNode>,
    graph: GraphId,
    (dependencies, count): (*const CUgraphNode, usize),
    work: Work,
) -> Outcome {
    // SAFETY: the caller gives as many nodes as it says.
    let needs = unsafe { list(dependencies, count) }?;
    let needs = needs.into_iter().map(NodeId::from).collect();
    place.put(state.add_node(graph, work, needs)?.raw())
}

pub(crate) fn cuGraphAddEmptyNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
) -> Outcome {
    add(world::lock(), node, graph, (dependencies, num_dependencies), Work::Nothing)
}

pub(crate) fn cuGraphAddKernelNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Outcome {
    let CUDA_KERNEL_NODE_PARAMS_v1 { function, grid, block, shared_bytes, kernel_params, extra } =
        node_params.0;
    let state = world::lock();
    let shape = Launch::new(grid, block).with_dynamic_shared(shared_bytes);
    let arguments = Arguments { each: kernel_params, extra };
    let launch = prepare(&state, function.into(), shape, Wishes::default(), arguments)?;
    let work = Work::Launch(Arc::new(launch));
    add(state, node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn cuGraphAddKernelNode_v2(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Outcome {
    let CUDA_KERNEL_NODE_PARAMS_v2 { function, grid, block, shared_bytes, kernel_params, extra, .. } =
        node_params.0;
    if !node_params.0.kernel.is_null() {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "there are no CUkernel handles");
    }
    let first = CUDA_KERNEL_NODE_PARAMS_v1 { function, grid, block, shared_bytes, kernel_params, extra };
    cuGraphAddKernelNode(node, graph, dependencies, num_dependencies, In(first))
}

pub(crate) fn cuGraphAddHostNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: In<CUDA_HOST_NODE_PARAMS_v1>,
) -> Outcome {
    let function = node_params.0.function.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let data = node_params.0.user_data.expose_provenance();
    let work = Work::Host(HostCall { function: HostFunction::Plain(function), data });
    add(world::lock(), node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn cuGraphAddMemsetNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    memset_params: In<CUDA_MEMSET_NODE_PARAMS_v1>,
    ctx: ContextId,
) -> Outcome {
    let CUDA_MEMSET_NODE_PARAMS_v1 { dst, pitch, value, element_bytes, width, height } = memset_params.0;
    let state = world::lock();
    state.check(ctx)?;
    let element = u64::from(element_bytes);
    if ![1, 2, 4].contains(&element) || !dst.is_multiple_of(element) || height == 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let bytes = element * width as u64;
    let pitch = if height > 1 { pitch as u64 } else { bytes };
    let fill =
        Fill { to: dst, pattern: repeated(value.into(), element), bytes, rows: height as u64, pitch };
    if !pitch.is_multiple_of(element) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.device_range("memset", dst, pitch * (fill.rows - 1) + bytes)?;
    add(state, node, graph, (dependencies, num_dependencies), Work::Fill(fill))
}

pub(crate) fn cuGraphAddMemcpyNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    copy_params: In<CUDA_MEMCPY3D_v2>,
    ctx: ContextId,
) -> Outcome {
    let state = world::lock();
    state.check(ctx)?;
    let work = Work::Copy(Arc::new(transfer_of(&state, &copy_params.0)?));
    add(state, node, graph, (dependencies, num_dependencies), work)
}

/// A copy of rows, as the structure for three dimensions has it.
fn transfer_of(state: &Guard, copy: &CUDA_MEMCPY3D_v2) -> Outcome<Transfer> {
    if copy.depth > 1 || copy.src_z != 0 || copy.dst_z != 0 {
        return fail_with(CUDA_ERROR_NOT_SUPPORTED, "copies of three dimensions are not simulated");
    }
    let rows = copy.height.max(1) as u64;
    let end = |kind, host: u64, device: u64, (x, y, pitch): (usize, usize, usize)| {
        let start = (y * pitch + x) as u64;
        let span = pitch as u64 * (rows - 1) + copy.width_bytes as u64;
        match kind {
            CU_MEMORYTYPE_HOST => state.any_range("copy", host + start, span),
            CU_MEMORYTYPE_DEVICE => state.device_range("copy", device + start, span),
            CU_MEMORYTYPE_UNIFIED => state.any_range("copy", device + start, span),
            _ => fail_with(CUDA_ERROR_NOT_SUPPORTED, "arrays are not simulated"),
        }
    };
    let (from_host, to_host) = (copy.src_host.expose_provenance(), copy.dst_host.expose_provenance());
    let from_at = (copy.src_x_bytes, copy.src_y, copy.src_pitch);
    let to_at = (copy.dst_x_bytes, copy.dst_y, copy.dst_pitch);
    let from: End = end(copy.src_memory_type, from_host as u64, copy.src_device, from_at)?;
    let to: End = end(copy.dst_memory_type, to_host as u64, copy.dst_device, to_at)?;
    let (to_pitch, from_pitch) = (copy.dst_pitch as u64, copy.src_pitch as u64);
    Ok(Transfer { to, from, bytes: copy.width_bytes as u64, rows, to_pitch, from_pitch })
}
