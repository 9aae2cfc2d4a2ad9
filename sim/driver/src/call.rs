//! The common path of every call: the log, injected faults, panics.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::env;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpfold_driver::ForkGuard;
use warpfold_driver::sys::*;

use crate::failure::{Failure, Outcome, fail_with};
use crate::inject;
use crate::log;
use crate::world;

thread_local! {
    /// Detail of the last call that failed on this thread.
    static DETAIL: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    /// Set while this thread runs a host function of a stream, which must not call the driver.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a driver function and returns its code. Panics do not unwind out of it.
///
/// `early` functions may be called before `cuInit`.
///
/// This is instantiated for each function; the common parts are in `admit` and `conclude`.
pub(crate) fn enter(name: &'static str, early: bool, body: impl FnOnce() -> Outcome) -> c_int {
    let _inside = world::Inside::new();
    conclude(
        name,
        catch_unwind(AssertUnwindSafe(|| {
            admit(name, early)?;
            body()
        })),
    )
}

/// Counts a call, and returns an error if it is not allowed now.
fn admit(name: &'static str, early: bool) -> Outcome {
    // Texts and addresses of functions need neither locks nor threads.
    if !early || name == "cuInit" {
        check_process()?;
    }
    log::count(name);
    if IN_HOST_FUNCTION.get() {
        let detail = format!("{name} was called by a host function of a stream");
        return fail_with(CUDA_ERROR_NOT_PERMITTED, detail);
    }
    inject::strike(name)?;
    if early { Ok(()) } else { world::check_initialised() }
}

fn conclude(name: &'static str, carried_out: std::thread::Result<Outcome>) -> c_int {
    match carried_out.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => CUDA_SUCCESS,
        Err(failure) => {
            if let Some(detail) = failure.detail.as_ref().filter(|_| tells()) {
                tell(name, detail);
            }
            // The thread-local is gone when the thread ends.
            let _kept = DETAIL.try_with(|detail| *detail.borrow_mut() = failure.detail);
            failure.code
        }
    }
}

/// The process that called the driver first, which has its threads and can unlock its locks.
static PROCESS: ForkGuard = ForkGuard::new();

pub(crate) fn is_own_process() -> bool {
    PROCESS.is_same_process()
}

/// Fails in a forked child of the process that called the driver first, as NVIDIA's driver does: the
/// child has no thread that runs work, and a lock that another thread held stays locked.
fn check_process() -> Outcome {
    if is_own_process() {
        return Ok(());
    }
    fail_with(
        CUDA_ERROR_NOT_INITIALIZED,
        "the process was forked after cuInit; call cuInit in the child alone, or start a new program",
    )
}

/// Environment variable that prints each failure on stderr; the program itself only sees codes.
const TELL_VARIABLE: &str = "WARPFOLD_SIM_TELL";

fn tells() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| env::var_os(TELL_VARIABLE).is_some_and(|value| value == "1"))
}

/// Writes a line to standard error; it is lost if that is closed or full.
pub(crate) fn say(line: &str) {
    let _lost = writeln!(io::stderr(), "{line}");
}

/// Prints the detail of a failure unless it was printed last: in a lost context every call fails with
/// the same one.
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

/// Runs a function of the program, which must not call the driver.
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

/// Returns the failure for a panic, which is a bug of the simulator.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let first = text.lines().next().unwrap_or_default();
    Failure::new(CUDA_ERROR_UNKNOWN, format!("the simulator's driver panicked: {first}"))
}

pub(crate) const fn is_early(name: &str) -> bool {
    let early =
        ["cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress_v2"];
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
