//! Graphs, with the kinds of nodes that `warpfold_driver` supports.

use std::{
    ffi::{c_int, c_uint, c_ulonglong, c_void},
    ptr,
};

use warpfold_driver::sys::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS_v1,
    CUcontext, CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeType,
    CUstream,
};

use crate::{
    array::described_3d,
    errors::{Outcome, check},
    functions,
    registry::function,
    runtime::{device, primary, ready},
    types::{Extent, KernelNode, Memcpy3D, Pitched},
};

/// `CU_MEMORYTYPE_UNIFIED`: the address determines the memory.
const UNIFIED: c_uint = 4;

pub(crate) fn context() -> Outcome<CUcontext> {
    primary(device()?)
}

pub(crate) fn described(parameters: &Memcpy3D) -> Outcome<CUDA_MEMCPY3D_v2> {
    if !parameters.from_array.is_null() || !parameters.to_array.is_null() {
        // SAFETY: the program passes nulls or handles of arrays.
        return unsafe { described_3d(parameters) };
    }
    let Memcpy3D { from, to, from_place, to_place, extent, .. } = parameters;
    let none = ptr::null_mut::<c_void>();
    Ok(CUDA_MEMCPY3D_v2 {
        src_x_bytes: from_place.x,
        src_y: from_place.y,
        src_z: from_place.z,
        src_lod: 0,
        src_memory_type: UNIFIED as _,
        src_host: none,
        src_device: from.pointer.expose_provenance() as u64,
        src_array: none.cast(),
        reserved0: none,
        src_pitch: from.pitch,
        src_height: from.height,
        dst_x_bytes: to_place.x,
        dst_y: to_place.y,
        dst_z: to_place.z,
        dst_lod: 0,
        dst_memory_type: UNIFIED as _,
        dst_host: none,
        dst_device: to.pointer.expose_provenance() as u64,
        dst_array: none.cast(),
        reserved1: none,
        dst_pitch: to.pitch,
        dst_height: to.height,
        width_bytes: extent.x,
        height: extent.y,
        depth: extent.z,
    })
}

pub(crate) fn kernel(of: &KernelNode) -> Outcome<CUDA_KERNEL_NODE_PARAMS_v1> {
    Ok(CUDA_KERNEL_NODE_PARAMS_v1 {
        function: function(of.function)?,
        grid: [of.grid.x, of.grid.y, of.grid.z],
        block: [of.block.x, of.block.y, of.block.z],
        shared_bytes: of.shared_bytes,
        kernel_params: of.parameters,
        extra: of.extra,
    })
}

fn row(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> Outcome<CUDA_MEMCPY3D_v2> {
    let row = |pointer: *mut c_void| Pitched { pointer, pitch: bytes, width: bytes, height: 1 };
    let start = Extent { x: 0, y: 0, z: 0 };
    described(&Memcpy3D {
        from_array: ptr::null_mut(),
        from_place: start,
        from: row(from.cast_mut()),
        to_array: ptr::null_mut(),
        to_place: start,
        to: row(to),
        extent: Extent { x: bytes, y: 1, z: 1 },
        kind,
    })
}

functions! {
    fn cudaGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        check((ready()?.cuGraphCreate)(graph, flags))
    }

    fn cudaGraphDestroy(graph: CUgraph) {
        check((ready()?.cuGraphDestroy)(graph))
    }

    fn cudaGraphClone(clone: *mut CUgraph, graph: CUgraph) {
        check((ready()?.cuGraphClone)(clone, graph))
    }

    fn cudaGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        check((ready()?.cuGraphGetNodes)(graph, nodes, count))
    }

    fn cudaGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType) {
        check((ready()?.cuGraphNodeGetType)(node, kind))
    }

    fn cudaGraphAddKernelNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *const KernelNode,
    ) {
        let parameters = kernel(&parameters.read())?;
        check((ready()?.cuGraphAddKernelNode)(node, graph, dependencies, count, &parameters))
    }

    fn cudaGraphAddMemcpyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *const Memcpy3D,
    ) {
        let parameters = described(&parameters.read())?;
        check((ready()?.cuGraphAddMemcpyNode)(node, graph, dependencies, count, &parameters, context()?))
    }

    fn cudaGraphAddMemcpyNode1D(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
    ) {
        let parameters = row(to, from, bytes, kind)?;
        check((ready()?.cuGraphAddMemcpyNode)(node, graph, dependencies, count, &parameters, context()?))
    }

    fn cudaGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *const CUDA_MEMSET_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphAddMemsetNode)(node, graph, dependencies, count, parameters, context()?))
    }

    fn cudaGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphAddHostNode)(node, graph, dependencies, count, parameters))
    }

    fn cudaGraphAddEmptyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
    ) {
        check((ready()?.cuGraphAddEmptyNode)(node, graph, dependencies, count))
    }

    fn cudaGraphInstantiate(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) {
        check((ready()?.cuGraphInstantiateWithFlags)(exec, graph, flags))
    }

    fn cudaGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) {
        check((ready()?.cuGraphInstantiateWithFlags)(exec, graph, flags))
    }

    fn cudaGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const KernelNode) {
        let parameters = kernel(&parameters.read())?;
        check((ready()?.cuGraphKernelNodeSetParams)(node, &parameters))
    }

    fn cudaGraphExecKernelNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        parameters: *const KernelNode,
    ) {
        let parameters = kernel(&parameters.read())?;
        check((ready()?.cuGraphExecKernelNodeSetParams)(exec, node, &parameters))
    }

    fn cudaGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        parameters: *const Memcpy3D,
    ) {
        let parameters = described(&parameters.read())?;
        check((ready()?.cuGraphExecMemcpyNodeSetParams)(exec, node, &parameters, context()?))
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        exec: CUgraphExec,
        node: CUgraphNode,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
    ) {
        let parameters = row(to, from, bytes, kind)?;
        check((ready()?.cuGraphExecMemcpyNodeSetParams)(exec, node, &parameters, context()?))
    }

    fn cudaGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        parameters: *const CUDA_MEMSET_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphExecMemsetNodeSetParams)(exec, node, parameters, context()?))
    }

    fn cudaGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        parameters: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphExecHostNodeSetParams)(exec, node, parameters))
    }

    fn cudaGraphExecUpdate(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut CUgraphExecUpdateResultInfo,
    ) {
        check((ready()?.cuGraphExecUpdate_v2)(exec, graph, result))
    }

    fn cudaGraphUpload(exec: CUgraphExec, stream: CUstream) {
        check((ready()?.cuGraphUpload)(exec, stream))
    }

    fn cudaGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        check((ready()?.cuGraphLaunch)(exec, stream))
    }

    fn cudaGraphExecDestroy(exec: CUgraphExec) {
        check((ready()?.cuGraphExecDestroy)(exec))
    }
}
