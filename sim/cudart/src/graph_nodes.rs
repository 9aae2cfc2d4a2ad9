//! Graph nodes that allocate or free memory, conditional nodes, and `cudaGraphAddNode`.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

use warpfold_driver::sys::{
    CU_GRAPH_NODE_TYPE_CONDITIONAL, CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE,
    CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2,
    CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUgraph,
    CUgraphConditionalHandle, CUgraphExec, CUgraphMem_attribute, CUgraphNode, CUgraphNodeParams,
};

use crate::{
    errors::{NOT_SUPPORTED, Outcome, check},
    functions,
    graph::{context, described, kernel},
    runtime::{api, ready},
    types::NodeParams,
};

/// Converts the parameters of a node to the driver's.
///
/// # Safety
/// The field of the union for the given kind is initialised.
unsafe fn of_driver(given: &NodeParams) -> Outcome<CUgraphNodeParams> {
    let mut params = CUgraphNodeParams::new(given.kind);
    let value = given.value;
    // SAFETY: each arm reads the field of its kind, which is initialised by this function's contract.
    unsafe {
        match given.kind {
            CU_GRAPH_NODE_TYPE_KERNEL => {
                let CUDA_KERNEL_NODE_PARAMS_v1 {
                    function,
                    grid,
                    block,
                    shared_bytes,
                    kernel_params,
                    extra,
                } = kernel(&value.kernel)?;
                params.value.kernel = CUDA_KERNEL_NODE_PARAMS_v2 {
                    function,
                    grid,
                    block,
                    shared_bytes,
                    kernel_params,
                    extra,
                    kernel: ptr::null_mut(),
                    ctx: ptr::null_mut(),
                };
            }
            CU_GRAPH_NODE_TYPE_MEMCPY => {
                let (copy_ctx, copy_params) = (context()?, described(&value.memcpy.copy)?);
                let flags = value.memcpy.flags;
                params.value.memcpy =
                    CUDA_MEMCPY_NODE_PARAMS { flags, reserved: 0, copy_ctx, copy_params };
            }
            CU_GRAPH_NODE_TYPE_MEMSET => {
                let (first, ctx) = (value.memset, context()?);
                params.value.memset = CUDA_MEMSET_NODE_PARAMS_v2 { first, ctx };
            }
            CU_GRAPH_NODE_TYPE_HOST => params.value.host = value.host,
            CU_GRAPH_NODE_TYPE_MEM_ALLOC => params.value.alloc = value.alloc,
            CU_GRAPH_NODE_TYPE_MEM_FREE => {
                params.value.free = value.free.expose_provenance() as u64;
            }
            CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                let given = value.conditional;
                params.value.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                    handle: given.handle,
                    kind: given.kind,
                    size: given.size,
                    graphs_out: ptr::null_mut(),
                    ctx: context()?,
                };
            }
            CU_GRAPH_NODE_TYPE_EMPTY => {}
            _ => return Err(NOT_SUPPORTED),
        }
    }
    Ok(params)
}

functions! {
    fn cudaGraphAddMemAllocNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphAddMemAllocNode)(node, graph, dependencies, count, parameters))
    }

    fn cudaGraphMemAllocNodeGetParams(
        node: CUgraphNode,
        parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    ) {
        check((ready()?.cuGraphMemAllocNodeGetParams)(node, parameters))
    }

    fn cudaGraphAddMemFreeNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        address: *mut c_void,
    ) {
        let address = address.expose_provenance() as u64;
        check((ready()?.cuGraphAddMemFreeNode)(node, graph, dependencies, count, address))
    }

    fn cudaGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut c_void) {
        check((ready()?.cuGraphMemFreeNodeGetParams)(node, address.cast()))
    }

    fn cudaDeviceGetGraphMemAttribute(
        device: c_int,
        attribute: CUgraphMem_attribute,
        value: *mut c_void,
    ) {
        check((api()?.cuDeviceGetGraphMemAttribute)(device, attribute, value))
    }

    fn cudaDeviceSetGraphMemAttribute(
        device: c_int,
        attribute: CUgraphMem_attribute,
        value: *mut c_void,
    ) {
        check((api()?.cuDeviceSetGraphMemAttribute)(device, attribute, value))
    }

    fn cudaDeviceGraphMemTrim(device: c_int) {
        check((api()?.cuDeviceGraphMemTrim)(device))
    }

    fn cudaGraphConditionalHandleCreate(
        handle: *mut CUgraphConditionalHandle,
        graph: CUgraph,
        default: c_uint,
        flags: c_uint,
    ) {
        let create = ready()?.cuGraphConditionalHandleCreate;
        check(create(handle, graph, context()?, default, flags))
    }

    fn cudaGraphAddNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        edges: *const c_void,
        count: usize,
        parameters: *mut NodeParams,
    ) {
        let api = ready()?;
        if parameters.is_null() {
            return check((api.cuGraphAddNode_v2)(node, graph, dependencies, edges, count, ptr::null_mut()));
        }
        let mut params = of_driver(&*parameters)?;
        check((api.cuGraphAddNode_v2)(node, graph, dependencies, edges, count, &mut params))?;
        match params.kind {
            CU_GRAPH_NODE_TYPE_MEM_ALLOC => (*parameters).value.alloc.dptr = params.value.alloc.dptr,
            CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                (*parameters).value.conditional.graphs_out = params.value.conditional.graphs_out;
            }
            _ => {}
        }
        Ok(())
    }

    fn cudaGraphInstantiateWithParams(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        check((ready()?.cuGraphInstantiateWithParams)(exec, graph, parameters))
    }
}
