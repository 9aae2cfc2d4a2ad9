//! Concurrent use of a context by threads, and watchers.

mod common;

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{LEGACY, Pointer, Session, Word, event, get, launch_with, ok, peek, stream};
use warpfold_driver::sys::*;
use warpfold_sim::{Counter, Error, Stats};
use warpfold_sim_driver::{
    Counters, NoFindings, SimLaunch, Watcher, counters, driver, set_patience, take_last_launch, unwatch,
    watch,
};

/// Creates a session in which pending work does not run without a wait, even if a test is slow.
fn session() -> Session {
    set_patience(Duration::from_secs(600));
    Session::new()
}

/// A handle as a number, which can be sent to another thread.
#[derive(Clone, Copy)]
struct Handle(usize);

impl Handle {
    fn of<T>(handle: *mut T) -> Self {
        Self(handle.addr())
    }

    fn get<T>(self) -> *mut T {
        ptr::without_provenance_mut(self.0)
    }
}

#[test]
fn kernels_of_two_threads_run_at_the_same_time() {
    let session = session();
    let (word, seen) = (session.word(0), session.word(0));
    let (waiting, setting) = (stream(), stream());
    session.launch("wait", waiting, &[Pointer(word), Pointer(seen)]);
    session.launch("set", setting, &[Pointer(word), Word(6)]);
    let (context, waiting) = (Handle::of(session.context), Handle::of(waiting));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            ok!(cuCtxSetCurrent(context.get()));
            ok!(cuStreamSynchronize(waiting.get()));
        });
        // `wait` ends after `set` has run, whichever thread starts first.
        ok!(cuStreamSynchronize(setting));
    });
    assert_eq!(peek(seen), 6);
}

#[test]
fn a_kernel_may_wait_for_the_host() {
    let session = session();
    let seen = session.word(0);
    let locked: *mut c_void = get!(cuMemAllocHost_v2(8));
    let context = Handle::of(session.context);
    // SAFETY: the word is page-locked memory of the driver, which uses it by atomic operations.
    let word = unsafe { AtomicU32::from_ptr(locked.cast()) };
    word.store(0, Ordering::Relaxed);
    session.launch("wait", LEGACY, &[Pointer(locked.addr() as u64), Pointer(seen)]);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            ok!(cuCtxSetCurrent(context.get()));
            ok!(cuCtxSynchronize());
        });
        std::thread::sleep(Duration::from_millis(20));
        word.store(9, Ordering::Relaxed);
    });
    assert_eq!(peek(seen), 9);
}

#[test]
fn many_threads_launch_and_wait() {
    let session = session();
    let (word, add) = (session.word(0), Handle::of(session.function("add")));
    let context = Handle::of(session.context);
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(context.get()));
                let own = stream();
                let stream = [own, CU_STREAM_PER_THREAD, LEGACY][thread as usize % 3];
                for _ in 0..100 {
                    let arguments = [Pointer(word), Word(1)];
                    assert_eq!(launch_with(add.get(), [1; 3], [1; 3], 0, stream, &arguments), 0);
                    if thread % 2 == 0 {
                        ok!(cuStreamSynchronize(stream));
                    }
                }
                ok!(cuStreamSynchronize(stream));
                ok!(cuStreamDestroy_v2(own));
            });
        }
    });
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 800);
}

#[test]
fn two_threads_may_wait_for_the_same_work() {
    let session = session();
    let (word, done) = (session.word(0), event());
    for _ in 0..200 {
        session.launch("add", LEGACY, &[Pointer(word), Word(1)]);
    }
    ok!(cuEventRecord(done, LEGACY));
    let (context, done) = (Handle::of(session.context), Handle::of(done));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(context.get()));
                ok!(cuEventSynchronize(done.get()));
                assert_eq!(peek(word), 200);
            });
        }
    });
}

#[test]
fn launches_are_counted_per_stream_when_they_have_run() {
    let session = session();
    let (first, second) = (stream(), stream());
    let nothing = session.function("nothing");
    assert_eq!(launch_with(nothing, [3, 1, 1], [64, 1, 1], 0, first, &[]), 0);
    assert_eq!(counters(first), Some(Counters::default()));
    ok!(cuStreamSynchronize(first));
    let one = Counters { warp_instructions: 6, thread_instructions: 192, blocks: 3, launches: 1 };
    assert_eq!(counters(first), Some(one));
    assert_eq!(launch_with(nothing, [1; 3], [1; 3], 0, first, &[]), 0);
    ok!(cuStreamSynchronize(first));
    let two = Counters { warp_instructions: 7, thread_instructions: 193, blocks: 4, launches: 2 };
    assert_eq!(counters(first), Some(two));
    assert_eq!(counters(second), Some(Counters::default()));
    assert_eq!(counters(ptr::without_provenance_mut(7)), None);
}

#[test]
fn a_launch_has_its_own_record() {
    let session = session();
    let (stream, nothing) = (stream(), session.function("nothing"));
    let _former = take_last_launch();
    assert_eq!(launch_with(nothing, [3, 1, 1], [64, 1, 1], 0, stream, &[]), 0);
    let first = take_last_launch().expect("it was accepted");
    assert!(take_last_launch().is_none(), "it was taken");
    assert_eq!(launch_with(nothing, [2, 1, 1], [32, 1, 1], 0, stream, &[]), 0);
    let second = take_last_launch().expect("it was accepted");
    assert_eq!((first.stats(), second.stats()), (None, None), "they wait");
    ok!(cuStreamSynchronize(stream));
    let blocks = [first, second].map(|record| record.stats().map(|stats| stats.blocks));
    assert_eq!(blocks, [Some(3), Some(2)]);
    assert_eq!(launch_with(nothing, [1; 3], [1; 3], 0, stream, &[]), 0);
    assert_ne!(launch_with(nothing, [0; 3], [1; 3], 0, stream, &[]), 0);
    assert!(take_last_launch().is_none(), "the last one was refused");
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Watcher for Log {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        let counter = Counter::new();
        let stats = launch.run_observed(&counter)?;
        let executed: u64 = counter.counts().executed.iter().sum();
        assert_eq!(executed, stats.warp_instructions);
        let bytes = launch.parameters().len();
        self.note(format!("launch {} with {bytes} bytes", launch.entry().name()));
        Ok(stats)
    }

    fn allocated(&self, _: u64, bytes: u64) {
        self.note(format!("allocated {bytes}"));
    }

    fn written(&self, _: u64, bytes: u64) {
        self.note(format!("written {bytes}"));
    }

    fn read(&self, _: u64, bytes: u64) {
        self.note(format!("read {bytes}"));
    }

    fn taken(&self, _: u64, bytes: u64) {
        self.note(format!("taken {bytes}"));
    }
}

#[test]
fn a_watcher_sees_work_as_it_runs() {
    let session = session();
    let log = Arc::new(Log::default());
    watch(session.context, log.clone()).expect("a context");
    let stream = stream();
    let address: u64 = get!(cuMemAlloc_v2(16));
    ok!(cuMemsetD8Async(address, 0, 16, stream));
    session.launch("set", stream, &[Pointer(address), Word(4)]);
    assert_eq!(*log.0.lock().unwrap(), ["allocated 16"], "the rest waits");
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(address), 4);
    ok!(cuMemcpyDtoD_v2(address + 8, address, 8));
    ok!(cuCtxSynchronize());
    unwatch(session.context);
    session.launch("nothing", stream, &[]);
    ok!(cuStreamSynchronize(stream));
    // A copy between device addresses is not a read by the host.
    let seen = ["allocated 16", "written 16", "launch set with 12 bytes", "read 4", "written 8"];
    assert_eq!(*log.0.lock().unwrap(), seen);
    assert_eq!(watch(ptr::without_provenance_mut(16), log), None);
}

/// Results that the host takes are reported to the watcher of the context that owns the memory,
/// whichever context is current.
#[test]
fn watcher_is_notified_of_results_taken_by_the_host() {
    let session = session();
    let log = Arc::new(Log::default());
    watch(session.context, log.clone()).expect("a context");
    let pages: *mut c_void = get!(cuMemHostAlloc(64, CU_MEMHOSTALLOC_DEVICEMAP));
    let host: u64 = get!(cuMemHostGetDevicePointer_v2(pages, 0));
    let device: u64 = get!(cuMemAlloc_v2(16));
    let other = self::session();
    let all =
        [(host, 8), (host + 60, usize::MAX), (host + 64, 8), (device + 8, 2), (device - 1, 9), (0, 1)];
    for (address, bytes) in all {
        driver().host_takes(address, bytes);
    }
    drop(other);
    session.make_current();
    let seen = ["allocated 16", "taken 8", "taken 4", "taken 2"];
    assert_eq!(*log.0.lock().unwrap(), seen, "there are 64 and 16 bytes");
    ok!(cuMemFreeHost(pages));
}

#[test]
#[should_panic(expected = "freed too early: cuMemFree of 4 bytes")]
fn guard_reports_memory_freed_too_early() {
    let session = session();
    let _guard = NoFindings::in_context(session.context);
    let word = session.word(0);
    session.launch("set", LEGACY, &[Pointer(word), Word(1)]);
    ok!(cuMemFree_v2(word));
}
