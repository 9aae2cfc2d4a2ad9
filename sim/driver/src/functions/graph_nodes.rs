//! Graph nodes that are added explicitly.

use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::Launch;

use super::copy_rows::transfer_of;
use super::fill::repeated;
use super::launch::{Arguments, LaunchAttributes, prepare};
use super::library::function_of;
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, FunctionId, GraphId, In, KernelId, NodeId, Out, list};
use crate::world::{self, Fill, Guard, HostCall, HostFunction, Work};

pub(super) fn add(
    mut state: Guard,
    place: Out<CUgraphNode>,
    graph: GraphId,
    (dependencies, count): (*const CUgraphNode, usize),
    work: Work,
) -> Outcome {
    // SAFETY: the caller passes `count` nodes.
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
    let state = world::lock();
    let work = kernel_work(&state, &node_params.0)?;
    add(state, node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn kernel_work(state: &Guard, params: &CUDA_KERNEL_NODE_PARAMS_v1) -> Outcome<Work> {
    let &CUDA_KERNEL_NODE_PARAMS_v1 { function, grid, block, shared_bytes, kernel_params, extra } =
        params;
    let shape = Launch::new(grid, block).with_dynamic_shared(shared_bytes);
    let arguments = Arguments { each: kernel_params, extra };
    let launch = prepare(
        state,
        FunctionId(function.addr() as u64),
        shape,
        LaunchAttributes::default(),
        arguments,
    )?;
    Ok(Work::Launch(Arc::new(launch)))
}

pub(crate) fn first_form(params: CUDA_KERNEL_NODE_PARAMS_v2) -> Outcome<CUDA_KERNEL_NODE_PARAMS_v1> {
    let CUDA_KERNEL_NODE_PARAMS_v2 {
        function,
        grid,
        block,
        shared_bytes,
        kernel_params,
        extra,
        kernel,
        ..
    } = params;
    let named = if function.is_null() { kernel.addr() } else { function.addr() };
    let of_kernel = function_of(KernelId(named as u64))?;
    let function = of_kernel.map_or(function, FunctionId::raw);
    Ok(CUDA_KERNEL_NODE_PARAMS_v1 { function, grid, block, shared_bytes, kernel_params, extra })
}

pub(crate) fn cuGraphAddKernelNode_v2(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Outcome {
    let first = first_form(node_params.0)?;
    cuGraphAddKernelNode(node, graph, dependencies, num_dependencies, In(first))
}

pub(crate) fn cuGraphAddHostNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: In<CUDA_HOST_NODE_PARAMS_v1>,
) -> Outcome {
    let work = host_work(&node_params.0)?;
    add(world::lock(), node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn host_work(params: &CUDA_HOST_NODE_PARAMS_v1) -> Outcome<Work> {
    let function = params.function.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let data = params.user_data.expose_provenance();
    Ok(Work::Host(HostCall { function: HostFunction::Plain(function), data }))
}

pub(crate) fn cuGraphAddMemsetNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    memset_params: In<CUDA_MEMSET_NODE_PARAMS_v1>,
    ctx: ContextId,
) -> Outcome {
    let state = world::lock();
    let work = memset_work(&state, &memset_params.0, ctx)?;
    add(state, node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn memset_work(
    state: &Guard,
    params: &CUDA_MEMSET_NODE_PARAMS_v1,
    ctx: ContextId,
) -> Outcome<Work> {
    let &CUDA_MEMSET_NODE_PARAMS_v1 { dst, pitch, value, element_bytes, width, height } = params;
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
    Ok(Work::Fill(fill))
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
    let work = memcpy_work(&state, &copy_params.0, ctx)?;
    add(state, node, graph, (dependencies, num_dependencies), work)
}

pub(crate) fn memcpy_work(state: &Guard, params: &CUDA_MEMCPY3D_v2, ctx: ContextId) -> Outcome<Work> {
    state.check(ctx)?;
    Ok(Work::Copy(Arc::new(transfer_of(state, params)?)))
}
