//! The undocumented tables of functions that `cuGetExportTable` returns, as far as NVIDIA's runtime uses
//! them. Every program that nvcc links without `-cudart shared` contains that runtime, as do extension
//! modules of Python such as CuPy's.
//!
//! At its start, the runtime looks up six tables by their identifiers, and from CUDA 13.4 on a seventh,
//! and fails without them. Without a profiler, programs call nine functions of these tables, observed
//! with the runtimes of CUDA 12.9, 13.0, 13.2 and 13.5. The others return an error that names table and
//! index.
//!
//! The identifiers, the indices and signatures of functions, and the input of the integrity check are
//! facts that the project ZLUDA (github:vosen/ZLUDA, `dark_api`) has published. The seventh table has 94
//! functions in driver 595.99, as a test of another simulated driver says
//! (`test_cuda_13_4_runtime_table`).

mod integrity;

pub(crate) use integrity::Identity;

use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::{mem, process, ptr};

use warpfold_driver::sys::*;

use crate::call;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, FromC, Out};
use crate::functions;
use crate::world::{self, LocalValue};

/// A function that is not simulated.
type Absent = extern "C" fn() -> c_int;

/// Names of the tables in error messages.
const NAMES: [&str; 7] = [
    "runtime",
    "thread storage",
    "tool callbacks",
    "context storage",
    "integrity",
    "context checks",
    "tool contexts",
];
const RUNTIME: usize = 0;
const THREAD_STORAGE: usize = 1;
const TOOL_CALLBACKS: usize = 2;
const CONTEXT_STORAGE: usize = 3;
const INTEGRITY: usize = 4;
const CONTEXT_CHECKS: usize = 5;
const TOOL_CONTEXTS: usize = 6;

/// The driver function that the private functions are counted as, and that messages name.
const CALLER: &str = "cuGetExportTable";

/// Refuses the call. The arguments are ignored; in C's calling convention the caller removes them.
extern "C" fn absent<const TABLE: usize, const INDEX: usize>() -> c_int {
    refuse(TABLE, INDEX)
}

fn refuse(table: usize, index: usize) -> c_int {
    call::enter(CALLER, true, &|| {
        let table = NAMES[table];
        let detail =
            format!("function {index} of the driver's private table `{table}` is not simulated");
        fail_with(CUDA_ERROR_NOT_SUPPORTED, detail)
    })
}

/// Returns an array of absent functions of a table by their indices.
macro_rules! absent {
    ($table:ident: $($index:literal)*) => { [$(absent::<$table, $index> as Absent),*] };
}

/// Tables begin with their size in bytes, as a pointer-sized word.
#[repr(C)]
struct Runtime {
    bytes: usize,
    absent_1: [Absent; 1],
    primary_context: unsafe extern "C" fn(*mut CUcontext, CUdevice) -> c_int,
    absent_3: [Absent; 10],
}

static RUNTIME_TABLE: Runtime = Runtime {
    bytes: mem::size_of::<Runtime>(),
    absent_1: absent!(RUNTIME: 1),
    primary_context,
    absent_3: absent!(RUNTIME: 3 4 5 6 7 8 9 10 11 12),
};

#[repr(C)]
struct ThreadStorage {
    bytes: usize,
    absent_1: [Absent; 3],
}

static THREAD_STORAGE_TABLE: ThreadStorage =
    ThreadStorage { bytes: mem::size_of::<ThreadStorage>(), absent_1: absent!(THREAD_STORAGE: 1 2 3) };

type Flags = unsafe extern "C" fn(*mut *const c_void, *mut usize);

#[repr(C)]
struct ToolCallbacks {
    bytes: usize,
    absent_1: [Absent; 1],
    function_flags: Flags,
    absent_3: [Absent; 3],
    event_flags: Flags,
}

static TOOL_CALLBACKS_TABLE: ToolCallbacks = ToolCallbacks {
    bytes: mem::size_of::<ToolCallbacks>(),
    absent_1: absent!(TOOL_CALLBACKS: 1),
    function_flags,
    absent_3: absent!(TOOL_CALLBACKS: 3 4 5),
    event_flags,
};

/// This table has no size.
#[repr(C)]
struct ContextStorage {
    put: unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void, Option<Destructor>) -> c_int,
    remove: unsafe extern "C" fn(CUcontext, *mut c_void) -> c_int,
    get: unsafe extern "C" fn(*mut *mut c_void, CUcontext, *mut c_void) -> c_int,
    absent_3: [Absent; 1],
}

static CONTEXT_STORAGE_TABLE: ContextStorage = ContextStorage {
    put: storage_put,
    remove: storage_remove,
    get: storage_get,
    absent_3: absent!(CONTEXT_STORAGE: 3),
};

#[repr(C)]
struct Integrity {
    bytes: usize,
    check: unsafe extern "C" fn(c_uint, u64, *mut [u8; 16]) -> c_int,
    absent_2: [Absent; 1],
}

static INTEGRITY_TABLE: Integrity = Integrity {
    bytes: mem::size_of::<Integrity>(),
    check: integrity_check,
    absent_2: absent!(INTEGRITY: 2),
};

#[repr(C)]
struct ContextChecks {
    bytes: usize,
    absent_1: [Absent; 1],
    check: unsafe extern "C" fn(CUcontext, *mut c_uint, *mut *const c_void) -> c_int,
    is_restricted: extern "C" fn() -> c_uint,
}

static CONTEXT_CHECKS_TABLE: ContextChecks = ContextChecks {
    bytes: mem::size_of::<ContextChecks>(),
    absent_1: absent!(CONTEXT_CHECKS: 1),
    check: context_check,
    is_restricted,
};

#[repr(C)]
struct ToolContexts {
    bytes: usize,
    absent_1: [Absent; 94],
}

static TOOL_CONTEXTS_TABLE: ToolContexts = ToolContexts {
    bytes: mem::size_of::<ToolContexts>(),
    absent_1: absent!(TOOL_CONTEXTS:
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
        34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93
        94),
};

/// Returns the table of an identifier. NVIDIA's libraries ask for more tables than these and work
/// without them.
fn find(id: &CUuuid) -> Option<*const c_void> {
    Some(match u128::from_be_bytes(id.bytes) {
        0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9 => (&raw const RUNTIME_TABLE).cast(),
        0x42d85a81_23f6_cb47_8298_f6e78a3aecdc => (&raw const THREAD_STORAGE_TABLE).cast(),
        0xa094798c_2e74_2e74_93f2_0800200c0a66 => (&raw const TOOL_CALLBACKS_TABLE).cast(),
        0xc693336e_1121_df11_a8c3_68f355d89593 => (&raw const CONTEXT_STORAGE_TABLE).cast(),
        0xd4082055_bde6_704b_8d34_ba123c66e1f2 => (&raw const INTEGRITY_TABLE).cast(),
        0x263e8860_7cd2_6143_92f6_bbd5006dfa7e => (&raw const CONTEXT_CHECKS_TABLE).cast(),
        0x21318c60_9714_3248_8ca6_41ff7324c8f2 => (&raw const TOOL_CONTEXTS_TABLE).cast(),
        _ => return None,
    })
}

/// Returns the handle of a device's primary context without retaining it. The handle is the same as
/// long as the process runs; the context may be inactive.
unsafe extern "C" fn primary_context(ctx: *mut CUcontext, device: CUdevice) -> c_int {
    call::enter(CALLER, false, &|| {
        // SAFETY: the caller passes null, or a pointer that is valid for writing a handle.
        let ctx = unsafe { Out::from_c(ctx) }?;
        ctx.put(functions::primary_handle(device)?.raw())
    })
}

/// A flag per function of the runtime, set while a profiler wants its calls. The runtime refuses an
/// array that is too short; this length suffices for CUDA 12.9 to 13.5.
static FUNCTION_FLAGS: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];
/// A flag per kind of event.
static EVENT_FLAGS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

unsafe extern "C" fn function_flags(first: *mut *const c_void, count: *mut usize) {
    // SAFETY: the caller passes what `put_flags` requires.
    unsafe { put_flags(first, count, &FUNCTION_FLAGS) }
}

unsafe extern "C" fn event_flags(first: *mut *const c_void, count: *mut usize) {
    // SAFETY: the caller passes what `put_flags` requires.
    unsafe { put_flags(first, count, &EVENT_FLAGS) }
}

/// # Safety
/// `first` and `count` are each null, or valid for writing.
unsafe fn put_flags(first: *mut *const c_void, count: *mut usize, flags: &'static [AtomicU32]) {
    if first.is_null() || count.is_null() {
        return;
    }
    // SAFETY: both pointers are not null, so by this function's contract they may be written.
    unsafe {
        first.write(flags.as_ptr().cast());
        count.write(flags.len());
    }
}

/// Function that the context storage calls with context, key and value when the context ends.
pub(crate) type Destructor = unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void);

/// Stores a value under a key in a context, by default the current one.
unsafe extern "C" fn storage_put(
    ctx: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Option<Destructor>,
) -> c_int {
    call::enter(CALLER, false, &|| {
        let mut state = world::lock();
        let id = functions::named(&state, ContextId::from(ctx))?;
        let value = LocalValue { value: value.expose_provenance(), destructor };
        state.context(id)?.local.insert(key.expose_provenance(), value);
        Ok(())
    })
}

unsafe extern "C" fn storage_remove(ctx: CUcontext, key: *mut c_void) -> c_int {
    call::enter(CALLER, false, &|| {
        let mut state = world::lock();
        let id = functions::named(&state, ContextId::from(ctx))?;
        let removed = state.context(id)?.local.remove(&key.addr());
        removed.map(|_| ()).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
    })
}

unsafe extern "C" fn storage_get(value: *mut *mut c_void, ctx: CUcontext, key: *mut c_void) -> c_int {
    call::enter(CALLER, false, &|| {
        // SAFETY: the caller passes null, or a pointer that is valid for writing a pointer.
        let value = unsafe { Out::from_c(value) }?;
        let mut state = world::lock();
        let id = functions::named(&state, ContextId::from(ctx))?;
        let found = state.context(id)?.local.get(&key.addr()).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        value.put(ptr::with_exposed_provenance_mut(found.value))
    })
}

/// Returns the code by which the runtime recognises its driver.
unsafe extern "C" fn integrity_check(version: c_uint, seconds: u64, code: *mut [u8; 16]) -> c_int {
    call::enter(CALLER, false, &|| {
        // SAFETY: the caller passes null, or a pointer that is valid for writing 16 bytes.
        let code = unsafe { Out::from_c(code) }?;
        let address = |pointer: *const c_void| pointer.addr() as u64;
        code.put(integrity::code(&integrity::Input {
            driver: functions::VERSION as u32,
            runtime: version,
            process: process::id(),
            thread: thread(),
            tables: [
                address((&raw const RUNTIME_TABLE).cast()),
                address((&raw const INTEGRITY_TABLE).cast()),
            ],
            function: address(INTEGRITY_TABLE.check as *const c_void),
            seconds,
            devices: functions::identities(&world::lock()),
        }))
    })
}

/// Returns the low half of the calling thread's handle.
#[cfg(unix)]
fn thread() -> u32 {
    // SAFETY: POSIX declares this function, without preconditions; its result has a pointer's size.
    unsafe extern "C" {
        safe fn pthread_self() -> usize;
    }
    pthread_self() as u32
}

/// On other systems the integrity check fails, so that static runtimes do not start.
#[cfg(not(unix))]
fn thread() -> u32 {
    0
}

/// Returns that a context has no restrictions.
unsafe extern "C" fn context_check(
    _ctx: CUcontext,
    result: *mut c_uint,
    _object: *mut *const c_void,
) -> c_int {
    call::enter(CALLER, false, &|| {
        // SAFETY: the caller passes null, or a pointer that is valid for writing a number.
        unsafe { Out::from_c(result) }?.put(0)
    })
}

extern "C" fn is_restricted() -> c_uint {
    0
}

pub(crate) fn get(table: Out<*const c_void>, id: &CUuuid) -> Outcome {
    let found = find(id);
    table.put(found.unwrap_or(ptr::null()))?;
    if found.is_some() { Ok(()) } else { fail(CUDA_ERROR_INVALID_VALUE) }
}
