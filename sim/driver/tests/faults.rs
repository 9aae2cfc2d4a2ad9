//! Errors: kernels that fault, invalid handles and launches, injected faults, and memory that is freed
//! too early.

mod common;

use std::ptr;
use std::time::Duration;

use common::{
    LEGACY, Pointer, Session, Word, api, blocking_stream, code, detail, event, function, get,
    launch_with, ok, peek, stream,
};
use warpfold_driver::sys::*;
use warpfold_sim_driver::{Fault, inject, memory_in_use, set_patience, set_step_limit, take_findings};

/// Creates a session in which pending work does not run without a wait, even if a test is slow.
fn session() -> Session {
    set_patience(Duration::from_secs(600));
    Session::new()
}

#[test]
fn a_fault_shows_at_the_next_wait_and_stays() {
    for (kernel, expected, says) in [
        ("stray", CUDA_ERROR_ILLEGAL_ADDRESS, "ptx line 19"),
        ("odd", CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned"),
        ("trap", CUDA_ERROR_LAUNCH_FAILED, "trap executed"),
        ("assert", CUDA_ERROR_ASSERT, "assertion failed"),
    ] {
        let session = session();
        let (word, stream, event) = (session.word(3), stream(), event());
        let arguments = if kernel == "odd" { &[Pointer(word)][..] } else { &[] };
        session.launch(kernel, stream, arguments);
        ok!(cuEventRecord(event, stream));
        session.launch("set", stream, &[Pointer(word), Word(4)]);
        assert_eq!(code!(cuStreamSynchronize(stream)), expected, "{kernel}");
        assert!(detail().contains(says), "{}", detail());
        assert_eq!(code!(cuStreamSynchronize(LEGACY)), expected);
        assert_eq!(code!(cuEventQuery(event)), expected);
        assert_eq!(code!(cuMemAlloc_v2(&mut 0, 4)), expected);
        assert_eq!(code!(cuMemFree_v2(word)), expected);
        assert_eq!(session.try_launch_unchecked(stream), expected);
        assert_eq!(code!(cuEventDestroy_v2(event)), expected);
        // Only the context is lost: another context of the device works.
        let other = Session::new();
        assert_eq!(peek(other.word(5)), 5);
    }
}

impl Session {
    /// Launches with a constant handle, because a lost context does not return a function.
    fn try_launch_unchecked(&self, stream: CUstream) -> c_int {
        let known: CUfunction = ptr::without_provenance_mut(0x5100_0010);
        launch_with(known, [1; 3], [1; 3], 0, stream, &[])
    }
}

#[test]
fn a_kernel_that_never_ends_times_out() {
    set_step_limit(100_000);
    let session = session();
    set_step_limit(0);
    session.launch("forever", LEGACY, &[]);
    assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_TIMEOUT);
    assert!(detail().contains("step limit"), "{}", detail());
}

#[test]
fn invalid_handles_are_refused() {
    let session = session();
    let (stream, event) = (stream(), event());
    for number in [3_usize, 0x1000, 0x5100_0008, usize::MAX, event.addr()] {
        let none: CUstream = ptr::without_provenance_mut(number);
        assert_eq!(code!(cuStreamSynchronize(none)), CUDA_ERROR_INVALID_HANDLE, "{number:#x}");
        assert_eq!(code!(cuStreamDestroy_v2(none)), CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(session.try_launch("nothing", none, &[]), CUDA_ERROR_INVALID_HANDLE);
    }
    let none: CUevent = stream.cast();
    assert_eq!(code!(cuEventRecord(none, stream)), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuGraphLaunch(stream.cast(), stream)), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuModuleUnload(stream.cast())), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuCtxSetCurrent(stream.cast())), CUDA_ERROR_INVALID_CONTEXT);
    let name = c"none";
    let mut none = ptr::null_mut();
    let code = code!(cuModuleGetFunction(&mut none, session.module, name.as_ptr()));
    assert_eq!((code, none), (CUDA_ERROR_NOT_FOUND, ptr::null_mut()));
    assert!(detail().contains("`none`"), "{}", detail());
}

#[test]
fn a_launch_needs_function_and_stream_of_one_context() {
    let (mine, kernel) = {
        let session = session();
        let kernel = session.function("nothing");
        (session, kernel)
    };
    let other = session();
    let foreign = stream();
    mine.make_current();
    let launch = |stream| launch_with(kernel, [1; 3], [1; 3], 0, stream, &[]);
    assert_eq!(launch(foreign), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(launch(LEGACY), 0);
    other.make_current();
    assert_eq!(launch(LEGACY), CUDA_ERROR_INVALID_HANDLE);
    let event = event();
    mine.make_current();
    assert_eq!(code!(cuEventRecord(event, LEGACY)), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuStreamWaitEvent(LEGACY, event, 0)), 0, "waits go between contexts");
    other.make_current();
}

#[test]
fn invalid_launches_are_refused_by_the_call() {
    let session = session();
    let nothing = session.function("nothing");
    let try_shape = |grid, block, shared| launch_with(nothing, grid, block, shared, LEGACY, &[]);
    assert_eq!(try_shape([0, 1, 1], [1; 3], 0), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("grid.x is 0"), "{}", detail());
    assert_eq!(try_shape([1, 65_536, 1], [1; 3], 0), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(try_shape([1; 3], [1025, 1, 1], 0), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(try_shape([1; 3], [1; 3], 49_153), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("MAX_DYNAMIC_SHARED_SIZE_BYTES"), "{}", detail());
    let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(cuFuncSetAttribute(nothing, attribute, 227 << 10));
    assert_eq!(try_shape([1; 3], [1; 3], 227 << 10), 0);
    let beyond = code!(cuFuncSetAttribute(nothing, attribute, (227 << 10) + 1));
    assert_eq!(beyond, CUDA_ERROR_INVALID_VALUE);
    let bounded = session.function("bounded");
    let launch = |threads| launch_with(bounded, [1; 3], [threads, 1, 1], 0, LEGACY, &[]);
    assert_eq!((launch(64), launch(65)), (0, CUDA_ERROR_INVALID_VALUE));
    let paired = session.function("paired");
    assert_eq!(launch_with(paired, [3, 1, 1], [1; 3], 0, LEGACY, &[]), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch_with(paired, [4, 1, 1], [1; 3], 0, LEGACY, &[]), 0);
    let none = ptr::null_mut();
    let set = session.function("set");
    let code = code!(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, LEGACY, none, none));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "parameters are missing");
    ok!(cuCtxSynchronize());
}

#[test]
fn cooperative_launches_must_fit_the_device() {
    let session = session();
    let nothing = session.function("nothing");
    let mut blocks = 0;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, nothing, 256, 0));
    assert_eq!(blocks, 8);
    let launch = |grid| {
        let none = ptr::null_mut();
        code!(cuLaunchCooperativeKernel(nothing, grid, 1, 1, 256, 1, 1, 0, LEGACY, none))
    };
    assert_eq!((launch(64), launch(65)), (0, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE));
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, nothing, 32, 100 << 10));
    assert_eq!(blocks, 2, "shared memory bounds it");
}

#[test]
fn attributes_of_launches_are_kept_or_refused() {
    let session = session();
    let nothing = session.function("nothing");
    let launch = |id, words: &[u32]| {
        let mut attributes = [LaunchAttribute::new(id, words)];
        let config = LaunchConfig {
            grid: [8, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            stream: LEGACY,
            attributes: attributes.as_mut_ptr(),
            attribute_count: 1,
        };
        code!(cuLaunchKernelEx(&config, nothing, ptr::null_mut(), ptr::null_mut()))
    };
    assert_eq!(launch(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &[8, 1, 1]), 0);
    let sixteen = launch(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &[16, 1, 1]);
    assert_eq!(sixteen, CUDA_ERROR_INVALID_CLUSTER_SIZE, "{}", detail());
    assert_eq!(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &[1]), 0);
    assert_eq!(launch(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &[1]), 0);
    assert_eq!(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, &[1]), CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuCtxSynchronize());
}

/// Loads a module with an error or information log; returns the code, the module and the log.
fn load_with_log(text: &std::ffi::CStr, [buffer, size]: [CUjit_option; 2]) -> (c_int, CUmodule, String) {
    let (mut module, mut log) = (ptr::null_mut(), [0_u8; 200]);
    let mut options = [buffer, size];
    let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
    let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
    let code = code!(cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 2, options, values));
    // SAFETY: the array is alive, and the driver has written its second value.
    let length = unsafe { values.add(1).read() }.addr();
    (code, module, String::from_utf8_lossy(&log[..length]).into_owned())
}

#[test]
fn log_of_rejected_ptx_has_the_reason_and_line() {
    let _session = session();
    let load = |text| {
        let options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let (code, _, log) = load_with_log(text, options);
        (code, log)
    };
    let (code, log) = load(c".version 7.8\n.target sm_80\n.address_size 64\n.nope f;");
    assert_eq!(code, CUDA_ERROR_INVALID_PTX);
    assert!(log.contains("line 4") && log.contains("nope") && log.ends_with('\0'), "{log:?}");
    let (code, log) = load(c".version 9.9\n.target sm_80\n.address_size 64\n.entry k() { nope; }");
    assert_eq!(code, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert!(log.contains("9.9") && log.contains("9.5"), "{log:?}");
    let (code, log) = load(c".version 8.6\n.target sm_100\n.address_size 64\n.entry k() { ret; }");
    assert_eq!(code, CUDA_ERROR_INVALID_PTX);
    assert!(log.contains("sm_100") && log.contains("sm_90"), "{log:?}");
    assert_eq!(load(c"\x7fELF").0, CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_eq!(load(c".version 7.8\n.target sm_80\n.address_size 64").0, 0);
}

#[test]
fn broken_entry_fails_on_lookup() {
    let session = session();
    let text = c".version 7.8\n.target sm_80\n.address_size 64\n\
        .func f() { nope; }\n\
        .entry good(.param .u64 to) { .reg .b64 %rd; ld.param.u64 %rd, [to]; st.u32 [%rd], WARP_SZ; }\n\
        .entry opcode() { nope; }\n.entry syntax() { ret 1 2; }\n.entry calls() { call f; ret; }";
    let options = [CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES];
    let (code, module, log) = load_with_log(text, options);
    assert_eq!(code, 0, "{}", detail());
    assert!(log.starts_with("entry `opcode` is broken: ptx line 6, column 19: "), "{log:?}");
    let ask = |name: &std::ffi::CStr| {
        let mut function = ptr::null_mut();
        code!(cuModuleGetFunction(&mut function, module, name.as_ptr()))
    };
    for (name, expected) in [
        (c"opcode", "entry `opcode` is broken: ptx line 6, column 19: unknown opcode `nope`"),
        (c"syntax", "entry `syntax` is broken: ptx line 7, column 25: expected `,` or `;`, found `2`"),
        (c"calls", "line 4, column 13: in `f`, which it calls: unknown opcode `nope`"),
    ] {
        assert_eq!(ask(name), CUDA_ERROR_INVALID_PTX);
        assert!(detail().contains(expected), "{}", detail());
    }
    assert_eq!(ask(c"f"), CUDA_ERROR_NOT_FOUND);
    assert!(detail().contains("module has no entry `f`; it has `good`"), "{}", detail());
    let word = session.word(1);
    let good = function(module, "good");
    assert_eq!(launch_with(good, [1; 3], [1; 3], 0, LEGACY, &[Pointer(word)]), 0);
    let mut value = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), word, 4));
    assert_eq!(value, 32);
    ok!(cuMemFree_v2(word));
    ok!(cuModuleUnload(module));
}

#[test]
fn memory_has_bounds_and_a_capacity() {
    let session = session();
    let word = session.word(1);
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert!(free <= total && total <= 16 << 30);
    let mut address = 0;
    assert_eq!(code!(cuMemAlloc_v2(&mut address, total + 1)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(code!(cuMemAlloc_v2(&mut address, 0)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemsetD8_v2(word, 0, 5)), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("5 bytes"), "{}", detail());
    assert_eq!(code!(cuMemcpyDtoD_v2(word, word + 4, 4)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemFree_v2(word + 4)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemsetD32_v2(word + 1, 0, 0)), CUDA_ERROR_INVALID_VALUE, "misaligned");
    let in_use = memory_in_use(session.context);
    let more = get!(cuMemAlloc_v2(1000));
    assert_eq!(memory_in_use(session.context), in_use + 1000);
    let (mut base, mut size) = (0, 0);
    ok!(cuMemGetAddressRange_v2(&mut base, &mut size, more + 999));
    assert_eq!((base, size), (more, 1000));
    ok!(cuMemFree_v2(more));
    assert_eq!(memory_in_use(session.context), in_use);
    assert_eq!(code!(cuMemFree_v2(more)), CUDA_ERROR_INVALID_VALUE, "freed twice");
    ok!(cuMemFree_v2(0));
}

#[test]
fn free_during_a_pending_launch_is_found_and_faults() {
    let session = session();
    let (word, stream) = (session.word(0), stream());
    session.launch("set", stream, &[Pointer(word), Word(1)]);
    session.launch("add", stream, &[Pointer(word), Word(1)]);
    ok!(cuMemFree_v2(word));
    let findings = take_findings(session.context);
    assert_eq!(findings.len(), 1);
    let said = findings[0].to_string();
    let expected = format!(
        "cuMemFree of 4 bytes at {word:#x} while a launch of `set`, whose argument 0 points there, is \
         pending, and 1 more"
    );
    assert_eq!(said, expected);
    assert!(take_findings(session.context).is_empty(), "they were taken");
    assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn free_during_pending_copies_is_found() {
    let session = session();
    let (first, second, stream) = (session.word(1), session.word(0), stream());
    let other = session.word(0);
    ok!(cuMemcpyDtoDAsync_v2(second, first, 4, stream));
    ok!(cuMemFree_v2(first));
    let locked: *mut c_void = get!(cuMemAllocHost_v2(64));
    ok!(cuMemcpyHtoDAsync_v2(second, locked.wrapping_byte_add(8), 4, stream));
    ok!(cuMemFreeHost(locked));
    ok!(cuMemsetD8Async(other + 1, 0, 2, stream));
    ok!(cuMemFree_v2(other));
    let calls: Vec<_> = take_findings(session.context).into_iter().map(|one| one.call).collect();
    assert_eq!(calls, ["cuMemFree", "cuMemFreeHost", "cuMemFree"]);
    assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn free_after_completed_work_is_not_a_finding() {
    let session = session();
    let (word, other, stream) = (session.word(0), session.word(0), stream());
    session.launch("set", stream, &[Pointer(word), Word(1)]);
    ok!(cuMemFree_v2(other));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemFree_v2(word));
    assert_eq!(take_findings(session.context), []);
}

#[test]
fn unload_during_a_pending_launch_is_found_and_fails() {
    let session = session();
    session.launch("bump", LEGACY, &[]);
    ok!(cuModuleUnload(session.module));
    let findings = take_findings(session.context);
    assert_eq!(
        findings[0].to_string(),
        "cuModuleUnload of a module while a launch of its `bump` is pending"
    );
    assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_FAILED);
    assert!(detail().contains("unloaded"), "{}", detail());
}

#[test]
fn each_load_of_a_text_has_its_own_variables() {
    let session = session();
    let text = std::ffi::CString::new(common::KERNELS).unwrap();
    let second: CUmodule = get!(cuModuleLoadData(text.as_ptr().cast()));
    let value = |module| {
        let (mut address, mut bytes) = (0, 0);
        ok!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"variable".as_ptr()));
        assert_eq!(bytes, 4);
        peek(address)
    };
    assert_eq!((value(session.module), value(second)), (7, 7));
    assert_eq!(launch_with(function(second, "bump"), [3, 1, 1], [1; 3], 0, LEGACY, &[]), 0);
    ok!(cuCtxSynchronize());
    assert_eq!((value(session.module), value(second)), (7, 10));
}

#[test]
fn a_chosen_call_fails_on_demand() {
    let session = session();
    let mut address = 0;
    {
        let fault = Fault { function: "cuMemAlloc_v2", call: 2, code: 2, sticky: false };
        let injected = inject(fault);
        ok!(cuMemAlloc_v2(&mut address, 4));
        assert!(!injected.has_struck());
        assert_eq!(code!(cuMemAlloc_v2(&mut address, 4)), CUDA_ERROR_OUT_OF_MEMORY);
        assert!(injected.has_struck() && detail().contains("injected"), "{}", detail());
        ok!(cuMemAlloc_v2(&mut address, 4));
        // A fault affects only the thread that injects it.
        let other = inject(Fault { call: 1, ..fault });
        let handle = session.context.addr();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(handle)));
                let _address: u64 = get!(cuMemAlloc_v2(4));
            });
        });
        assert!(!other.has_struck());
    }
    ok!(cuMemAlloc_v2(&mut address, 4));
    let lost = Fault { function: "cuStreamQuery", call: 1, code: 700, sticky: true };
    let _lost = inject(lost);
    assert_eq!(code!(cuStreamQuery(LEGACY)), 700);
    assert_eq!(code!(cuMemAlloc_v2(&mut address, 4)), 700, "the context is lost");
}

#[test]
fn calls_are_counted_on_their_thread() {
    let _session = session();
    let log = warpfold_sim_driver::record_calls();
    let stream = blocking_stream();
    ok!(cuStreamSynchronize(stream));
    ok!(cuStreamSynchronize(stream));
    std::thread::scope(|scope| {
        scope.spawn(|| ok!(cuInit(0)));
    });
    assert_eq!(log.calls(), [("cuStreamCreate", 1), ("cuStreamSynchronize", 2)]);
    assert_eq!((log.count("cuStreamSynchronize"), log.count("cuInit")), (2, 0));
}

#[test]
fn null_output_pointers_are_refused() {
    let _session = session();
    assert_eq!(code!(cuMemAlloc_v2(ptr::null_mut(), 4)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuEventCreate(ptr::null_mut(), 0)), CUDA_ERROR_INVALID_VALUE);
    let value = 1_u32;
    assert_eq!(code!(cuMemcpyHtoD_v2(0, (&raw const value).cast(), 4)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuCtxGetFlags(ptr::null_mut())), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn unsupported_functions_are_at_most_four() {
    let names = warpfold_sim_driver::unsupported();
    println!("not simulated: {}", names.join(", "));
    assert!(names.len() <= 4, "{names:?}");
    assert!(warpfold_sim_driver::driver().missing().is_empty());
    let _session = session();
    // SAFETY: the function reads nothing.
    let code = unsafe { (api().cuGraphDebugDotPrint)(ptr::null_mut(), ptr::null(), 0) };
    assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
}
