//! A context for each test, and small kernels.
#![allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpfold_driver::Api;
use warpfold_driver::sys::*;
use warpfold_sim_driver::driver;

/// Kernels for one thread per block: `set` stores a value, `add` adds one atomically, `copy` copies a
/// word, `bump` increments a variable, `stray` writes to memory that is not allocated, `odd` writes to a
/// misaligned address, `trap` and `assert` fail, `forever` never ends, and `wait` spins until a word is
/// not zero.
pub(crate) const KERNELS: &str = ".version 7.8
.target sm_80
.address_size 64
.visible .global .align 4 .u32 variable = 7;
.visible .entry nothing() { ret; }
.visible .entry set(.param .u64 to, .param .u32 value) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to]; ld.param.u32 %r0, [value]; st.u32 [%rd0], %r0; ret;
}
.visible .entry add(.param .u64 to, .param .u32 value) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to]; ld.param.u32 %r0, [value]; red.global.add.u32 [%rd0], %r0; ret;
}
.visible .entry copy(.param .u64 to, .param .u64 from) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to]; ld.param.u64 %rd1, [from]; ld.u32 %r0, [%rd1]; st.u32 [%rd0], %r0; ret;
}
.visible .entry bump() { red.global.add.u32 [variable], 1; ret; }
.visible .entry stray() { .reg .b64 %rd<1>; mov.u64 %rd0, 64; st.global.u32 [%rd0], 1; ret; }
.visible .entry odd(.param .u64 to) {
    .reg .b64 %rd<1>; ld.param.u64 %rd0, [to]; st.global.u32 [%rd0+2], 1; ret;
}
.visible .entry trap() { trap; }
.visible .entry forever() { L: bra L; }
.visible .entry wait(.param .u64 word, .param .u64 to) {
    .reg .pred %p; .reg .b32 %r<1>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [word]; ld.param.u64 %rd1, [to];
    L: ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p, %r0, 0; @%p bra L;
    st.global.u32 [%rd1], %r0; ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { .shared .align 4 .b8 s[1024]; ret; }
.visible .entry paired() .reqnctapercluster 2, 1, 1 { ret; }
.extern .func __assertfail(.param .u64 a, .param .u64 b, .param .u32 c, .param .u64 d, .param .u64 e);
.visible .entry assert() {
    .param .u64 a; .param .u64 b; .param .u32 c; .param .u64 d; .param .u64 e;
    call.uni __assertfail, (a, b, c, d, e);
}
";

pub(crate) fn api() -> &'static Api {
    driver().api()
}

macro_rules! code {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the tests pass valid arguments, or invalid handles, which the driver only looks up.
        unsafe { (crate::common::api().$name)($($argument),*) }
    };
}

macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let code = crate::common::code!($name($($argument),*));
        let detail = crate::common::detail();
        assert_eq!(code, 0, "{}: {detail}", stringify!($name));
    }};
}

/// Calls a function that must succeed and that writes its result through the first argument; returns the
/// result.
macro_rules! get {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut answer = crate::common::zeroed();
        crate::common::ok!($name(&mut answer, $($argument),*));
        answer
    }};
}

pub(crate) use {code, get, ok};

pub(crate) fn zeroed<T: Plain>() -> T {
    T::ZERO
}

pub(crate) trait Plain {
    const ZERO: Self;
}

impl<T> Plain for *mut T {
    const ZERO: Self = ptr::null_mut();
}

macro_rules! plain {
    ($($kind:ty),*) => {$(
        impl Plain for $kind {
            const ZERO: Self = 0 as $kind;
        }
    )*};
}

plain!(i32, u32, u64, usize, f32);

/// Returns the message of the last failure on this thread.
pub(crate) fn detail() -> String {
    let failed = driver().check("a call", 999).expect_err("a code that is none of success");
    failed.to_string()
}

/// Locks out the other tests of this process. They are threads of it, and calls of other threads can
/// invalidate a stream capture. So if one test of a program captures, all its tests hold this lock.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context that is current on this thread, with a module of [`KERNELS`].
pub(crate) struct Session {
    pub(crate) context: CUcontext,
    pub(crate) module: CUmodule,
    _of_this_thread: PhantomData<*const ()>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::on(0)
    }

    pub(crate) fn on(device: CUdevice) -> Self {
        ok!(cuInit(0));
        let context = get!(cuCtxCreate_v2(0, device));
        let text = CString::new(KERNELS).unwrap();
        let module = get!(cuModuleLoadData(text.as_ptr().cast()));
        Self { context, module, _of_this_thread: PhantomData }
    }

    pub(crate) fn make_current(&self) {
        ok!(cuCtxSetCurrent(self.context));
    }

    pub(crate) fn function(&self, name: &str) -> CUfunction {
        function(self.module, name)
    }

    pub(crate) fn word(&self, value: u32) -> CUdeviceptr {
        let address = get!(cuMemAlloc_v2(4));
        ok!(cuMemcpyHtoD_v2(address, (&raw const value).cast(), 4));
        ok!(cuCtxSynchronize());
        address
    }

    pub(crate) fn launch(&self, name: &str, stream: CUstream, arguments: &[Argument]) {
        assert_eq!(self.try_launch(name, stream, arguments), 0, "{}", detail());
    }

    pub(crate) fn try_launch(&self, name: &str, stream: CUstream, arguments: &[Argument]) -> c_int {
        launch_with(self.function(name), [1; 3], [1; 3], 0, stream, arguments)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let code = code!(cuCtxDestroy_v2(self.context));
        assert!(code == 0 || std::thread::panicking());
    }
}

pub(crate) fn function(module: CUmodule, name: &str) -> CUfunction {
    let name = CString::new(name).unwrap();
    get!(cuModuleGetFunction(module, name.as_ptr()))
}

#[derive(Clone, Copy)]
pub(crate) enum Argument {
    Word(u32),
    Pointer(u64),
}

pub(crate) use Argument::{Pointer, Word};

pub(crate) fn launch_with(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    arguments: &[Argument],
) -> c_int {
    let mut pointers: Vec<*mut c_void> = arguments.iter().map(Argument::place).collect();
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    let params = pointers.as_mut_ptr();
    code!(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, ptr::null_mut()))
}

/// Returns the parameters of a node that launches one thread of a kernel; `places` are pointers to its
/// arguments.
pub(crate) fn one_thread(
    function: CUfunction,
    places: &mut [*mut c_void],
) -> CUDA_KERNEL_NODE_PARAMS_v2 {
    CUDA_KERNEL_NODE_PARAMS_v2 {
        function,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        kernel_params: places.as_mut_ptr(),
        extra: ptr::null_mut(),
        kernel: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}

impl Argument {
    pub(crate) fn place(&self) -> *mut c_void {
        match self {
            Self::Word(value) => ptr::from_ref(value).cast_mut().cast(),
            Self::Pointer(value) => ptr::from_ref(value).cast_mut().cast(),
        }
    }
}

/// Reads a word of device memory by a copy on a new stream, which waits for no other work.
pub(crate) fn peek(address: CUdeviceptr) -> u32 {
    let stream: CUstream = get!(cuStreamCreate(CU_STREAM_NON_BLOCKING));
    let mut value = 0_u32;
    ok!(cuMemcpyDtoHAsync_v2((&raw mut value).cast(), address, 4, stream));
    ok!(cuStreamDestroy_v2(stream));
    value
}

/// Creates a stream that does not synchronise with the legacy one.
pub(crate) fn stream() -> CUstream {
    get!(cuStreamCreate(CU_STREAM_NON_BLOCKING))
}

/// Creates a stream that synchronises with the legacy one.
pub(crate) fn blocking_stream() -> CUstream {
    get!(cuStreamCreate(CU_STREAM_DEFAULT))
}

pub(crate) fn event() -> CUevent {
    get!(cuEventCreate(CU_EVENT_DEFAULT))
}

pub(crate) const LEGACY: CUstream = ptr::null_mut();
