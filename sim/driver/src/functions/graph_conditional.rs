//! `cuGraphAddNode`, which adds nodes of any kind, and the handles of conditional nodes.

use warpfold_driver::sys::*;

use super::capture::{check_edges, nodes_of};
use super::graph_memory::add_allocation;
use super::graph_nodes::{add, first_form, host_work, kernel_work, memcpy_work, memset_work};
use super::stream::null;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, GraphId, Out};
use crate::world::{self, State, Work};

pub(crate) fn cuGraphConditionalHandleCreate(
    handle: Out<CUgraphConditionalHandle>,
    graph: GraphId,
    ctx: ContextId,
    default_launch_value: c_uint,
    flags: c_uint,
) -> Outcome {
    let mut state = world::lock();
    let default = match flags {
        0 => None,
        CU_GRAPH_COND_ASSIGN_DEFAULT => Some(default_launch_value),
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    };
    let context = given_or_here(&state, ctx)?;
    handle.put(state.add_condition(graph, context, default)?)
}

fn given_or_here(state: &State, context: ContextId) -> Outcome<ContextId> {
    if context.0 == 0 {
        return state.here();
    }
    state.check(context)?;
    Ok(context)
}

pub(crate) fn cuGraphAddNode(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    num_dependencies: usize,
    node_params: Out<CUgraphNodeParams>,
) -> Outcome {
    cuGraphAddNode_v2(node, graph, dependencies, null(), num_dependencies, node_params)
}

pub(crate) fn cuGraphAddNode_v2(
    node: Out<CUgraphNode>,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    dependency_data: *const c_void,
    num_dependencies: usize,
    node_params: Out<CUgraphNodeParams>,
) -> Outcome {
    let mut given = node_params.get();
    // SAFETY: the caller passes `num_dependencies` edges or null.
    unsafe { check_edges(dependency_data, num_dependencies) }?;
    let kernel = match given.kind {
        // SAFETY: the caller has filled in the field of this kind, in which every value is valid.
        CU_GRAPH_NODE_TYPE_KERNEL => Some(first_form(unsafe { given.value.kernel })?),
        _ => None,
    };
    let mut state = world::lock();
    let work = match given.kind {
        CU_GRAPH_NODE_TYPE_KERNEL => kernel_work(&state, &kernel.ok_or(CUDA_ERROR_INVALID_VALUE)?)?,
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            // SAFETY: the caller has filled in the field of this kind.
            let memcpy = unsafe { given.value.memcpy };
            let context = given_or_here(&state, memcpy.copy_ctx.into())?;
            memcpy_work(&state, &memcpy.copy_params, context)?
        }
        CU_GRAPH_NODE_TYPE_MEMSET => {
            // SAFETY: the caller has filled in the field of this kind.
            let memset = unsafe { given.value.memset };
            let context = given_or_here(&state, memset.ctx.into())?;
            memset_work(&state, &memset.first, context)?
        }
        // SAFETY: the caller has filled in the field of this kind.
        CU_GRAPH_NODE_TYPE_HOST => host_work(unsafe { &given.value.host })?,
        CU_GRAPH_NODE_TYPE_EMPTY => Work::Nothing,
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            // SAFETY: the caller has filled in the field of this kind.
            let alloc = unsafe { &mut given.value.alloc };
            add_allocation(state, node, graph, (dependencies, num_dependencies), alloc)?;
            return node_params.put(given);
        }
        CU_GRAPH_NODE_TYPE_MEM_FREE => {
            // SAFETY: the caller has filled in the field of this kind.
            state.free_in_graph(graph, unsafe { given.value.free })?
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            // SAFETY: the caller has filled in the field of this kind.
            let params = unsafe { given.value.conditional };
            let context = given_or_here(&state, params.ctx.into())?;
            // SAFETY: the caller passes `num_dependencies` nodes.
            let needs = unsafe { nodes_of(dependencies, num_dependencies) }?;
            let (id, made) = state.add_conditional(graph, needs, &params, context)?;
            // The node owns `made`, which contains the list of body graphs.
            given.value.conditional.graphs_out = made.graphs();
            node.put(id.raw())?;
            return node_params.put(given);
        }
        kind => {
            let detail = format!("nodes of type {kind} are not supported");
            return fail_with(CUDA_ERROR_NOT_SUPPORTED, detail);
        }
    };
    add(state, node, graph, (dependencies, num_dependencies), work)
}
