//! Streams run their work only when something waits for it; until then, results are not visible.

mod common;

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{LEGACY, Pointer, Session, Word, blocking_stream, code, event, get, ok, peek, stream};
use warpfold_driver::sys::*;
use warpfold_sim_driver::{LATE_VARIABLE, run_late, set_patience};

/// Creates a session in which pending work does not run without a wait, even if a test is slow.
fn session() -> Session {
    set_patience(Duration::from_secs(600));
    Session::new()
}

#[test]
fn a_launch_runs_when_its_stream_is_waited_for() {
    let session = session();
    let (word, stream) = (session.word(1), stream());
    session.launch("set", stream, &[Pointer(word), Word(2)]);
    assert_eq!(peek(word), 1, "nobody waited");
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(word), 2);
}

#[test]
fn waiting_for_a_stream_does_not_run_others() {
    let session = session();
    let words = [session.word(0), session.word(0)];
    let streams = [stream(), stream()];
    for (word, stream) in words.into_iter().zip(streams) {
        session.launch("set", stream, &[Pointer(word), Word(1)]);
    }
    ok!(cuStreamSynchronize(streams[1]));
    assert_eq!(words.map(peek), [0, 1]);
    ok!(cuCtxSynchronize());
    assert_eq!(words.map(peek), [1, 1]);
}

#[test]
fn work_of_a_stream_runs_in_its_order() {
    let session = session();
    let (word, stream) = (session.word(0), stream());
    session.launch("set", stream, &[Pointer(word), Word(5)]);
    ok!(cuMemsetD32Async(word, 40, 1, stream));
    session.launch("add", stream, &[Pointer(word), Word(2)]);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(word), 42);
}

/// CUDA promises completion only for memory that the host can access.
#[test]
fn a_memset_of_host_memory_is_done_when_the_call_returns() {
    let session = session();
    let word = session.word(1);
    ok!(cuMemsetD32_v2(word, 2, 1));
    assert_eq!(peek(word), 1, "nobody waited");
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 2);
    let managed: CUdeviceptr = get!(cuMemAllocManaged(4, CU_MEM_ATTACH_GLOBAL));
    let mut locked = ptr::null_mut();
    ok!(cuMemHostAlloc(&mut locked, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    for address in [managed, locked.addr() as CUdeviceptr] {
        ok!(cuMemsetD32_v2(address, 3, 1));
        // SAFETY: the host can access four bytes at the address, and nothing writes them.
        assert_eq!(unsafe { ptr::with_exposed_provenance::<u32>(address as usize).read() }, 3);
    }
}

#[test]
fn memsets_of_rows_leave_the_padding() {
    let session = session();
    let (pitch, to) = (8, get!(cuMemAlloc_v2(24)));
    ok!(cuMemsetD8_v2(to, 0xff, 24));
    ok!(cuMemsetD2D8_v2(to, pitch, 1, 3, 3));
    ok!(cuMemsetD2D16Async(to, pitch, 0x0302, 1, 2, ptr::null_mut()));
    ok!(cuMemsetD2D32_v2(to + 16, pitch, 0x0706_0504, 1, 1));
    let mut bytes = [0_u8; 24];
    ok!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), to, 24));
    let rows = [[2, 3, 1, 255], [2, 3, 1, 255], [4, 5, 6, 7]].map(|row| [row, [255; 4]]);
    assert_eq!(bytes, *rows.as_flattened().as_flattened());
    // The last row ends with the allocation; one more row, or rows that overlap, do not fit.
    ok!(cuMemsetD2D8_v2(to, pitch, 1, 8, 3));
    assert_eq!(code!(cuMemsetD2D8_v2(to, pitch, 1, 1, 4)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemsetD2D8_v2(to, 2, 1, 3, 2)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemsetD2D32_v2(to, 6, 1, 1, 2)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemFree_v2(to));
    drop(session);
}

/// Functions that `cuGetProcAddress` returns for flag 2 use the thread's default stream as stream 0.
#[test]
fn functions_of_per_thread_streams_use_the_stream_of_the_thread() {
    let session = session();
    let find = |name: &std::ffi::CStr, flags| {
        let mut function: *mut c_void = ptr::null_mut();
        ok!(cuGetProcAddress_v2(name.as_ptr(), &mut function, 13_000, flags, ptr::null_mut()));
        function
    };
    type GetId = unsafe extern "C" fn(CUstream, *mut c_ulonglong) -> c_int;
    let id = |flags| {
        let mut id = 0;
        // SAFETY: the function has this type, and writes a number.
        unsafe {
            let function = std::mem::transmute::<*mut c_void, GetId>(find(c"cuStreamGetId", flags));
            assert_eq!(function(ptr::null_mut(), &mut id), 0);
        }
        id
    };
    let [legacy, of_thread] = [1, 2].map(|stream| {
        let mut id = 0;
        ok!(cuStreamGetId(ptr::without_provenance_mut(stream), &mut id));
        id
    });
    assert_ne!(legacy, of_thread);
    assert_eq!([0, 1, 2].map(id), [legacy, legacy, of_thread]);
    // A copy without a stream runs in the thread's stream, and leaves work of the legacy one.
    let (word, other, free) = (session.word(1), session.word(2), stream());
    ok!(cuMemsetD32Async(other, 3, 1, free));
    type Copy = unsafe extern "C" fn(*mut c_void, CUdeviceptr, usize) -> c_int;
    let mut value = 0_u32;
    // SAFETY: the function has this type, and writes four bytes.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, Copy>(find(c"cuMemcpyDtoH", 2));
        assert_eq!(function((&raw mut value).cast(), word, 4), 0);
    }
    assert_eq!((value, peek(other)), (1, 2));
    let mut function: *mut c_void = ptr::null_mut();
    let code = code!(cuGetProcAddress(c"cuInit".as_ptr(), &mut function, 11_030, 3));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn streams_wait_for_events_and_for_nothing_else() {
    let session = session();
    for waits in [false, true] {
        let (from, to) = (session.word(7), session.word(0));
        let (first, second, event) = (stream(), stream(), event());
        session.launch("set", first, &[Pointer(from), Word(9)]);
        ok!(cuEventRecord(event, first));
        if waits {
            ok!(cuStreamWaitEvent(second, event, 0));
        }
        session.launch("copy", second, &[Pointer(to), Pointer(from)]);
        ok!(cuStreamSynchronize(second));
        assert_eq!(peek(to), if waits { 9 } else { 7 }, "with a wait: {waits}");
    }
}

#[test]
fn wait_uses_latest_record_at_call_time() {
    let session = session();
    let (word, copy) = (session.word(0), session.word(0));
    let (first, second, event) = (stream(), stream(), event());
    session.launch("set", first, &[Pointer(word), Word(1)]);
    ok!(cuEventRecord(event, first));
    ok!(cuStreamWaitEvent(second, event, 0));
    session.launch("set", first, &[Pointer(word), Word(2)]);
    ok!(cuEventRecord(event, first));
    session.launch("copy", second, &[Pointer(copy), Pointer(word)]);
    ok!(cuStreamSynchronize(second));
    assert_eq!(peek(copy), 1, "recorded again behind the wait");
    ok!(cuEventSynchronize(event));
    assert_eq!(peek(word), 2);
}

#[test]
fn second_query_runs_pending_work() {
    let session = session();
    let (word, stream, event) = (session.word(0), stream(), event());
    assert_eq!(code!(cuEventQuery(event)), 0, "never recorded");
    session.launch("set", stream, &[Pointer(word), Word(1)]);
    ok!(cuEventRecord(event, stream));
    for (left, now) in [(0, 0), (0, 1)] {
        assert_eq!(peek(word), left);
        assert_eq!(code!(cuEventQuery(event)), CUDA_ERROR_NOT_READY);
        assert_eq!(peek(word), now);
    }
    assert_eq!(code!(cuEventQuery(event)), 0);
    session.launch("set", stream, &[Pointer(word), Word(2)]);
    for now in [1, 2] {
        assert_eq!(code!(cuStreamQuery(stream)), CUDA_ERROR_NOT_READY);
        assert_eq!(peek(word), now);
    }
    assert_eq!(code!(cuStreamQuery(stream)), 0);
}

/// Queries a stream until its work has run, and returns the number of queries that reported it as
/// pending.
fn queries(stream: CUstream) -> u32 {
    let mut queries = 0;
    while code!(cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY {
        queries += 1;
    }
    queries
}

#[test]
fn late_work_runs_only_after_many_queries() {
    let session = session();
    let (word, stream, event) = (session.word(0), stream(), event());
    let late = run_late();
    session.launch("set", stream, &[Pointer(word), Word(1)]);
    ok!(cuEventRecord(event, stream));
    let mut time = 0.0;
    for _ in 0..5 {
        assert_eq!(code!(cuEventQuery(event)), CUDA_ERROR_NOT_READY);
        assert_eq!(code!(cuEventElapsedTime(&mut time, event, event)), CUDA_ERROR_NOT_READY);
        assert_eq!(code!(cuStreamQuery(stream)), CUDA_ERROR_NOT_READY);
    }
    assert_eq!(peek(word), 0);
    assert!(queries(stream) > 10);
    assert_eq!(peek(word), 1);
    drop(late);
    session.launch("set", stream, &[Pointer(word), Word(2)]);
    assert_eq!((queries(stream), peek(word)), (2, 2));
}

/// Independent work runs newest first; dependent work keeps its order.
#[test]
fn late_work_keeps_only_the_guaranteed_order() {
    let session = session();
    let _late = run_late();
    for waits in [false, true] {
        let (word, streams) = (session.word(0), [stream(), stream()]);
        session.launch("set", streams[0], &[Pointer(word), Word(1)]);
        session.launch("add", streams[0], &[Pointer(word), Word(10)]);
        let first = event();
        ok!(cuEventRecord(first, streams[0]));
        if waits {
            ok!(cuStreamWaitEvent(streams[1], first, 0));
        }
        session.launch("set", streams[1], &[Pointer(word), Word(2)]);
        session.launch("add", streams[1], &[Pointer(word), Word(20)]);
        ok!(cuCtxSynchronize());
        assert_eq!(peek(word), if waits { 22 } else { 11 }, "with a wait: {waits}");
    }
}

/// Each case is a process of its own, because the environment is read once.
#[test]
fn environment_variable_enables_late_work() {
    const INNER: &str = "LATE_INNER";
    if std::env::var_os(INNER).is_some() {
        let session = session();
        session.launch("nothing", LEGACY, &[]);
        println!("\n{} queries", queries(LEGACY));
        return;
    }
    let wrong = format!("{LATE_VARIABLE} is `no\\n`; allowed are 0 and 1");
    for (late, what) in
        [("", "\n2 queries"), ("0", "\n2 queries"), ("1", "\n33 queries"), ("no\n", &*wrong)]
    {
        let mut test = std::process::Command::new(std::env::current_exe().expect("this program"));
        test.args(["--exact", "environment_variable_enables_late_work", "--nocapture"]);
        let output = test.env(INNER, "1").env(LATE_VARIABLE, late).output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains(what), "{late:?}: {said}");
    }
}

#[test]
fn legacy_and_blocking_streams_wait_for_each_other() {
    let session = session();
    let (word, other) = (session.word(0), session.word(0));
    let (blocking, free) = (blocking_stream(), stream());
    session.launch("set", blocking, &[Pointer(word), Word(1)]);
    session.launch("set", free, &[Pointer(other), Word(1)]);
    session.launch("add", LEGACY, &[Pointer(word), Word(10)]);
    session.launch("add", blocking, &[Pointer(word), Word(100)]);
    let mut value = 0_u32;
    // A blocking copy runs on the legacy stream, after the work of all blocking streams.
    ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), word, 4));
    assert_eq!(value, 111);
    assert_eq!(peek(other), 0, "a stream that does not block waits for itself");
    session.launch("set", CU_STREAM_PER_THREAD, &[Pointer(word), Word(3)]);
    session.launch("add", CU_STREAM_LEGACY, &[Pointer(word), Word(4)]);
    ok!(cuStreamSynchronize(CU_STREAM_LEGACY));
    assert_eq!(peek(word), 7);
}

#[test]
fn a_blocking_stream_waits_for_the_legacy_one() {
    let session = session();
    let (word, copy, blocking) = (session.word(0), session.word(0), blocking_stream());
    session.launch("set", LEGACY, &[Pointer(word), Word(1)]);
    session.launch("copy", blocking, &[Pointer(copy), Pointer(word)]);
    ok!(cuStreamSynchronize(blocking));
    assert_eq!(peek(copy), 1);
}

#[test]
fn pageable_sources_are_staged_and_page_locked_ones_read_later() {
    let session = session();
    let (first, second, stream) = (session.word(0), session.word(0), stream());
    let mut pageable = 1_u32;
    let locked: *mut c_void = get!(cuMemAllocHost_v2(4));
    let locked = locked.cast::<u32>();
    // SAFETY: no work that uses the four bytes is running.
    unsafe { locked.write(1) };
    ok!(cuMemcpyHtoDAsync_v2(first, (&raw const pageable).cast(), 4, stream));
    ok!(cuMemcpyHtoDAsync_v2(second, locked.cast(), 4, stream));
    pageable += 1;
    // SAFETY: the pending copy has not started. On a GPU this write would be a race.
    unsafe { locked.write(2) };
    assert_eq!([first, second].map(peek), [0, 0]);
    ok!(cuStreamSynchronize(stream));
    assert_eq!([first, second].map(peek), [1, 2]);
    assert_eq!(pageable, 2);
    ok!(cuMemFreeHost(locked.cast()));
}

#[test]
fn blocking_upload_returns_before_the_copy_has_run() {
    let session = session();
    let (word, copy, free) = (session.word(0), session.word(0), stream());
    let value = 5_u32;
    ok!(cuMemcpyHtoD_v2(word, (&raw const value).cast(), 4));
    session.launch("copy", free, &[Pointer(copy), Pointer(word)]);
    ok!(cuStreamSynchronize(free));
    assert_eq!(peek(copy), 0, "a stream that does not block must wait for the upload");
    ok!(cuStreamSynchronize(LEGACY));
    assert_eq!(peek(word), 5);
}

#[test]
fn page_locked_downloads_complete_at_a_wait() {
    let session = session();
    let (word, stream) = (session.word(6), stream());
    let locked: *mut c_void = get!(cuMemHostAlloc(8, 0));
    let seen = || {
        // SAFETY: nothing writes the word now; the read is volatile, as in a host that polls.
        unsafe { locked.cast::<u32>().read_volatile() }
    };
    ok!(cuMemcpyDtoHAsync_v2(locked, word, 4, stream));
    assert_ne!(seen(), 6);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(seen(), 6);
    // A blocking copy waits even if its destination is page-locked memory.
    ok!(cuMemsetD32Async(word, 8, 1, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemcpyDtoH_v2(locked, word, 4));
    assert_eq!(seen(), 8);
}

#[test]
fn kernels_write_mapped_memory_at_the_host_address() {
    let session = session();
    let locked: *mut c_void = get!(cuMemAllocHost_v2(4));
    let device = get!(cuMemHostGetDevicePointer_v2(locked, 0));
    assert_eq!(device, locked.addr() as u64);
    session.launch("set", LEGACY, &[Pointer(device), Word(3)]);
    ok!(cuStreamSynchronize(LEGACY));
    // SAFETY: the kernel, which wrote the word, is done.
    assert_eq!(unsafe { locked.cast::<u32>().read() }, 3);

    let mut own = vec![0_u32; 100];
    let middle = &raw mut own[33];
    ok!(cuMemHostRegister_v2(middle.cast(), 4, CU_MEMHOSTREGISTER_DEVICEMAP));
    session.launch("set", LEGACY, &[Pointer(middle.addr() as u64), Word(4)]);
    ok!(cuStreamSynchronize(LEGACY));
    ok!(cuMemHostUnregister(middle.cast()));
    assert_eq!((own[32], own[33], own[34]), (0, 4, 0));
    assert_eq!(code!(cuMemHostUnregister(middle.cast())), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/// The sum of the values that host functions have added.
static CALLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn remember(data: *mut c_void) {
    CALLED.fetch_add(data.addr() as u32, Ordering::Relaxed);
    // A host function must not call the driver.
    CALLED.fetch_add(code!(cuCtxSynchronize()) as u32, Ordering::Relaxed);
}

#[test]
fn host_functions_run_in_the_order_of_the_stream() {
    let session = session();
    let stream = stream();
    session.launch("nothing", stream, &[]);
    ok!(cuLaunchHostFunc(stream, Some(remember), ptr::without_provenance_mut(5)));
    assert_eq!(CALLED.load(Ordering::Relaxed), 0);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(CALLED.load(Ordering::Relaxed), 5 + CUDA_ERROR_NOT_PERMITTED as u32);
}

#[test]
fn destroying_streams_and_events_does_not_run_or_drop_their_work() {
    let session = session();
    let (word, blocking, event) = (session.word(0), blocking_stream(), event());
    session.launch("set", blocking, &[Pointer(word), Word(1)]);
    ok!(cuEventRecord(event, blocking));
    ok!(cuEventDestroy_v2(event));
    ok!(cuStreamDestroy_v2(blocking));
    assert_eq!(peek(word), 0);
    assert_eq!(code!(cuStreamSynchronize(blocking)), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuEventQuery(event)), CUDA_ERROR_INVALID_HANDLE);
    ok!(cuStreamSynchronize(LEGACY));
    assert_eq!(peek(word), 1, "the legacy stream waits for a stream that was destroyed");
}

#[test]
fn elapsed_time_asks_for_two_records_that_are_done() {
    let _session = session();
    let (stream, start, end) = (stream(), event(), event());
    let mut time = -1.0;
    assert_eq!(code!(cuEventElapsedTime(&mut time, start, end)), CUDA_ERROR_INVALID_HANDLE);
    ok!(cuEventRecord(start, stream));
    ok!(cuEventRecord(end, stream));
    assert_eq!(code!(cuEventElapsedTime(&mut time, start, end)), CUDA_ERROR_NOT_READY);
    ok!(cuEventElapsedTime(&mut time, start, end));
    assert!((0.0..60_000.0).contains(&time), "{time} ms");
    let mut back = 1.0;
    ok!(cuEventElapsedTime_v2(&mut back, end, start));
    assert_eq!(back, -time);
}
