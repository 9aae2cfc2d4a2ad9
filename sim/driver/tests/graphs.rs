//! Graphs that are captured from streams or built node by node.

mod common;

use std::ffi::c_void;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    LEGACY, Pointer, Session, Word, alone, blocking_stream, code, detail, event, get, ok, peek, stream,
};
use warpfold_driver::sys::*;
use warpfold_sim_driver::set_patience;

/// Creates a session in which pending work does not run without a wait, even if a test is slow.
fn session() -> Session {
    set_patience(Duration::from_secs(600));
    Session::new()
}

fn begin(stream: CUstream, mode: CUstreamCaptureMode) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: CUstream) -> CUgraph {
    let mut graph = ptr::null_mut();
    ok!(cuStreamEndCapture(stream, &mut graph));
    graph
}

fn status(stream: CUstream) -> CUstreamCaptureStatus {
    let mut status = -1;
    ok!(cuStreamIsCapturing(stream, &mut status));
    status
}

fn kind(node: CUgraphNode) -> CUgraphNodeType {
    let mut kind = -1;
    ok!(cuGraphNodeGetType(node, &mut kind));
    kind
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    get!(cuGraphInstantiateWithFlags(graph, 0))
}

#[test]
fn captured_work_runs_only_when_its_graph_is_launched() {
    let _alone = alone();
    let session = session();
    let (word, stream) = (session.word(1), stream());
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    session.launch("add", stream, &[Pointer(word), Word(10)]);
    session.launch("add", stream, &[Pointer(word), Word(100)]);
    assert_eq!(status(stream), 1);
    let graph = end(stream);
    assert_eq!(status(stream), 0);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(word), 1, "it was recorded, not run");
    let exec = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    ok!(cuGraphUpload(exec, stream));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuGraphLaunch(exec, stream));
    assert_eq!(peek(word), 1, "nobody waited");
    ok!(cuGraphExecDestroy(exec));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(word), 221, "launched before it was destroyed");
    assert_eq!(code!(cuGraphLaunch(exec, stream)), CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn event_waits_extend_a_capture_to_other_streams() {
    let _alone = alone();
    let session = session();
    let (first, second) = (session.word(1), session.word(0));
    let (origin, side, fork, join) = (stream(), stream(), event(), event());
    begin(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    session.launch("set", origin, &[Pointer(first), Word(5)]);
    ok!(cuEventRecord(fork, origin));
    ok!(cuStreamWaitEvent(side, fork, 0));
    session.launch("copy", side, &[Pointer(second), Pointer(first)]);
    assert_eq!(code!(cuEventQuery(fork)), CUDA_ERROR_CAPTURED_EVENT);
    let broken = code!(cuStreamEndCapture(origin, &mut ptr::null_mut()));
    assert_eq!(broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the query has spoilt it");

    begin(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    session.launch("set", origin, &[Pointer(first), Word(5)]);
    ok!(cuEventRecord(fork, origin));
    ok!(cuStreamWaitEvent(side, fork, 0));
    session.launch("copy", side, &[Pointer(second), Pointer(first)]);
    ok!(cuEventRecord(join, side));
    ok!(cuStreamWaitEvent(origin, join, 0));
    session.launch("add", origin, &[Pointer(second), Word(1)]);
    let graph = end(origin);
    let mut nodes = 0_usize;
    ok!(cuGraphGetNodes(graph, ptr::null_mut(), &mut nodes));
    let mut edges = 0_usize;
    ok!(cuGraphGetEdges(graph, ptr::null_mut(), ptr::null_mut(), &mut edges));
    assert_eq!((nodes, edges), (3, 3), "set to copy, set and copy to add");
    let exec = instantiate(graph);
    ok!(cuGraphLaunch(exec, side));
    ok!(cuStreamSynchronize(side));
    assert_eq!([first, second].map(peek), [5, 6]);
}

#[test]
fn unjoined_work_fails_the_capture() {
    let _alone = alone();
    let session = session();
    let (word, origin, side, fork) = (session.word(0), stream(), stream(), event());
    begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok!(cuEventRecord(fork, origin));
    ok!(cuStreamWaitEvent(side, fork, 0));
    session.launch("set", side, &[Pointer(word), Word(1)]);
    assert_eq!(
        code!(cuStreamEndCapture(side, &mut ptr::null_mut())),
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
    );

    let (origin, side) = (stream(), stream());
    begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok!(cuEventRecord(fork, origin));
    ok!(cuStreamWaitEvent(side, fork, 0));
    session.launch("set", side, &[Pointer(word), Word(1)]);
    let mut graph = ptr::dangling_mut();
    let code = code!(cuStreamEndCapture(origin, &mut graph));
    assert_eq!((code, graph), (CUDA_ERROR_STREAM_CAPTURE_UNJOINED, ptr::null_mut()));
    session.launch("set", side, &[Pointer(word), Word(2)]);
    ok!(cuStreamSynchronize(side));
    assert_eq!(peek(word), 2);
}

#[test]
fn joined_stream_can_be_destroyed_during_capture() {
    let _alone = alone();
    let session = session();
    let (word, origin, fork, join) = (session.word(0), stream(), event(), event());
    let forked = || {
        let side = stream();
        begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
        ok!(cuEventRecord(fork, origin));
        ok!(cuStreamWaitEvent(side, fork, 0));
        session.launch("add", side, &[Pointer(word), Word(1)]);
        side
    };
    let side = forked();
    ok!(cuEventRecord(join, side));
    ok!(cuStreamWaitEvent(origin, join, 0));
    ok!(cuStreamDestroy_v2(side));
    session.launch("add", origin, &[Pointer(word), Word(10)]);
    let exec = instantiate(end(origin));
    ok!(cuGraphLaunch(exec, origin));
    ok!(cuStreamSynchronize(origin));
    assert_eq!(peek(word), 11);
    // A stream that is destroyed before it is joined leaves unjoined nodes.
    ok!(cuStreamDestroy_v2(forked()));
    let code = code!(cuStreamEndCapture(origin, &mut ptr::null_mut()));
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

#[test]
fn destroying_origin_stream_ends_capture() {
    let _alone = alone();
    let session = session();
    let word = session.word(0);
    let captured = |origin| {
        begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
        session.launch("add", origin, &[Pointer(word), Word(1)]);
        let (mut status, mut graph, mut none) = (-1, ptr::null_mut(), ptr::null());
        let nobody = ptr::null_mut();
        let places = (&mut status, &mut graph, &mut none);
        ok!(cuStreamGetCaptureInfo_v2(origin, places.0, nobody, places.1, places.2, ptr::null_mut()));
        graph
    };
    let is_gone = |graph| {
        let code = code!(cuGraphGetNodes(graph, ptr::null_mut(), &mut 0));
        assert_eq!(code, CUDA_ERROR_INVALID_HANDLE);
        // Calls that are not allowed during a capture are allowed again.
        let other: CUdeviceptr = get!(cuMemAlloc_v2(4));
        ok!(cuMemFree_v2(other));
        ok!(cuMemsetD32Async(word, 1, 1, LEGACY));
        ok!(cuCtxSynchronize());
    };
    let origin = stream();
    let graph = captured(origin);
    ok!(cuStreamDestroy_v2(origin));
    is_gone(graph);

    // A stream that has joined the capture cannot end it, and stays invalidated.
    let (origin, side, fork) = (stream(), blocking_stream(), event());
    let graph = captured(origin);
    ok!(cuEventRecord(fork, origin));
    ok!(cuStreamWaitEvent(side, fork, 0));
    ok!(cuStreamDestroy_v2(origin));
    is_gone(graph);
    assert_eq!(status(side), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    let invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    assert_eq!(session.try_launch("nothing", side, &[]), invalid);
    let code = code!(cuStreamEndCapture(side, &mut ptr::null_mut()));
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(code!(cuStreamWaitEvent(stream(), fork, 0)), CUDA_ERROR_CAPTURED_EVENT);
    ok!(cuStreamDestroy_v2(side));

    // A graph that existed before the capture is kept.
    let (origin, given) = (stream(), get!(cuGraphCreate(0)));
    let mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    ok!(cuStreamBeginCaptureToGraph(origin, given, ptr::null(), ptr::null(), 0, mode));
    session.launch("add", origin, &[Pointer(word), Word(1)]);
    ok!(cuStreamDestroy_v2(origin));
    let mut nodes = 0;
    ok!(cuGraphGetNodes(given, ptr::null_mut(), &mut nodes));
    assert_eq!(nodes, 1);
}

#[test]
fn waits_and_unsafe_calls_invalidate_a_capture() {
    let _alone = alone();
    let session = session();
    let (origin, other, event) = (stream(), stream(), event());
    let spoilt = |act: &dyn Fn() -> c_int, mode, expected: c_int| {
        begin(origin, mode);
        assert_eq!(act(), expected, "{}", detail());
        let code = session.try_launch("nothing", origin, &[]);
        let ended = code!(cuStreamEndCapture(origin, &mut ptr::null_mut()));
        assert_eq!(code, ended);
        ended
    };
    let invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    let unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let (global, relaxed) = (CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED);
    let wait: &dyn Fn() -> c_int = &|| code!(cuStreamSynchronize(origin));
    let wait_for_all: &dyn Fn() -> c_int = &|| code!(cuCtxSynchronize());
    let allocate: &dyn Fn() -> c_int = &|| code!(cuMemAlloc_v2(&mut 0, 4));
    let query: &dyn Fn() -> c_int = &|| code!(cuEventQuery(event));
    let wait_for_other: &dyn Fn() -> c_int = &|| code!(cuStreamSynchronize(other));
    for mode in [global, relaxed] {
        assert_eq!(spoilt(wait, mode, unsupported), invalid);
        assert_eq!(spoilt(wait_for_all, mode, unsupported), invalid);
        assert_eq!(spoilt(wait_for_other, mode, 0), 0);
    }
    for call in [allocate, query] {
        assert_eq!(spoilt(call, global, unsupported), invalid);
    }
    assert_eq!(spoilt(allocate, relaxed, 0), 0);
    // A thread in relaxed mode does not invalidate captures.
    let mut mode = relaxed;
    ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
    assert_eq!(mode, global);
    assert_eq!(spoilt(allocate, global, 0), 0);
    ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
    assert_eq!(mode, relaxed);
}

#[test]
fn legacy_stream_work_invalidates_only_blocking_captures() {
    let _alone = alone();
    let session = session();
    let (word, context) = (session.word(0), session.context.addr());
    let upload = || {
        std::thread::scope(|scope| {
            let upload = scope.spawn(|| {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                code!(cuMemsetD32Async(word, 1, 1, LEGACY))
            });
            upload.join().expect("no panic")
        })
    };
    let (blocking, free) = (blocking_stream(), stream());
    for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL] {
        begin(free, mode);
        assert_eq!(upload(), 0);
        let _graph: CUgraph = end(free);
        begin(blocking, mode);
        assert_eq!(upload(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        let code = code!(cuStreamEndCapture(blocking, &mut ptr::null_mut()));
        assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    assert_eq!(code!(cuStreamBeginCapture_v2(LEGACY, 0)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

#[test]
fn foreign_allocation_invalidates_only_global_captures() {
    let _alone = alone();
    let session = session();
    let (origin, context) = (stream(), session.context.addr());
    for (mode, expected) in [
        (CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 0),
        (CU_STREAM_CAPTURE_MODE_RELAXED, 0),
    ] {
        begin(origin, mode);
        let code = std::thread::scope(|scope| {
            let allocation = scope.spawn(|| {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                code!(cuMemAlloc_v2(&mut 0, 4))
            });
            allocation.join().expect("no panic")
        });
        assert_eq!(code, expected, "mode {mode}");
        let ended = code!(cuStreamEndCapture(origin, &mut ptr::null_mut()));
        assert_eq!(ended == 0, expected == 0);
    }
}

#[test]
fn a_capture_ends_on_its_thread_unless_it_is_relaxed() {
    let _alone = alone();
    let session = session();
    let (origin, context) = (stream(), session.context.addr());
    let end_elsewhere = || {
        let stream = origin.addr();
        std::thread::scope(|scope| {
            let end = scope.spawn(move || {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                code!(cuStreamEndCapture(ptr::without_provenance_mut(stream), &mut ptr::null_mut()))
            });
            end.join().expect("no panic")
        })
    };
    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_eq!(end_elsewhere(), 0);
    assert_eq!(end_elsewhere(), CUDA_ERROR_ILLEGAL_STATE, "nothing is captured");
    begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_eq!(end_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    let code = code!(cuStreamEndCapture(origin, &mut ptr::null_mut()));
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn captured_copies_read_and_write_when_the_graph_runs() {
    let _alone = alone();
    let session = session();
    let (word, stream) = (session.word(0), stream());
    let (mut source, mut target) = (Box::new(1_u32), Box::new(0_u32));
    let (from, to): (*mut u32, *mut u32) = (&raw mut *source, &raw mut *target);
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok!(cuMemcpyHtoDAsync_v2(word, from.cast(), 4, stream));
    session.launch("add", stream, &[Pointer(word), Word(10)]);
    ok!(cuMemcpyDtoHAsync_v2(to.cast(), word, 4, stream));
    let exec = instantiate(end(stream));
    for (value, expected) in [(1, 11), (2, 12)] {
        // SAFETY: no launch of the graph is in flight.
        unsafe { from.write(value) };
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        // SAFETY: no launch of the graph is in flight.
        assert_eq!(unsafe { to.read() }, expected);
    }
}

static SUM: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn add_up(data: *mut c_void) {
    SUM.fetch_add(data.addr(), Ordering::Relaxed);
}

#[test]
fn graphs_are_built_node_by_node() {
    let _alone = alone();
    let session = session();
    let (first, second, stream) = (session.word(0), session.word(0), stream());
    let graph: CUgraph = get!(cuGraphCreate(0));
    let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: first,
        pitch: 0,
        value: 40,
        element_bytes: 4,
        width: 1,
        height: 1,
    };
    let filled: CUgraphNode = get!(cuGraphAddMemsetNode(graph, ptr::null(), 0, &fill, session.context));
    let arguments = [Pointer(first), Word(2)];
    let mut places = arguments.each_ref().map(common::Argument::place);
    let kernel = common::one_thread(session.function("add"), &mut places);
    let added: CUgraphNode = get!(cuGraphAddKernelNode_v2(graph, &filled, 1, &kernel));
    let copied: CUgraphNode =
        get!(cuGraphAddMemcpyNode(graph, &added, 1, &row_copy(second, first), session.context));
    let host =
        CUDA_HOST_NODE_PARAMS_v1 { function: Some(add_up), user_data: ptr::without_provenance_mut(5) };
    let called: CUgraphNode = get!(cuGraphAddHostNode(graph, &copied, 1, &host));
    let last: CUgraphNode = get!(cuGraphAddEmptyNode(graph, &called, 1));
    assert_eq!(kind(last), CU_GRAPH_NODE_TYPE_EMPTY);
    assert_eq!(kind(added), CU_GRAPH_NODE_TYPE_KERNEL);
    let clone: CUgraph = get!(cuGraphClone(graph));
    ok!(cuGraphDestroy(graph));
    let exec = instantiate(clone);
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!([first, second].map(peek), [42, 42]);
    assert_eq!(SUM.load(Ordering::Relaxed), 5);
}

fn fill_of(dst: CUdeviceptr, value: u32) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    CUDA_MEMSET_NODE_PARAMS_v1 { dst, pitch: 0, value, element_bytes: 4, width: 1, height: 1 }
}

fn launch_of(function: CUfunction, places: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS_v1 {
    let (kernel_params, extra) = (places.as_mut_ptr(), ptr::null_mut());
    CUDA_KERNEL_NODE_PARAMS_v1 {
        function,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        kernel_params,
        extra,
    }
}

#[test]
fn node_parameters_of_an_executable_graph_can_change() {
    let _alone = alone();
    let session = session();
    let (words, stream) = ([(); 3].map(|()| session.word(0)), stream());
    let [first, second, third] = words;
    let graph: CUgraph = get!(cuGraphCreate(0));
    let context = session.context;
    let filled: CUgraphNode =
        get!(cuGraphAddMemsetNode(graph, ptr::null(), 0, &fill_of(first, 40), context));
    let arguments = [Pointer(first), Word(2)];
    let mut places = arguments.each_ref().map(common::Argument::place);
    let add = launch_of(session.function("add"), &mut places);
    let added: CUgraphNode = get!(cuGraphAddKernelNode(graph, &filled, 1, &add));
    let copied: CUgraphNode =
        get!(cuGraphAddMemcpyNode(graph, &added, 1, &row_copy(second, first), context));
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn count(by: *mut c_void) {
        COUNT.fetch_add(by.addr(), Ordering::Relaxed);
    }
    let by = |number| CUDA_HOST_NODE_PARAMS_v1 {
        function: Some(count),
        user_data: ptr::without_provenance_mut(number),
    };
    let called: CUgraphNode = get!(cuGraphAddHostNode(graph, &copied, 1, &by(1)));
    let mut log = 7;
    let exec: CUgraphExec = get!(cuGraphInstantiate_v2(graph, ptr::null_mut(), &mut log, 1));
    assert_eq!(log, 0, "nothing is said");
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
        upload_stream: stream,
        error_node: filled,
        result: -1,
    };
    let other: CUgraphExec = get!(cuGraphInstantiateWithParams(graph, &mut params));
    assert_eq!((params.error_node, params.result), (ptr::null_mut(), 0));
    ok!(cuGraphExecDestroy(other));
    ok!(cuGraphLaunch(exec, stream));

    // An enqueued launch keeps its parameters.
    let arguments = [Pointer(first), Word(5)];
    let mut others = arguments.each_ref().map(common::Argument::place);
    let add = launch_of(session.function("add"), &mut others);
    ok!(cuGraphExecKernelNodeSetParams(exec, added, &add));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((words.map(peek), COUNT.load(Ordering::Relaxed)), ([42, 42, 0], 1));
    ok!(cuGraphExecMemsetNodeSetParams(exec, filled, &fill_of(first, 10), context));
    ok!(cuGraphExecMemcpyNodeSetParams(exec, copied, &row_copy(third, first), context));
    ok!(cuGraphExecHostNodeSetParams(exec, called, &by(100)));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((words.map(peek), COUNT.load(Ordering::Relaxed)), ([15, 42, 15], 101));

    assert_eq!(code!(cuGraphExecKernelNodeSetParams(exec, filled, &add)), CUDA_ERROR_INVALID_VALUE);
    let clone: CUgraph = get!(cuGraphClone(graph));
    let mut others = [ptr::null_mut(); 4];
    let mut number = 4;
    ok!(cuGraphGetNodes(clone, others.as_mut_ptr(), &mut number));
    let fill = fill_of(first, 1);
    assert_eq!(
        code!(cuGraphExecMemsetNodeSetParams(exec, others[0], &fill, context)),
        CUDA_ERROR_INVALID_VALUE
    );

    // Updates of an executable graph leave its source graph unchanged; an update from a graph replaces
    // all parameters.
    ok!(cuGraphKernelNodeSetParams(added, &add));
    let no_info = CUgraphExecUpdateResultInfo {
        result: -1,
        error_node: graph.cast(),
        error_from_node: graph.cast(),
    };
    let mut info = no_info;
    ok!(cuGraphExecUpdate_v2(exec, graph, &mut info));
    assert_eq!((info.result, info.error_node), (CU_GRAPH_EXEC_UPDATE_SUCCESS, ptr::null_mut()));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((words.map(peek), COUNT.load(Ordering::Relaxed)), ([45, 45, 15], 102));

    // A graph with another node cannot update the executable graph.
    let last: CUgraphNode = get!(cuGraphAddEmptyNode(graph, &called, 1));
    let mut info = no_info;
    let code = code!(cuGraphExecUpdate_v2(exec, graph, &mut info));
    assert_eq!(code, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!((info.result, info.error_node), (CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, last));
    let other: CUgraph = get!(cuGraphCreate(0));
    let emptied: CUgraphNode = get!(cuGraphAddEmptyNode(other, ptr::null(), 0));
    let mut info = no_info;
    let code = code!(cuGraphExecUpdate_v2(exec, other, &mut info));
    assert_eq!(code, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!((info.result, info.error_node), (CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, emptied));
}

fn row_copy(to: u64, from: u64) -> CUDA_MEMCPY3D_v2 {
    let null = ptr::null_mut();
    CUDA_MEMCPY3D_v2 {
        src_x_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type: CU_MEMORYTYPE_DEVICE,
        src_host: null,
        src_device: from,
        src_array: ptr::null_mut(),
        reserved0: null,
        src_pitch: 4,
        src_height: 1,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: CU_MEMORYTYPE_DEVICE,
        dst_host: null,
        dst_device: to,
        dst_array: ptr::null_mut(),
        reserved1: null,
        dst_pitch: 4,
        dst_height: 1,
        width_bytes: 4,
        height: 1,
        depth: 1,
    }
}

#[test]
fn launches_of_one_graph_are_serialized() {
    let _alone = alone();
    let session = session();
    let (word, streams) = (session.word(0), [stream(), stream()]);
    begin(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    session.launch("add", streams[0], &[Pointer(word), Word(1)]);
    let exec = instantiate(end(streams[0]));
    ok!(cuGraphLaunch(exec, streams[0]));
    ok!(cuGraphLaunch(exec, streams[1]));
    ok!(cuStreamSynchronize(streams[1]));
    assert_eq!(peek(word), 2, "the first launch came before the second");
    let both = Barrier::new(2);
    let context = session.context.addr();
    let (exec, handles) = (exec.addr(), streams.map(|stream| stream.addr()));
    std::thread::scope(|scope| {
        for stream in handles {
            let both = &both;
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                both.wait();
                let stream = ptr::without_provenance_mut(stream);
                for _ in 0..50 {
                    ok!(cuGraphLaunch(ptr::without_provenance_mut(exec), stream));
                }
                ok!(cuStreamSynchronize(stream));
            });
        }
    });
    assert_eq!(peek(word), 102);
}
