//! Conditional nodes of graphs, whose values kernels set by `cudaGraphSetConditional`.

mod common;

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Argument, Pointer, Session, Word, alone, code, detail, function, get, ok, peek, stream};
use warpfold_driver::sys::*;
use warpfold_sim_driver::{counters, set_patience, set_step_limit};

/// `decide` sets the value of a handle; `down` decrements a word and sets the handle to the result.
const STEERING: &str = ".version 9.0
.target sm_90
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry decide(.param .u64 handle, .param .u32 value) {
    .reg .b32 %r<1>; .reg .b64 %rd<1>; .param .b64 a; .param .b32 b;
    ld.param.u64 %rd0, [handle]; ld.param.u32 %r0, [value];
    st.param.b64 [a], %rd0; st.param.b32 [b], %r0; call.uni cudaGraphSetConditional, (a, b); ret;
}
.visible .entry down(.param .u64 handle, .param .u64 word) {
    .reg .b32 %r<1>; .reg .b64 %rd<2>; .param .b64 a; .param .b32 b;
    ld.param.u64 %rd0, [handle]; ld.param.u64 %rd1, [word];
    ld.global.u32 %r0, [%rd1]; sub.u32 %r0, %r0, 1; st.global.u32 [%rd1], %r0;
    st.param.b64 [a], %rd0; st.param.b32 [b], %r0; call.uni cudaGraphSetConditional, (a, b); ret;
}
";

struct Steered {
    session: Session,
    steering: CUmodule,
    graph: CUgraph,
    stream: CUstream,
}

impl Steered {
    fn new() -> Self {
        // Prevents pending work from running without a wait, even if a test is slow.
        set_patience(Duration::from_secs(600));
        let session = Session::new();
        let text = CString::new(STEERING).unwrap();
        let steering = get!(cuModuleLoadData(text.as_ptr().cast()));
        Self { session, steering, graph: get!(cuGraphCreate(0)), stream: stream() }
    }

    fn handle(&self, default: Option<u32>) -> CUgraphConditionalHandle {
        handle_in(self.graph, default)
    }

    fn kernel(
        &self,
        graph: CUgraph,
        behind: &[CUgraphNode],
        name: &str,
        arguments: &[Argument],
    ) -> CUgraphNode {
        let steers = ["decide", "down"].contains(&name);
        let function = if steers { function(self.steering, name) } else { self.session.function(name) };
        let mut places: Vec<*mut c_void> = arguments.iter().map(Argument::place).collect();
        let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_KERNEL);
        params.value.kernel = common::one_thread(function, &mut places);
        add(graph, behind, &mut params)
    }

    fn run(&self, exec: CUgraphExec) {
        ok!(cuGraphLaunch(exec, self.stream));
        ok!(cuStreamSynchronize(self.stream));
    }
}

fn handle_in(graph: CUgraph, default: Option<u32>) -> CUgraphConditionalHandle {
    let flags = if default.is_some() { CU_GRAPH_COND_ASSIGN_DEFAULT } else { 0 };
    let (value, none) = (default.unwrap_or(0), ptr::null_mut());
    get!(cuGraphConditionalHandleCreate(graph, none, value, flags))
}

fn add(graph: CUgraph, behind: &[CUgraphNode], params: &mut CUgraphNodeParams) -> CUgraphNode {
    get!(cuGraphAddNode_v2(graph, behind.as_ptr(), ptr::null(), behind.len(), params))
}

fn deciding(handle: u64, kind: CUgraphConditionalNodeType, size: u32) -> CUgraphNodeParams {
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    let (graphs_out, ctx) = (ptr::null_mut(), ptr::null_mut());
    params.value.conditional = CUDA_CONDITIONAL_NODE_PARAMS { handle, kind, size, graphs_out, ctx };
    params
}

fn conditional<const N: usize>(
    graph: CUgraph,
    behind: &[CUgraphNode],
    handle: u64,
    kind: CUgraphConditionalNodeType,
) -> (CUgraphNode, [CUgraph; N]) {
    let mut params = deciding(handle, kind, N as u32);
    let node = add(graph, behind, &mut params);
    // SAFETY: the driver returned a list of `N` graphs, which lives as long as the node.
    let graphs = unsafe { params.value.conditional.graphs_out.cast::<[CUgraph; N]>().read() };
    (node, graphs)
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    get!(cuGraphInstantiateWithFlags(graph, 0))
}

#[test]
fn conditional_value_selects_body() {
    let _alone = alone();
    let steered = Steered::new();
    let graph = steered.graph;
    let words = [(); 5].map(|()| steered.session.word(0));
    let [chosen, first, second, third, behind] = words;
    let (either, which) = (steered.handle(None), steered.handle(None));
    let fork = |word, handle, behind: &[CUgraphNode]| {
        steered.kernel(graph, behind, "down", &[Pointer(handle), Pointer(word)])
    };
    let told = fork(chosen, either, &[]);
    let (node, [yes, no]) = conditional(graph, &[told], either, CU_GRAPH_COND_TYPE_IF);
    let mut kind = -1;
    ok!(cuGraphNodeGetType(node, &mut kind));
    assert_eq!(kind, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    steered.kernel(yes, &[], "add", &[Pointer(first), Word(1)]);
    steered.kernel(no, &[], "add", &[Pointer(first), Word(100)]);
    let told = steered.kernel(graph, &[node], "decide", &[Pointer(which), Word(1)]);
    let (node, [zero, one]) = conditional(graph, &[told], which, CU_GRAPH_COND_TYPE_SWITCH);
    steered.kernel(zero, &[], "add", &[Pointer(second), Word(1)]);
    steered.kernel(one, &[], "add", &[Pointer(third), Word(1)]);
    steered.kernel(graph, &[node], "copy", &[Pointer(behind), Pointer(third)]);
    let exec = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    ok!(cuMemsetD32Async(chosen, 3, 1, steered.stream));
    steered.run(exec);
    assert_eq!(words.map(peek), [2, 1, 0, 1, 1]);
    steered.run(exec);
    steered.run(exec);
    assert_eq!(words.map(peek), [0, 102, 0, 3, 3], "twice yes, and then no");
    let launches = counters(steered.stream).expect("a stream").launches;
    assert_eq!(launches, 15, "of which two thirds are not in a body");
}

#[test]
fn out_of_range_switch_value_runs_no_body() {
    let _alone = alone();
    let steered = Steered::new();
    let word = steered.session.word(0);
    for value in 0..4 {
        let graph: CUgraph = get!(cuGraphCreate(0));
        let handle = handle_in(graph, Some(value));
        let (_, bodies) = conditional::<3>(graph, &[], handle, CU_GRAPH_COND_TYPE_SWITCH);
        for (body, bit) in bodies.into_iter().zip([1, 2, 4]) {
            steered.kernel(body, &[], "add", &[Pointer(word), Word(bit)]);
        }
        steered.run(instantiate(graph));
        assert_eq!(peek(word), [1, 3, 7, 7][value as usize]);
    }
}

#[test]
fn nested_while_nodes_loop_until_zero() {
    let _alone = alone();
    let steered = Steered::new();
    let (graph, session) = (steered.graph, &steered.session);
    let [rounds, inner, count] = [3, 0, 0].map(|value| session.word(value));
    let outer = steered.handle(Some(1));
    let (_, [body]) = conditional(graph, &[], outer, CU_GRAPH_COND_TYPE_WHILE);
    // Captured into the body: an inner loop of four iterations, for each of three iterations of the
    // outer loop.
    let four = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: inner,
        pitch: 0,
        value: 4,
        element_bytes: 4,
        width: 1,
        height: 1,
    };
    let filled: CUgraphNode =
        get!(cuGraphAddMemsetNode(body, ptr::null(), 0, &four, steered.session.context));
    // The inner handle is reset to its default in each iteration of the outer node.
    let handle = handle_in(body, Some(1));
    let (node, [within]) = conditional(body, &[filled], handle, CU_GRAPH_COND_TYPE_WHILE);
    let mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    let none = ptr::null();
    ok!(cuStreamBeginCaptureToGraph(steered.stream, within, none, ptr::null(), 0, mode));
    session.launch("add", steered.stream, &[Pointer(count), Word(1)]);
    let down = function(steered.steering, "down");
    let arguments = [Pointer(handle), Pointer(inner)];
    assert_eq!(common::launch_with(down, [1; 3], [1; 3], 0, steered.stream, &arguments), 0);
    ok!(cuStreamEndCapture(steered.stream, ptr::null_mut()));
    ok!(cuStreamBeginCaptureToGraph(steered.stream, body, &node, ptr::null(), 1, mode));
    session.launch("add", steered.stream, &[Pointer(count), Word(100)]);
    let arguments = [Pointer(outer), Pointer(rounds)];
    assert_eq!(common::launch_with(down, [1; 3], [1; 3], 0, steered.stream, &arguments), 0);
    let mut same: CUgraph = ptr::null_mut();
    ok!(cuStreamEndCapture(steered.stream, &mut same));
    assert_eq!(same, body);
    let exec = instantiate(graph);
    steered.run(exec);
    assert_eq!([rounds, inner, count].map(peek), [0, 0, 312]);
    // A second launch resets the outer handle to its default, although the first launch left it zero.
    ok!(cuMemsetD32Async(rounds, 1, 1, steered.stream));
    steered.run(exec);
    assert_eq!([rounds, inner, count].map(peek), [0, 0, 416]);
}

#[test]
fn conditional_node_is_added_during_capture() {
    let _alone = alone();
    let steered = Steered::new();
    let [word, count] = [5, 0].map(|value| steered.session.word(value));
    let origin = steered.stream;
    ok!(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    let known = || {
        let (mut status, mut graph, mut nodes, mut edges, mut number) =
            (-1, ptr::null_mut(), ptr::null(), ptr::null(), 9);
        ok!(cuStreamGetCaptureInfo_v3(
            origin,
            &mut status,
            ptr::null_mut(),
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut number
        ));
        assert_eq!(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        // SAFETY: the driver returned a list of `number` nodes, valid until the next call on the stream.
        let nodes = unsafe { std::slice::from_raw_parts(nodes, number) }.to_vec();
        (graph, nodes)
    };
    let (graph, before) = known();
    assert_eq!(before, []);
    let handle = handle_in(graph, None);
    let down = function(steered.steering, "down");
    let arguments = [Pointer(handle), Pointer(word)];
    assert_eq!(common::launch_with(down, [1; 3], [1; 3], 0, origin, &arguments), 0);
    let (_, behind) = known();
    assert_eq!(behind.len(), 1);
    let (mut node, [body]) = conditional(graph, &behind, handle, CU_GRAPH_COND_TYPE_WHILE);
    let set = CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    ok!(cuStreamUpdateCaptureDependencies_v2(origin, &mut node, ptr::null(), 1, set));
    assert_eq!(known().1, [node]);
    let mut first = behind[0];
    ok!(cuStreamUpdateCaptureDependencies(origin, &mut first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    assert_eq!(known().1, [node, first]);
    let mut foreign: CUgraphNode = get!(cuGraphAddEmptyNode(steered.graph, ptr::null(), 0));
    let code = code!(cuStreamUpdateCaptureDependencies(origin, &mut foreign, 1, set));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "a node of another graph");
    assert_eq!(
        code!(cuStreamUpdateCaptureDependencies(origin, &mut first, 1, 2)),
        CUDA_ERROR_INVALID_VALUE
    );
    steered.session.launch("add", origin, &[Pointer(count), Word(100)]);
    let mut same: CUgraph = ptr::null_mut();
    ok!(cuStreamEndCapture(origin, &mut same));
    assert_eq!(same, graph);
    let one = steered.kernel(body, &[], "add", &[Pointer(count), Word(1)]);
    steered.kernel(body, &[one], "down", &[Pointer(handle), Pointer(word)]);
    steered.run(instantiate(graph));
    assert_eq!([word, count].map(peek), [0, 104]);
    let code = code!(cuStreamUpdateCaptureDependencies(origin, &mut first, 1, set));
    assert_eq!(code, CUDA_ERROR_ILLEGAL_STATE, "nothing is captured");
}

#[test]
fn invalid_conditional_nodes_are_refused() {
    let _alone = alone();
    let steered = Steered::new();
    let graph = steered.graph;
    let refused = |graph, handle, kind, size, why: &str| {
        let (mut node, mut params) = (ptr::null_mut(), deciding(handle, kind, size));
        let code = code!(cuGraphAddNode(&mut node, graph, ptr::null(), 0, &mut params));
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        assert!(detail().contains(why), "{}", detail());
    };
    let handle = steered.handle(None);
    let other: CUgraph = get!(cuGraphCreate(0));
    let foreign = handle_in(other, None);
    for (kind, size) in [(0, 0), (0, 3), (1, 0), (1, 2), (2, 0), (2, u32::MAX)] {
        refused(graph, handle, kind, size, "bodies; allowed is");
    }
    refused(graph, handle, 3, 1, "kind 3");
    refused(graph, foreign, 0, 1, "is not a conditional handle of a graph");
    refused(graph, 17, 0, 1, "is not a conditional handle of a graph");
    let mut exec: CUgraphExec = ptr::null_mut();
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        upload_stream: ptr::null_mut(),
        error_node: ptr::null_mut(),
        result: -1,
    };
    let code = code!(cuGraphInstantiateWithParams(&mut exec, graph, &mut params));
    let unused = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    assert_eq!((code, params.result), (CUDA_ERROR_INVALID_VALUE, unused));
    let (_, [body]) = conditional(graph, &[], handle, CU_GRAPH_COND_TYPE_IF);
    refused(graph, handle, 0, 1, "belongs to another node");
    let code = code!(cuGraphConditionalHandleCreate(&mut 0, graph, ptr::null_mut(), 0, 2));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    let code = code!(cuGraphAddNode(&mut ptr::null_mut(), graph, ptr::null(), 0, &mut params));
    assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);

    // A body is owned by its node, and does not accept every kind of node.
    assert_eq!(code!(cuGraphDestroy(body)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuGraphInstantiateWithFlags(&mut exec, body, 0)), CUDA_ERROR_INVALID_VALUE);
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let host = CUDA_HOST_NODE_PARAMS_v1 { function: Some(nothing), user_data: ptr::null_mut() };
    let code = code!(cuGraphAddHostNode(&mut ptr::null_mut(), body, ptr::null(), 0, &host));
    assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED, "{}", detail());
    assert_eq!(code!(cuGraphClone(&mut ptr::null_mut(), graph)), CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuGraphDestroy(graph));
    let mut nodes = 0;
    assert_eq!(code!(cuGraphGetNodes(body, ptr::null_mut(), &mut nodes)), CUDA_ERROR_INVALID_HANDLE);
}

fn nodes_of(graph: CUgraph) -> usize {
    let mut nodes = 0;
    ok!(cuGraphGetNodes(graph, ptr::null_mut(), &mut nodes));
    nodes
}

#[test]
fn launch_refused_by_a_body_adds_no_nodes() {
    let _alone = alone();
    let steered = Steered::new();
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let launched: CUgraph = get!(cuGraphCreate(0));
    let first = steered.kernel(launched, &[], "nothing", &[]);
    let host = CUDA_HOST_NODE_PARAMS_v1 { function: Some(nothing), user_data: ptr::null_mut() };
    let _last: CUgraphNode = get!(cuGraphAddHostNode(launched, &first, 1, &host));
    let exec = instantiate(launched);
    let handle = steered.handle(None);
    let (_, [body]) = conditional(steered.graph, &[], handle, CU_GRAPH_COND_TYPE_IF);
    let (mode, none) = (CU_STREAM_CAPTURE_MODE_GLOBAL, ptr::null());
    ok!(cuStreamBeginCaptureToGraph(steered.stream, body, none, ptr::null(), 0, mode));
    assert_eq!(code!(cuGraphLaunch(exec, steered.stream)), CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuStreamEndCapture(steered.stream, ptr::null_mut()));
    assert_eq!(nodes_of(body), 0);
}

#[test]
fn updates_obey_the_limits_of_bodies() {
    let _alone = alone();
    let steered = Steered::new();
    let other = Session::new();
    let foreign = other.function("nothing");
    steered.session.make_current();
    let graph = steered.graph;
    let handle = steered.handle(None);
    let (_, [body]) = conditional(graph, &[], handle, CU_GRAPH_COND_TYPE_IF);
    let inside = steered.kernel(body, &[], "nothing", &[]);
    let params = common::one_thread(foreign, &mut []);
    assert_eq!(code!(cuGraphKernelNodeSetParams_v2(inside, &params)), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("belong to the context of the node"), "{}", detail());
    let params = common::one_thread(steered.session.function("stray"), &mut []);
    ok!(cuGraphKernelNodeSetParams_v2(inside, &params));

    // A graph that cannot be instantiated cannot be the source of an update: a body graph, or a graph
    // with an unused handle.
    let plain: CUgraph = get!(cuGraphCreate(0));
    let _node = steered.kernel(plain, &[], "nothing", &[]);
    let exec = instantiate(plain);
    let mut info = CUgraphExecUpdateResultInfo {
        result: -1,
        error_node: ptr::null_mut(),
        error_from_node: ptr::null_mut(),
    };
    assert_eq!(code!(cuGraphExecUpdate_v2(exec, body, &mut info)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(info.result, CU_GRAPH_EXEC_UPDATE_ERROR, "the code says the rest");
    let _unused = handle_in(plain, None);
    assert_eq!(code!(cuGraphExecUpdate_v2(exec, plain, &mut info)), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("no conditional node of the graph"), "{}", detail());
    steered.run(exec);
    other.make_current();
    drop(other);
    steered.session.make_current();
}

#[test]
fn failed_instantiation_reports_the_reason() {
    let _alone = alone();
    let steered = Steered::new();
    let handle = steered.handle(None);
    let instantiated = |graph, flags| {
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags,
            upload_stream: ptr::null_mut(),
            error_node: ptr::null_mut(),
            result: -1,
        };
        let code = code!(cuGraphInstantiateWithParams(&mut ptr::null_mut(), graph, &mut params));
        (code, params.result)
    };
    let (wrong, error) = (CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR);
    let unused = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    let on_device = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    // A handle is unused in all three cases, but only the first case fails for that reason.
    assert_eq!(instantiated(steered.graph, 0), (wrong, unused));
    assert_eq!(instantiated(steered.graph, 1 << 20), (wrong, error));
    assert_eq!(instantiated(steered.graph, on_device), (CUDA_ERROR_NOT_SUPPORTED, error));
    let (_, [body]) = conditional(steered.graph, &[], handle, CU_GRAPH_COND_TYPE_IF);
    let _unused = handle_in(body, None);
    assert_eq!(instantiated(body, 0), (wrong, error), "a body");
    assert_eq!(instantiated(steered.graph, 0), (wrong, unused), "of which there is one in a body");
    assert_eq!(instantiated(ptr::null_mut(), 0), (CUDA_ERROR_INVALID_HANDLE, error));
}

#[test]
fn graph_add_node_adds_every_kind() {
    let _alone = alone();
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn call(_: *mut c_void) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    let steered = Steered::new();
    let graph = steered.graph;
    let word = steered.session.word(0);
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    // SAFETY: all bytes are zero, which is a valid value of each member.
    let alloc = unsafe { &mut params.value.alloc };
    alloc.pool_props.alloc_type = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.pool_props.location = CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: 0 };
    alloc.bytes = 4;
    let mut last = add(graph, &[], &mut params);
    // SAFETY: the driver has written the address to this member.
    let address = unsafe { params.value.alloc.dptr };
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_MEMSET);
    let first = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: address,
        pitch: 0,
        value: 40,
        element_bytes: 4,
        width: 1,
        height: 1,
    };
    params.value.memset = CUDA_MEMSET_NODE_PARAMS_v2 { first, ctx: ptr::null_mut() };
    last = add(graph, &[last], &mut params);
    last = steered.kernel(graph, &[last], "add", &[Pointer(address), Word(2)]);
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_MEMCPY);
    // SAFETY: all bytes are zero, which is a valid value of each member.
    let copy = unsafe { &mut params.value.memcpy.copy_params };
    (copy.src_memory_type, copy.dst_memory_type) = (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
    (copy.src_device, copy.dst_device) = (address, word);
    (copy.width_bytes, copy.height, copy.depth) = (4, 1, 1);
    last = add(graph, &[last], &mut params);
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_HOST);
    params.value.host = CUDA_HOST_NODE_PARAMS_v1 { function: Some(call), user_data: ptr::null_mut() };
    last = add(graph, &[last], &mut params);
    last = add(graph, &[last], &mut CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_EMPTY));
    let mut params = CUgraphNodeParams::new(CU_GRAPH_NODE_TYPE_MEM_FREE);
    params.value.free = address;
    add(graph, &[last], &mut params);
    steered.run(instantiate(graph));
    assert_eq!((peek(word), CALLED.load(Ordering::Relaxed)), (42, 1));
}

#[test]
fn faults_and_endless_loops_in_a_body_lose_the_context() {
    let _alone = alone();
    let steered = Steered::new();
    let handle = steered.handle(Some(1));
    let (_, [body]) = conditional(steered.graph, &[], handle, CU_GRAPH_COND_TYPE_IF);
    steered.kernel(body, &[], "stray", &[]);
    ok!(cuGraphLaunch(instantiate(steered.graph), steered.stream));
    assert_eq!(code!(cuStreamSynchronize(steered.stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
    drop(steered);

    // A handle is invalid once its graph is destroyed.
    let steered = Steered::new();
    let handle = steered.handle(Some(1));
    ok!(cuGraphDestroy(steered.graph));
    let decide = function(steered.steering, "decide");
    let arguments = [Pointer(handle), Word(1)];
    assert_eq!(common::launch_with(decide, [1; 3], [1; 3], 0, steered.stream, &arguments), 0);
    assert_eq!(code!(cuStreamSynchronize(steered.stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(detail().contains("not a conditional handle of a graph of the context"), "{}", detail());
    drop(steered);

    set_step_limit(100_000);
    let steered = Steered::new();
    set_step_limit(0);
    let handle = steered.handle(Some(1));
    let (_, [body]) = conditional(steered.graph, &[], handle, CU_GRAPH_COND_TYPE_WHILE);
    steered.kernel(body, &[], "nothing", &[]);
    ok!(cuGraphLaunch(instantiate(steered.graph), steered.stream));
    assert_eq!(code!(cuStreamSynchronize(steered.stream)), CUDA_ERROR_LAUNCH_TIMEOUT);
    assert!(detail().contains("looped for"), "{}", detail());
}
