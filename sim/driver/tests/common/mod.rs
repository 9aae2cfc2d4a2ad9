//! A context of the test's own, and small kernels.
#![allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpfold_driver::Api;
use warpfold_driver::sys::*;
use warpfold_sim_driver::driver;

/// Kernels of one thread a block: `set` stores a value, `add` adds one atomically, `copy` moves a word,
/// `bump` counts a variable up, `stray` writes where nothing is, `odd` is misaligned, `trap` and
/// `assert` end themselves, `forever` never ends, `wait` spins until a word is not zero.
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

/// Gives the functions of the simulator.
pub(crate) fn api() -> &'static Api {
    driver().api()
}

/// Calls a function of the driver; the code that it returns.
macro_rules! code {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the tests give what the interface asks for, or numbers that are looked up.
        unsafe { (crate::common::api().$name)($($argument),*) }
    };
}

/// Calls a function of the driver that must succeed.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let code = crate::common::code!($name($($argument),*));
        let detail = crate::common::detail();
        assert_eq!(code, 0, "{}: {detail}", stringify!($name));
    }};
}

/// Calls a function of the driver that answers by its first argument; the answer.
macro_rules! get {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut answer = crate::common::zeroed();
        crate::common::ok!($name(&mut answer, $($argument),*));
        answer
    }};
}

pub(crate) use {code, get, ok};

/// A value to be written over.
pub(crate) fn zeroed<T: Plain>() -> T {
    T::ZERO
}

/// What driver functions answer with.
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

/// What the driver knows of the last failure on this thread.
pub(crate) fn detail() -> String {
    let failed = driver().check("a call", 999).expect_err("a code that is none of success");
    failed.to_string()
}

/// Calls of other threads can spoil a capture, as the interface says, and other tests are threads of the
/// same process: where any test captures, all hold this, and run one after the other.
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

    /// Makes the context current on the calling thread.
    pub(crate) fn make_current(&self) {
        ok!(cuCtxSetCurrent(self.context));
    }

    pub(crate) fn function(&self, name: &str) -> CUfunction {
        function(self.module, name)
    }

    /// A word of device memory that holds a value.
    pub(crate) fn word(&self, value: u32) -> CUdeviceptr {
        let address = get!(cuMemAlloc_v2(4));
        ok!(cuMemcpyHtoD_v2(address, (&raw const value).cast(), 4));
        ok!(cuCtxSynchronize());
        address
    }

    /// Launches a kernel of one thread.
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

/// An argument of a kernel.
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

/// Parameters of a node that launches one thread of a kernel with the arguments in these places.
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

/// The word at a device address, by a copy on a stream of its own, which waits for nothing else.
pub(crate) fn peek(address: CUdeviceptr) -> u32 {
    let stream: CUstream = get!(cuStreamCreate(CU_STREAM_NON_BLOCKING));
    let mut value = 0_u32;
    ok!(cuMemcpyDtoHAsync_v2((&raw mut value).cast(), address, 4, stream));
    ok!(cuStreamDestroy_v2(stream));
    value
}

/// A stream that does not wait for the legacy one.
pub(crate) fn stream() -> CUstream {
    get!(cuStreamCreate(CU_STREAM_NON_BLOCKING))
}

/// A stream that waits for the legacy one.
pub(crate) fn blocking_stream() -> CUstream {
    get!(cuStreamCreate(CU_STREAM_DEFAULT))
}

pub(crate) fn event() -> CUevent {
    get!(cuEventCreate(CU_EVENT_DEFAULT))
}

/// The legacy default stream.
pub(crate) const LEGACY: CUstream = ptr::null_mut();
