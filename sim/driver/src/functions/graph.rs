//! Creation, instantiation, launch and inspection of graphs.

use std::ptr;

use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail};
use crate::ffi::{ExecId, GraphId, NodeId, Out, StreamId, put_if};
use crate::world::{self, Unready, Work};

pub(crate) fn cuGraphCreate(graph: Out<CUgraph>, flags: c_uint) -> Outcome {
    if flags != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    graph.put(world::lock().add_graph().raw())
}

pub(crate) fn cuGraphDestroy(graph: GraphId) -> Outcome {
    world::lock().remove_graph(graph)
}

pub(crate) fn cuGraphClone(clone: Out<CUgraph>, original_graph: GraphId) -> Outcome {
    clone.put(world::lock().clone_graph(original_graph)?.raw())
}

pub(crate) fn cuGraphInstantiateWithFlags(
    exec: Out<CUgraphExec>,
    graph: GraphId,
    flags: c_ulonglong,
) -> Outcome {
    exec.put(instantiate(graph, flags)?.raw())
}

fn instantiate(graph: GraphId, flags: c_ulonglong) -> Result<ExecId, Unready> {
    let all = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
        | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
        | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    let mut state = world::lock();
    let here = state.here()?;
    if flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH != 0 {
        return fail(CUDA_ERROR_NOT_SUPPORTED)?;
    }
    if flags & !all != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE)?;
    }
    let auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH != 0;
    state.instantiate(graph, here, auto_free)
}

pub(crate) fn cuGraphInstantiateWithParams(
    exec: Out<CUgraphExec>,
    graph: GraphId,
    params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> Outcome {
    let given = params.get();
    let instantiated = instantiate(graph, given.flags);
    let result = match &instantiated {
        Ok(_) => CUDA_GRAPH_INSTANTIATE_SUCCESS,
        Err(Unready { result, .. }) => *result,
    };
    // An upload does nothing here, so `upload_stream` is ignored.
    params.put(CUDA_GRAPH_INSTANTIATE_PARAMS { error_node: ptr::null_mut(), result, ..given })?;
    exec.put(instantiated?.raw())
}

pub(crate) fn cuGraphInstantiate_v2(
    exec: Out<CUgraphExec>,
    graph: GraphId,
    error_node: Option<Out<CUgraphNode>>,
    log: Option<Out<c_char>>,
    log_bytes: usize,
) -> Outcome {
    // Instantiation reports no node and writes no log here, even if it fails.
    put_if(error_node, ptr::null_mut())?;
    put_if(log.filter(|_| log_bytes > 0), 0)?;
    cuGraphInstantiateWithFlags(exec, graph, 0)
}

pub(crate) fn cuGraphUpload(graph: ExecId, stream: StreamId) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if !state.execs.contains_key(&graph) {
        return fail(CUDA_ERROR_INVALID_HANDLE);
    }
    state.submit(stream, Work::Nothing).map(|_| ())
}

pub(crate) fn cuGraphLaunch(graph: ExecId, stream: StreamId) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.launch_graph(graph, stream)
}

pub(crate) fn cuGraphExecDestroy(exec: ExecId) -> Outcome {
    world::lock().remove_exec(exec)
}

pub(crate) fn cuGraphGetNodes(
    graph: GraphId,
    nodes: *mut CUgraphNode,
    num_nodes: Out<usize>,
) -> Outcome {
    let state = world::lock();
    let found: Vec<CUgraphNode> = state.graph(graph)?.nodes.iter().map(|node| node.raw()).collect();
    // SAFETY: the caller passes null or an array of `num_nodes` nodes.
    let written = unsafe { put_list(nodes, num_nodes.get(), &found) };
    num_nodes.put(written)
}

/// Fills an array of `room` pointers with a list, followed by nulls, and returns how many items of the
/// list were written. If `to` is null, returns the length of the list.
///
/// # Safety
/// `to` is null or has room for `room` items.
unsafe fn put_list<T>(to: *mut *mut T, room: usize, list: &[*mut T]) -> usize {
    if to.is_null() {
        return list.len();
    }
    for index in 0..room {
        let value = list.get(index).copied().unwrap_or(ptr::null_mut());
        // SAFETY: the index is below `room`, the number of items at `to` by this function's contract.
        unsafe { to.add(index).write_unaligned(value) };
    }
    room.min(list.len())
}

pub(crate) fn cuGraphGetEdges(
    graph: GraphId,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    num_edges: Out<usize>,
) -> Outcome {
    let state = world::lock();
    if from.is_null() != to.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let nodes = &state.graph(graph)?.nodes;
    let edges = nodes.iter().flat_map(|id| {
        let needs = state.nodes.get(id).map(|node| node.needs.clone()).unwrap_or_default();
        needs.into_iter().map(|need| (need.raw(), id.raw()))
    });
    let (before, behind): (Vec<_>, Vec<_>) = edges.unzip();
    let room = num_edges.get();
    // SAFETY: the caller passes nulls or two arrays of `num_edges` nodes.
    let written = unsafe {
        put_list(from, room, &before);
        put_list(to, room, &behind)
    };
    num_edges.put(written)
}

pub(crate) fn cuGraphNodeGetType(node: NodeId, kind: Out<CUgraphNodeType>) -> Outcome {
    let state = world::lock();
    let node = state.nodes.get(&node).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    kind.put(match node.work {
        Work::Launch(_) => CU_GRAPH_NODE_TYPE_KERNEL,
        Work::Copy(_) => CU_GRAPH_NODE_TYPE_MEMCPY,
        Work::Fill(_) => CU_GRAPH_NODE_TYPE_MEMSET,
        Work::Host(_) => CU_GRAPH_NODE_TYPE_HOST,
        Work::Record(_) => CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        Work::Allocate(_) => CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        Work::Release(_) => CU_GRAPH_NODE_TYPE_MEM_FREE,
        Work::Conditional(_) => CU_GRAPH_NODE_TYPE_CONDITIONAL,
        Work::Nothing | Work::Begin(_) => CU_GRAPH_NODE_TYPE_EMPTY,
    })
}
