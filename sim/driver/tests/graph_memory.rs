//! Graph nodes that allocate and free memory.

mod common;

use std::ptr;
use std::time::Duration;

use common::{Pointer, Session, Word, alone, code, detail, get, ok, peek, stream};
use warpfold_driver::sys::*;
use warpfold_sim_driver::set_patience;

/// Creates a session in which pending work does not run without a wait, even if a test is slow.
fn session() -> Session {
    set_patience(Duration::from_secs(600));
    Session::new()
}

fn begin(stream: CUstream) {
    ok!(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

fn end(stream: CUstream) -> CUgraph {
    let mut graph = ptr::null_mut();
    ok!(cuStreamEndCapture(stream, &mut graph));
    graph
}

fn instantiate(graph: CUgraph, flags: c_ulonglong) -> CUgraphExec {
    get!(cuGraphInstantiateWithFlags(graph, flags))
}

fn parameters(bytes: usize) -> CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
        pool_props: CUmemPoolProps {
            alloc_type: CU_MEM_ALLOCATION_TYPE_PINNED,
            handle_types: CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: 0 },
            win32_security_attributes: ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        },
        access_descs: ptr::null(),
        access_desc_count: 0,
        bytes,
        dptr: 0,
    }
}

fn allocation(graph: CUgraph, behind: &[CUgraphNode], bytes: usize) -> (CUgraphNode, CUdeviceptr) {
    let mut params = parameters(bytes);
    let node = get!(cuGraphAddMemAllocNode(graph, behind.as_ptr(), behind.len(), &mut params));
    assert_ne!(params.dptr, 0);
    (node, params.dptr)
}

fn free(graph: CUgraph, behind: CUgraphNode, address: CUdeviceptr) -> CUgraphNode {
    get!(cuGraphAddMemFreeNode(graph, &behind, 1, address))
}

fn kind(node: CUgraphNode) -> CUgraphNodeType {
    let mut kind = -1;
    ok!(cuGraphNodeGetType(node, &mut kind));
    kind
}

/// Creates a graph of one node that allocates, and returns the graph and the address.
fn unfreed(bytes: usize) -> (CUgraph, CUdeviceptr) {
    let graph: CUgraph = get!(cuGraphCreate(0));
    (graph, allocation(graph, &[], bytes).1)
}

fn footprint(attribute: CUgraphMem_attribute) -> u64 {
    let mut bytes = u64::MAX;
    ok!(cuDeviceGetGraphMemAttribute(0, attribute, (&raw mut bytes).cast()));
    bytes
}

#[test]
fn each_launch_allocates_fresh_memory_at_the_same_address() {
    let _alone = alone();
    let session = session();
    let (first, second, stream) = (session.word(0), session.word(0), stream());
    begin(stream);
    let address: CUdeviceptr = get!(cuMemAllocAsync(4, stream));
    session.launch("copy", stream, &[Pointer(first), Pointer(address)]);
    ok!(cuMemsetD32Async(address, 7, 1, stream));
    session.launch("add", stream, &[Pointer(address), Word(5)]);
    session.launch("copy", stream, &[Pointer(second), Pointer(address)]);
    ok!(cuMemFreeAsync(address, stream));
    let graph = end(stream);
    let exec = instantiate(graph, 0);
    let mut nodes = [ptr::null_mut(); 7];
    let mut count = nodes.len();
    ok!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
    assert_eq!(count, 6);
    assert_eq!(kind(nodes[0]), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    assert_eq!(kind(nodes[5]), CU_GRAPH_NODE_TYPE_MEM_FREE);
    let mut freed = 0;
    ok!(cuGraphMemFreeNodeGetParams(nodes[5], &mut freed));
    assert_eq!(freed, address);
    ok!(cuGraphDestroy(graph));
    for _ in 0..3 {
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!([first, second].map(peek), [u32::MAX, 12], "nothing is left of the launch before");
    }
    assert_eq!(code!(cuMemFreeAsync(address, stream)), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("which the graph itself frees"), "{}", detail());
    assert_eq!(code!(cuMemFree_v2(address)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphExecDestroy(exec));
    let gone = code!(cuMemsetD32Async(address, 7, 1, stream));
    assert_eq!(gone, CUDA_ERROR_INVALID_VALUE, "no graph has it any more");
}

#[test]
fn graph_memory_is_inaccessible_before_the_launch() {
    let _alone = alone();
    let _session = session();
    let stream = stream();
    let (graph, address) = unfreed(4);
    let exec = instantiate(graph, 0);
    ok!(cuMemsetD32Async(address, 7, 1, stream));
    ok!(cuGraphLaunch(exec, stream));
    assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_ILLEGAL_ADDRESS, "{}", detail());
}

#[test]
fn relaunch_requires_freed_graph_memory() {
    let _alone = alone();
    let session = session();
    let (word, stream, other) = (session.word(0), stream(), stream());
    let (graph, address) = unfreed(4);
    let exec = instantiate(graph, 0);
    let refused = |call: c_int, why: &str| {
        assert_eq!(call, CUDA_ERROR_INVALID_VALUE);
        assert!(detail().contains(why), "{}", detail());
    };
    refused(code!(cuMemFreeAsync(address, stream)), "which no launch has allocated");
    let frees: [&dyn Fn(); 3] =
        [&|| ok!(cuMemFreeAsync(address, stream)), &|| ok!(cuMemFree_v2(address)), &|| {
            let graph: CUgraph = get!(cuGraphCreate(0));
            let _node: CUgraphNode = get!(cuGraphAddMemFreeNode(graph, ptr::null(), 0, address));
            let exec = instantiate(graph, 0);
            ok!(cuGraphDestroy(graph));
            ok!(cuGraphLaunch(exec, stream));
            refused(code!(cuGraphLaunch(exec, stream)), "which no launch has allocated");
            ok!(cuGraphExecDestroy(exec));
        }];
    for (free, value) in frees.iter().zip(1..) {
        ok!(cuGraphLaunch(exec, stream));
        refused(code!(cuGraphLaunch(exec, stream)), "not been freed since its last launch");
        session.launch("set", stream, &[Pointer(address), Word(value)]);
        ok!(cuMemcpyDtoDAsync_v2(word, address, 4, stream));
        ok!(cuStreamSynchronize(stream));
        free();
        assert_eq!(peek(word), value);
        refused(code!(cuMemFree_v2(address)), "which no launch has allocated");
    }
    ok!(cuStreamSynchronize(stream));
    // A launch with auto-free, on another stream than the previous launch.
    ok!(cuGraphExecDestroy(exec));
    let exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for stream in [stream, other, other] {
        ok!(cuGraphLaunch(exec, stream));
        session.launch("copy", stream, &[Pointer(word), Pointer(address)]);
        session.launch("set", stream, &[Pointer(address), Word(3)]);
    }
    ok!(cuStreamSynchronize(other));
    assert_eq!(peek(word), u32::MAX, "the last launch has allocated anew");
    // The memory outlives the graph and its launches, until it is freed.
    ok!(cuGraphDestroy(graph));
    ok!(cuGraphExecDestroy(exec));
    assert_eq!(peek(address), 3);
    ok!(cuMemFree_v2(address));
    assert_eq!(code!(cuMemFree_v2(address)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn free_nodes_free_graph_allocations_once() {
    let _alone = alone();
    let session = session();
    let (word, stream) = (session.word(0), stream());
    let (graph, other): (CUgraph, CUgraph) = (get!(cuGraphCreate(0)), get!(cuGraphCreate(0)));
    let (first, inside) = allocation(graph, &[], 4);
    let (second, outside) = allocation(graph, &[first], 4);
    let refused = |graph, address, why: &str| {
        let mut node: CUgraphNode = ptr::null_mut();
        let code = code!(cuGraphAddMemFreeNode(&mut node, graph, ptr::null(), 0, address));
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        assert!(detail().contains(why), "{}", detail());
    };
    // A node that is refused does not count as a free.
    let foreign: CUgraphNode = get!(cuGraphAddEmptyNode(other, ptr::null(), 0));
    let code = code!(cuGraphAddMemFreeNode(&mut ptr::null_mut(), graph, &foreign, 1, inside));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    let freeing = free(graph, second, inside);
    refused(graph, inside, "the same graph");
    refused(other, inside, "the graph that allocates it");
    let _elsewhere: CUgraphNode = get!(cuGraphAddMemFreeNode(other, ptr::null(), 0, outside));
    refused(graph, outside, "another graph");
    for address in [word, inside + 1, 0] {
        refused(graph, address, "is not memory that a node of a graph allocates");
    }
    begin(stream);
    assert_eq!(code!(cuMemFreeAsync(word, stream)), CUDA_ERROR_INVALID_VALUE, "no graph's memory");
    let _graph: CUgraph = end(stream);

    // A graph with allocations cannot be cloned, instantiated twice, or launched on a captured stream.
    let mut copy: CUgraph = ptr::null_mut();
    assert_eq!(code!(cuGraphClone(&mut copy, graph)), CUDA_ERROR_NOT_SUPPORTED);
    let exec = instantiate(graph, 0);
    let mut second: CUgraphExec = ptr::null_mut();
    let code = code!(cuGraphInstantiateWithFlags(&mut second, graph, 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "it is instantiated already");
    begin(stream);
    assert_eq!(code!(cuGraphLaunch(exec, stream)), CUDA_ERROR_NOT_SUPPORTED);
    let _graph: CUgraph = end(stream);
    ok!(cuGraphExecDestroy(exec));
    let exec = instantiate(graph, 0);

    // Parameters are returned only for nodes of the right kind.
    let mut found = parameters(0);
    ok!(cuGraphMemAllocNodeGetParams(first, &mut found));
    assert_eq!((found.dptr, found.bytes, found.access_desc_count), (inside, 4, 0));
    assert_eq!(found.pool_props.location, parameters(0).pool_props.location);
    assert_eq!(code!(cuGraphMemAllocNodeGetParams(freeing, &mut found)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuGraphMemFreeNodeGetParams(first, &mut 0)), CUDA_ERROR_INVALID_VALUE);

    // A graph with other addresses cannot update the executable graph.
    let (alike, _address) = (get!(cuGraphCreate(0)), ());
    let (one, freed) = allocation(alike, &[], 4);
    let (two, _left) = allocation(alike, &[one], 4);
    let _free: CUgraphNode = free(alike, two, freed);
    let mut info = CUgraphExecUpdateResultInfo {
        result: -1,
        error_node: ptr::null_mut(),
        error_from_node: ptr::null_mut(),
    };
    let code = code!(cuGraphExecUpdate_v2(exec, alike, &mut info));
    assert_eq!(code, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!((info.result, info.error_node), (CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, one));
}

#[test]
fn invalid_allocation_nodes_are_refused() {
    let _alone = alone();
    let _session = session();
    let graph: CUgraph = get!(cuGraphCreate(0));
    let refused = |change: &dyn Fn(&mut CUDA_MEM_ALLOC_NODE_PARAMS_v1), expected: c_int| {
        let (mut params, mut node) = (parameters(4), ptr::null_mut());
        change(&mut params);
        let code = code!(cuGraphAddMemAllocNode(&mut node, graph, ptr::null(), 0, &mut params));
        assert_eq!((code, params.dptr), (expected, 0));
    };
    refused(&|params| params.bytes = 0, CUDA_ERROR_INVALID_VALUE);
    refused(&|params| params.pool_props.alloc_type = 0, CUDA_ERROR_INVALID_VALUE);
    refused(&|params| params.pool_props.location.kind = 0, CUDA_ERROR_INVALID_VALUE);
    refused(&|params| params.pool_props.location.id = 9, CUDA_ERROR_INVALID_DEVICE);
    refused(&|params| params.pool_props.handle_types = 1, CUDA_ERROR_NOT_SUPPORTED);
    let mut count = 1;
    ok!(cuGraphGetNodes(graph, ptr::null_mut(), &mut count));
    assert_eq!(count, 0, "none was added");
    // A launch that needs more memory than the device has is refused without any effect.
    let stream = stream();
    let (graph, address) = unfreed(1 << 40);
    let exec = instantiate(graph, 0);
    assert_eq!(code!(cuGraphLaunch(exec, stream)), CUDA_ERROR_OUT_OF_MEMORY);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(code!(cuMemFree_v2(address)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn reserved_graph_memory_is_counted() {
    const BYTES: usize = 1 << 20;
    let size = BYTES as u64;
    let _alone = alone();
    let _session = session();
    ok!(cuDeviceGraphMemTrim(0));
    let (used, kept) = (CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    let before = footprint(kept);
    let now = || footprint(kept) - before;
    let simple = || {
        let graph: CUgraph = get!(cuGraphCreate(0));
        let (node, address) = allocation(graph, &[], BYTES);
        let freed = free(graph, node, address);
        // The second allocation depends on the free of the first one, so it reuses the memory.
        let (node, address) = allocation(graph, &[freed], BYTES);
        let _freed = free(graph, node, address);
        graph
    };
    let (one, other) = (stream(), stream());
    let execs = [(); 3].map(|()| instantiate(simple(), 0));
    assert_eq!(now(), 0, "nothing was launched");
    ok!(cuGraphLaunch(execs[0], one));
    ok!(cuGraphLaunch(execs[0], one));
    ok!(cuGraphLaunch(execs[1], one));
    assert_eq!(now(), size, "one behind the other they take the same");
    ok!(cuGraphLaunch(execs[2], other));
    assert_eq!(now(), 2 * size, "one beside the other they cannot");
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(now(), 2 * size, "they have not run");
    ok!(cuCtxSynchronize());
    ok!(cuGraphLaunch(execs[2], one));
    assert_eq!((now(), footprint(used) >= 2 * size), (2 * size, true));
    ok!(cuCtxSynchronize());
    for exec in execs {
        ok!(cuGraphExecDestroy(exec));
    }
    assert_eq!((now(), footprint(used)), (2 * size, before), "kept, and not in use");
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(now(), 0);

    let (graph, address) = unfreed(3 * BYTES);
    let exec = instantiate(graph, 0);
    ok!(cuGraphLaunch(exec, one));
    ok!(cuStreamSynchronize(one));
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(now(), 3 * size);
    ok!(cuMemFree_v2(address));
    assert_eq!(now(), 3 * size, "freed, and kept");
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(now(), 0, "though the graph could be launched again");

    // Two allocations that are alive at the same time in one graph.
    let graph: CUgraph = get!(cuGraphCreate(0));
    let [first, second] = [(); 2].map(|()| allocation(graph, &[], BYTES));
    let _freed = [first, second].map(|(node, address)| free(graph, node, address));
    ok!(cuGraphLaunch(instantiate(graph, 0), one));
    assert_eq!(now(), 2 * size);

    let high = CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    assert!(footprint(high) >= before + 3 * size);
    let set = |attribute, mut value: u64| {
        code!(cuDeviceSetGraphMemAttribute(0, attribute, (&raw mut value).cast()))
    };
    assert_eq!(set(high, 1), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(set(kept, 0), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(set(high, 0), 0);
    assert_eq!(footprint(high), before + 2 * size);
    let mut unknown = 0_u64;
    let code = code!(cuDeviceGetGraphMemAttribute(0, 4, (&raw mut unknown).cast()));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuDeviceGraphMemTrim(9)), CUDA_ERROR_INVALID_DEVICE);
}

#[test]
fn allocation_node_copies_its_access_descriptors() {
    let _alone = alone();
    let _session = session();
    let graph: CUgraph = get!(cuGraphCreate(0));
    let own = CUmemAccessDesc {
        location: CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: 0 },
        flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let mut list = [own];
    let mut params = parameters(4);
    (params.access_descs, params.access_desc_count) = (list.as_ptr(), 1);
    let node: CUgraphNode = get!(cuGraphAddMemAllocNode(graph, ptr::null(), 0, &mut params));
    list[0].location.id = 9;
    let mut found = parameters(0);
    ok!(cuGraphMemAllocNodeGetParams(node, &mut found));
    assert_eq!(found.access_desc_count, 1);
    assert_ne!(found.access_descs, list.as_ptr());
    // SAFETY: the driver returned a list of one descriptor, which lives as long as the node.
    let found = unsafe { *found.access_descs };
    assert_eq!((found.location, found.flags), (own.location, own.flags));

    let (none, _address) = allocation(graph, &[], 4);
    let mut found = parameters(0);
    found.access_descs = list.as_ptr();
    ok!(cuGraphMemAllocNodeGetParams(none, &mut found));
    assert_eq!((found.access_descs, found.access_desc_count), (ptr::null(), 0));
}

#[test]
fn free_nodes_of_a_destroyed_graph_do_not_count() {
    let _alone = alone();
    let _session = session();
    let (graph, other): (CUgraph, CUgraph) = (get!(cuGraphCreate(0)), get!(cuGraphCreate(0)));
    let (node, address) = allocation(graph, &[], 4);
    let _freed: CUgraphNode = get!(cuGraphAddMemFreeNode(other, ptr::null(), 0, address));
    let refused = code!(cuGraphAddMemFreeNode(&mut ptr::null_mut(), graph, &node, 1, address));
    assert_eq!(refused, CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphDestroy(other));
    let _freed = free(graph, node, address);
}

/// Creates a graph of one node that allocates and one that frees.
fn freed(bytes: usize) -> CUgraph {
    let graph: CUgraph = get!(cuGraphCreate(0));
    let (node, address) = allocation(graph, &[], bytes);
    let _freed = free(graph, node, address);
    graph
}

#[test]
fn concurrent_graphs_do_not_share_memory() {
    const BYTES: usize = 1 << 20;
    let _alone = alone();
    let _session = session();
    ok!(cuDeviceGraphMemTrim(0));
    let kept = CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
    let before = footprint(kept);
    let [one, other, third] = [(); 3].map(|()| stream());
    let [first, second] = [(); 2].map(|()| instantiate(freed(BYTES), 0));
    ok!(cuGraphLaunch(first, one));
    ok!(cuCtxSynchronize());
    ok!(cuGraphLaunch(second, one));
    assert_eq!(footprint(kept) - before, BYTES as u64, "the second has what the first had");
    ok!(cuGraphLaunch(first, other));
    assert_eq!(footprint(kept) - before, 2 * BYTES as u64, "which the first does not have again");
    // Launches of the same graph run one after the other.
    ok!(cuGraphLaunch(first, third));
    assert_eq!(footprint(kept) - before, 2 * BYTES as u64);
}

/// Returns about the largest number of bytes that can be allocated at once.
fn largest_allocation() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    let mut address = 0;
    while code!(cuMemAlloc_v2(&mut address, free)) != 0 {
        free -= free / 16;
    }
    ok!(cuMemFree_v2(address));
    free
}

#[test]
fn enqueued_launch_reserves_its_memory() {
    let _alone = alone();
    let _session = session();
    let (one, other) = (stream(), stream());
    // There is memory for only one of the two graphs.
    let bytes = largest_allocation() / 4 * 3;
    let [first, second] = [(); 2].map(|()| {
        let (graph, address) = unfreed(bytes);
        (instantiate(graph, 0), address)
    });
    ok!(cuGraphLaunch(first.0, one));
    // The second graph is refused both before and after the launch of the first graph has run.
    for _ in 0..2 {
        assert_eq!(code!(cuGraphLaunch(second.0, other)), CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(code!(cuMemAlloc_v2(&mut 0, bytes)), CUDA_ERROR_OUT_OF_MEMORY);
        let (mut free, mut total) = (0, 0);
        ok!(cuMemGetInfo_v2(&mut free, &mut total));
        assert!(free < bytes, "{free} of {total}");
        ok!(cuCtxSynchronize());
    }
    // A launch after a pending free on the same stream uses that memory.
    ok!(cuMemFreeAsync(first.1, one));
    ok!(cuGraphLaunch(second.0, one));
    ok!(cuCtxSynchronize());
    ok!(cuMemFree_v2(second.1));
    let address: CUdeviceptr = get!(cuMemAlloc_v2(bytes));
    ok!(cuMemFree_v2(address));
}

#[test]
fn small_allocation_does_not_use_reserved_memory() {
    const SMALL: usize = 512 << 10;
    let _alone = alone();
    let _session = session();
    let (stream, free) = (stream(), largest_allocation());
    let (mut all, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut all, &mut total));
    if free < all {
        eprintln!("skipped: the host has {free} bytes, of {all} that the device may give");
        return;
    }
    let (graph, address) = unfreed(free - SMALL);
    ok!(cuGraphLaunch(instantiate(graph, 0), stream));
    assert_eq!(code!(cuMemAlloc_v2(&mut 0, SMALL + 1)), CUDA_ERROR_OUT_OF_MEMORY);
    let small: CUdeviceptr = get!(cuMemAlloc_v2(SMALL));
    ok!(cuMemFree_v2(small));
    ok!(cuCtxSynchronize());
    ok!(cuMemFree_v2(address));
}

#[test]
fn destroyed_context_releases_graph_memory() {
    let _alone = alone();
    let (kept, bytes) = (CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, 1 << 20);
    // Memory of a graph that allocates in a destroyed context.
    let here = session();
    ok!(cuDeviceGraphMemTrim(0));
    let (before, stream) = (footprint(kept), stream());
    let gone = session();
    let (graph, _address) = unfreed(bytes);
    here.make_current();
    let exec = instantiate(graph, 0);
    drop(gone);
    here.make_current();
    assert_eq!(code!(cuGraphLaunch(exec, stream)), CUDA_ERROR_CONTEXT_IS_DESTROYED, "{}", detail());
    ok!(cuStreamSynchronize(stream));
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(footprint(kept), before);

    // Memory of a launch that is dropped with its context before it allocates in another context.
    let (graph, address) = unfreed(bytes);
    let gone = session();
    let exec = instantiate(graph, 0);
    ok!(cuGraphLaunch(exec, common::stream()));
    assert_eq!(footprint(kept), before + bytes as u64);
    drop(gone);
    here.make_current();
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(footprint(kept), before);
    assert_eq!(code!(cuMemFree_v2(address)), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("which no launch has allocated"), "{}", detail());
    let exec = instantiate(graph, 0);
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuMemFreeAsync(address, stream));
    ok!(cuStreamSynchronize(stream));
}
