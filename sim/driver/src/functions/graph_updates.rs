//! Parameter updates of graph nodes and of executable graphs.

use std::ptr;

use warpfold_driver::sys::*;

use super::graph_nodes::{first_form, host_work, kernel_work, memcpy_work, memset_work};
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, ExecId, GraphId, In, NodeId, Out};
use crate::world::{self, Unlike};

pub(crate) fn cuGraphKernelNodeSetParams(
    node: NodeId,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Outcome {
    let mut state = world::lock();
    let work = kernel_work(&state, &node_params.0)?;
    state.set_node(node, work)
}

pub(crate) fn cuGraphKernelNodeSetParams_v2(
    node: NodeId,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Outcome {
    cuGraphKernelNodeSetParams(node, In(first_form(node_params.0)?))
}

pub(crate) fn cuGraphExecKernelNodeSetParams(
    exec: ExecId,
    node: NodeId,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Outcome {
    let mut state = world::lock();
    let work = kernel_work(&state, &node_params.0)?;
    state.set_step(exec, node, work)
}

pub(crate) fn cuGraphExecKernelNodeSetParams_v2(
    exec: ExecId,
    node: NodeId,
    node_params: In<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Outcome {
    cuGraphExecKernelNodeSetParams(exec, node, In(first_form(node_params.0)?))
}

pub(crate) fn cuGraphExecMemcpyNodeSetParams(
    exec: ExecId,
    node: NodeId,
    copy_params: In<CUDA_MEMCPY3D_v2>,
    ctx: ContextId,
) -> Outcome {
    let mut state = world::lock();
    let work = memcpy_work(&state, &copy_params.0, ctx)?;
    state.set_step(exec, node, work)
}

pub(crate) fn cuGraphExecMemsetNodeSetParams(
    exec: ExecId,
    node: NodeId,
    memset_params: In<CUDA_MEMSET_NODE_PARAMS_v1>,
    ctx: ContextId,
) -> Outcome {
    let mut state = world::lock();
    let work = memset_work(&state, &memset_params.0, ctx)?;
    state.set_step(exec, node, work)
}

pub(crate) fn cuGraphExecHostNodeSetParams(
    exec: ExecId,
    node: NodeId,
    node_params: In<CUDA_HOST_NODE_PARAMS_v1>,
) -> Outcome {
    world::lock().set_step(exec, node, host_work(&node_params.0)?)
}

pub(crate) fn cuGraphExecUpdate_v2(
    exec: ExecId,
    graph: GraphId,
    result: Out<CUgraphExecUpdateResultInfo>,
) -> Outcome {
    let updated = world::lock().update_exec(exec, graph);
    let (code, node) = match &updated {
        Ok(None) => (CU_GRAPH_EXEC_UPDATE_SUCCESS, None),
        Ok(Some(Unlike::Order(node))) => (CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, *node),
        Ok(Some(Unlike::Parameters(node))) => {
            (CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, Some(*node))
        }
        Ok(Some(Unlike::Kind(node))) => (CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, Some(*node)),
        Err(_) => (CU_GRAPH_EXEC_UPDATE_ERROR, None),
    };
    result.put(CUgraphExecUpdateResultInfo {
        result: code,
        error_node: node.map_or(ptr::null_mut(), NodeId::raw),
        error_from_node: ptr::null_mut(),
    })?;
    match updated? {
        None => Ok(()),
        Some(_) => fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
    }
}
