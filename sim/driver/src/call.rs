//! The common path of all driver calls, which counts them, injects faults and catches panics.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::env;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpfold_driver::ForkGuard;
use warpfold_driver::sys::*;

use crate::failure::{Failure, Outcome, fail_with};
use crate::functions::is_rejection;
use crate::inject;
use crate::log;
use crate::world;

thread_local! {
    static DETAIL: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    /// Set while this thread runs a host function of a stream, which must not call the driver.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The body of a driver function. `dyn Fn` would compile each body three times, once for every method of
/// `Fn` and its supertraits.
pub(crate) trait DriverCall {
    fn run(&self) -> Outcome;
}

impl<F: Fn() -> Outcome> DriverCall for F {
    fn run(&self) -> Outcome {
        self()
    }
}

/// Runs a driver function and returns its code. A panic does not unwind into the caller.
///
/// `early` is set for functions that may be called before `cuInit`. `body` is not a type parameter, so
/// that this function is compiled once and not for each of the driver's.
pub(crate) fn enter(name: &'static str, early: bool, body: &dyn DriverCall) -> c_int {
    let _inside = world::Inside::new();
    conclude(
        name,
        catch_unwind(AssertUnwindSafe(|| {
            admit(name, early)?;
            body.run()
        })),
    )
}

/// Counts a call, and returns an error if the call is not allowed now.
fn admit(name: &'static str, early: bool) -> Outcome {
    // Functions allowed before `cuInit` use neither locks nor threads, so they work in a forked child.
    if !early || name == "cuInit" {
        check_process()?;
    }
    log::count(name);
    if IN_HOST_FUNCTION.get() {
        let detail =
            format!("{name} was called by a host function of a stream, which must not call the driver");
        return fail_with(CUDA_ERROR_NOT_PERMITTED, detail);
    }
    inject::strike(name)?;
    if early { Ok(()) } else { world::check_initialised() }
}

fn conclude(name: &'static str, carried_out: std::thread::Result<Outcome>) -> c_int {
    match carried_out.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => CUDA_SUCCESS,
        Err(failure) => {
            if let Some(detail) =
                failure.detail.as_ref().filter(|_| tells() && !is_answer(name, failure.code))
            {
                tell(name, detail);
            }
            if let Some(call) = AFTER_REFUSAL.get().filter(|_| is_refusal(failure.code)) {
                call(name, failure.detail.as_deref().unwrap_or_default());
            }
            // In destructors of a thread, the thread-local may already be destroyed.
            let _kept = DETAIL.try_with(|detail| *detail.borrow_mut() = failure.detail);
            failure.code
        }
    }
}

/// A function that is called with the driver function that refused a call, and the reason, which may be
/// empty.
pub type AfterRefusal = fn(&str, &str);

static AFTER_REFUSAL: OnceLock<AfterRefusal> = OnceLock::new();

/// Sets a function that is called when a driver function has refused code or a feature that the
/// simulator does not support. Returns `false` if there is such a function already, which is kept.
///
/// PTX that is wrong is refused too: the parser does not know every instruction, so it cannot tell a
/// wrong one from an unsupported one.
pub fn after_refusals(call: AfterRefusal) -> bool {
    AFTER_REFUSAL.set(call).is_ok()
}

fn is_refusal(code: c_int) -> bool {
    code == CUDA_ERROR_NOT_SUPPORTED || is_rejection(code)
}

/// The process that called the driver first. A forked child lacks that process's threads, and cannot
/// release locks that they held.
static PROCESS: ForkGuard = ForkGuard::new();

pub(crate) fn is_own_process() -> bool {
    PROCESS.is_same_process()
}

/// Fails in a process forked after `cuInit`, as NVIDIA's driver does: the child has no thread that runs
/// work, and a lock that another thread held stays locked.
fn check_process() -> Outcome {
    if is_own_process() {
        return Ok(());
    }
    fail_with(
        CUDA_ERROR_NOT_INITIALIZED,
        "the process was forked after cuInit; call cuInit in the child alone, or start a new program",
    )
}

/// Environment variable that makes failures print their detail on stderr, as programs only get codes.
const TELL_VARIABLE: &str = "WARPFOLD_SIM_TELL";

/// Returns whether a failure only says that an address is not the driver's, which programs ask.
fn is_answer(name: &str, code: c_int) -> bool {
    name == "cuPointerGetAttribute" && code == CUDA_ERROR_INVALID_VALUE
}

fn tells() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| env::var_os(TELL_VARIABLE).is_some_and(|value| value == "1"))
}

/// Writes a line to standard error. The line is lost if standard error is closed or full.
pub(crate) fn say(line: &str) {
    let _lost = writeln!(io::stderr(), "{line}");
}

/// Prints the detail of a failure, unless the last printed one was the same: in a lost context every
/// call fails with the same detail.
fn tell(name: &str, detail: &Arc<str>) {
    static LAST: Mutex<Option<Arc<str>>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.as_ref() != Some(detail) {
        say(&format!("warpfold-sim: {name}: {detail}"));
        *last = Some(detail.clone());
    }
}

pub(crate) fn detail() -> Option<String> {
    DETAIL.try_with(|detail| detail.borrow().as_deref().map(str::to_owned)).ok().flatten()
}

pub(crate) fn as_host_function<T>(run: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            IN_HOST_FUNCTION.set(self.0);
        }
    }
    let _reset = Reset(IN_HOST_FUNCTION.replace(true));
    run()
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let first = text.lines().next().unwrap_or_default();
    Failure::new(CUDA_ERROR_UNKNOWN, format!("the simulator's driver panicked: {first}"))
}

pub(crate) const fn is_early(name: &str) -> bool {
    let early = [
        "cuInit",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cuGetExportTable",
    ];
    let mut index = 0;
    while index < early.len() {
        if same(early[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}
