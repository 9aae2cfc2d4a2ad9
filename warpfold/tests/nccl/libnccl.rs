//! A stand-in for NCCL on simulated GPUs: a shared library with the functions that `warpfold` calls.
//! Ranks of one or several processes exchange bytes through files in a folder of `TMPDIR` that their id
//! names.
//!
//! It implements NCCL's contract for nonblocking communicators: calls begin operations,
//! `ncclCommGetAsyncError` reports when they are enqueued, and `ncclCommAbort` ends them. Data moves by
//! the driver library that `WARPFOLD_LIBCUDA` names. It models neither speed nor transports nor
//! topology.
//!
//! `STAND_IN_NCCL` injects faults: `version=21300` reports this version; `init` fails to create
//! communicators after all ranks have met, and `absent` before; `begin=3` refuses the third exchange;
//! `async=3` begins it, sends nothing, and fails afterwards; `hang=3` sends its data, and receives
//! nothing.

#![allow(non_snake_case)]

use std::{
    cell::RefCell,
    env,
    ffi::{CString, c_char, c_int, c_void},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const SUCCESS: c_int = 0;
const SYSTEM_ERROR: c_int = 2;
const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;
const REMOTE_ERROR: c_int = 6;
const IN_PROGRESS: c_int = 7;

const MAGIC: u32 = 0xcafe_beef;
const INT8: c_int = 0;
const UINT8: c_int = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: c_int,
    blocking: c_int,
}

/// Returns the number of an injected fault in the environment, or 1 if it has none.
fn asked(what: &str) -> Option<u64> {
    let all = env::var("STAND_IN_NCCL").unwrap_or_default();
    all.split(',').find_map(|one| match one.split_once('=') {
        Some((name, number)) => (name == what).then(|| number.parse().unwrap()),
        None => (one == what).then_some(1),
    })
}

struct Driver {
    current: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    enter: unsafe extern "C" fn(*mut c_void) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void) -> c_int,
    fetch: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    put: unsafe extern "C" fn(u64, *const c_void, usize, *mut c_void) -> c_int,
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let path = CString::new(env::var("WARPFOLD_LIBCUDA").unwrap()).unwrap();
        // SAFETY: the library is the driver that the program has opened.
        let library = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!library.is_null(), "no driver at {path:?}");
        // SAFETY: the library is a CUDA driver, whose functions have these types.
        unsafe {
            let find = |name: &std::ffi::CStr| {
                let found = dlsym(library, name.as_ptr());
                assert!(!found.is_null(), "no {name:?}");
                found
            };
            Driver {
                current: std::mem::transmute(find(c"cuCtxGetCurrent")),
                enter: std::mem::transmute(find(c"cuCtxSetCurrent")),
                finish: std::mem::transmute(find(c"cuStreamSynchronize")),
                fetch: std::mem::transmute(find(c"cuMemcpyDtoH_v2")),
                put: std::mem::transmute(find(c"cuMemcpyHtoDAsync_v2")),
            }
        }
    })
}

/// The target of an `ncclComm_t` handle.
struct Communicator {
    rank: u32,
    size: u32,
    folder: PathBuf,
    context: usize,
    state: Arc<State>,
    worker: Option<JoinHandle<()>>,
    passed: u64,
}

#[derive(Default)]
struct State {
    pending: AtomicU64,
    failed: AtomicI32,
    aborted: AtomicBool,
}

impl State {
    fn code(&self) -> c_int {
        match (self.failed.load(SeqCst), self.pending.load(SeqCst)) {
            (SUCCESS, 0) => SUCCESS,
            (SUCCESS, _) => IN_PROGRESS,
            (failed, _) => failed,
        }
    }
}

enum Call {
    Init(*mut Communicator),
    Pass { of: *mut Communicator, from: u64, to: u64, bytes: usize, stream: *mut c_void },
}

#[derive(Default)]
struct Group {
    depth: u32,
    calls: Vec<Call>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

fn publish(folder: &Path, name: &str, bytes: &[u8]) {
    let part = folder.join(format!("{name}.part"));
    fs::write(&part, bytes).unwrap();
    fs::rename(&part, folder.join(name)).unwrap();
}

/// Returns the concatenated files of all ranks once they exist, or `None` after an abort.
fn collect(folder: &Path, what: &str, size: u32, state: &State) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for rank in 0..size {
        all.extend(loop {
            if state.aborted.load(SeqCst) {
                return None;
            }
            match fs::read(folder.join(format!("{what}.{rank}"))) {
                Ok(bytes) => break bytes,
                Err(_) => thread::sleep(Duration::from_micros(200)),
            }
        });
    }
    Some(all)
}

impl Communicator {
    fn begin(&mut self, work: impl FnOnce(&State) -> c_int + Send + 'static) {
        let (before, state) = (self.worker.take(), self.state.clone());
        state.pending.fetch_add(1, SeqCst);
        self.worker = Some(thread::spawn(move || {
            if let Some(before) = before {
                before.join().unwrap();
            }
            let code = work(&state);
            let _ = state.failed.compare_exchange(SUCCESS, code, SeqCst, SeqCst);
            state.pending.fetch_sub(1, SeqCst);
        }));
    }

    fn meet(&mut self) {
        if asked("absent").is_some() {
            return self.begin(|_| SYSTEM_ERROR);
        }
        publish(&self.folder, &format!("init.{}", self.rank), &[]);
        let (folder, size) = (self.folder.clone(), self.size);
        self.begin(move |state| match collect(&folder, "init", size, state) {
            _ if asked("init").is_some() => SYSTEM_ERROR,
            Some(_) => SUCCESS,
            None => REMOTE_ERROR,
        });
    }

    fn pass(&mut self, from: u64, to: u64, bytes: usize, stream: *mut c_void) -> c_int {
        self.passed += 1;
        let number = self.passed;
        if asked("begin") == Some(number) {
            return SYSTEM_ERROR;
        }
        let mut mine = vec![0_u8; bytes];
        // SAFETY: the stream and the memory are the caller's, by NCCL's contract; the previous context
        // is restored.
        let fetched = unsafe {
            let mut before = std::ptr::null_mut();
            (driver().current)(&raw mut before);
            (driver().enter)(self.context as *mut c_void);
            let fetched = match (driver().finish)(stream) {
                SUCCESS => (driver().fetch)(mine.as_mut_ptr().cast(), from, bytes),
                failed => failed,
            };
            (driver().enter)(before);
            fetched
        };
        if fetched != SUCCESS {
            return 1;
        }
        if asked("async") != Some(number) {
            publish(&self.folder, &format!("{number}.{}", self.rank), &mine);
        }
        let (folder, size, context) = (self.folder.clone(), self.size, self.context);
        let stream = stream as usize;
        self.begin(move |state| {
            while asked("hang") == Some(number) && !state.aborted.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if asked("async") == Some(number) {
                return REMOTE_ERROR;
            }
            let Some(all) = collect(&folder, &number.to_string(), size, state) else {
                return REMOTE_ERROR;
            };
            assert_eq!(all.len(), size as usize * bytes, "each rank passes as many bytes");
            // SAFETY: there is room for the bytes of all ranks, which the driver has taken when this
            // returns; the stream stays alive while work is enqueued on it.
            let put = unsafe {
                (driver().enter)(context as *mut c_void);
                (driver().put)(to, all.as_ptr().cast(), all.len(), stream as *mut c_void)
            };
            if put == SUCCESS { SUCCESS } else { 1 }
        });
        SUCCESS
    }

    fn end(mut self) {
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
        LIVE.fetch_sub(1, SeqCst);
    }
}

static LIVE: AtomicU64 = AtomicU64::new(0);

fn in_group(call: Call) -> c_int {
    GROUP.with_borrow_mut(|group| group.calls.push(call));
    if GROUP.with_borrow(|group| group.depth) == 0 { run() } else { IN_PROGRESS }
}

fn run() -> c_int {
    let calls = GROUP.with_borrow_mut(|group| std::mem::take(&mut group.calls));
    let mut worst = SUCCESS;
    for call in calls {
        // SAFETY: the handles point to live communicators, each used by one thread at a time.
        let code = unsafe {
            match call {
                Call::Init(of) => {
                    (*of).meet();
                    SUCCESS
                }
                Call::Pass { of, from, to, bytes, stream } => (*of).pass(from, to, bytes, stream),
            }
        };
        worst = if worst == SUCCESS { code } else { worst };
    }
    if worst == SUCCESS { IN_PROGRESS } else { worst }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer is valid for writes.
    unsafe { *version = asked("version").unwrap_or(22_803) as c_int };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    match code {
        SUCCESS => c"no error",
        1 => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"unknown result code",
    }
    .as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_of: *mut c_void) -> *const c_char {
    c"a stand-in for NCCL was told to fail".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    // An earlier process may have had the same id.
    let folder = (0..)
        .map(|count| env::temp_dir().join(format!("stand-in-nccl-{}-{count}", std::process::id())))
        .find(|folder| fs::create_dir(folder).is_ok())
        .unwrap();
    let text = folder.to_str().unwrap().as_bytes();
    let mut bytes = [0; 128];
    bytes[..text.len()].copy_from_slice(text);
    // SAFETY: the caller's pointer is valid for writes.
    unsafe { *id = UniqueId(bytes) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    made: *mut *mut c_void,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: *const Config,
) -> c_int {
    // SAFETY: the caller passes a configuration of version 2.14 or later.
    let config = unsafe { &*config };
    if config.magic != MAGIC || config.version < 21_400 || config.size < size_of::<Config>() {
        return INVALID_ARGUMENT;
    }
    // A blocking communicator would have to wait here.
    if config.blocking != 0 || !(0..size).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    let mut context = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writes.
    if unsafe { (driver().current)(&raw mut context) } != SUCCESS || context.is_null() {
        return INVALID_USAGE;
    }
    let end = id.0.iter().position(|byte| *byte == 0).unwrap();
    let communicator = Box::new(Communicator {
        rank: rank as u32,
        size: size as u32,
        folder: PathBuf::from(std::str::from_utf8(&id.0[..end]).unwrap()),
        context: context as usize,
        state: Arc::default(),
        worker: None,
        passed: 0,
    });
    // The communicator is initialised at the end of the group.
    LIVE.fetch_add(1, SeqCst);
    let raw = Box::into_raw(communicator);
    // SAFETY: the caller's pointer is valid for writes.
    unsafe { *made = raw.cast() };
    in_group(Call::Init(raw))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(of: *mut Communicator, code: *mut c_int) -> c_int {
    // SAFETY: the handle is alive, and the caller's pointer is valid for writes.
    unsafe { *code = (*of).state.code() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    element: c_int,
    of: *mut Communicator,
    stream: *mut c_void,
) -> c_int {
    if element != INT8 && element != UINT8 {
        return INVALID_ARGUMENT;
    }
    let (from, to) = (from as u64, to as u64);
    in_group(Call::Pass { of, from, to, bytes: count, stream })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    let depth = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        group.depth
    });
    if depth == 0 { run() } else { SUCCESS }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(of: *mut Communicator) -> c_int {
    // SAFETY: the handle is alive, and is not used afterwards.
    unsafe { Box::from_raw(of) }.end();
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(of: *mut Communicator) -> c_int {
    // SAFETY: the handle is alive, and is not used afterwards.
    let communicator = unsafe { Box::from_raw(of) };
    communicator.state.aborted.store(true, SeqCst);
    communicator.end();
    SUCCESS
}

/// Returns the number of live communicators of this process; NCCL has no such function.
#[unsafe(no_mangle)]
pub extern "C" fn standInLive() -> u64 {
    LIVE.load(SeqCst)
}
