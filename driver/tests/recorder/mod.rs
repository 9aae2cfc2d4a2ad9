//! A driver whose functions record their arguments and return a code that the test sets.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::OnceLock;

use warpfold_driver::sys::*;
use warpfold_driver::{Driver, Provider, for_each_function};

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static CODE: Cell<c_int> = const { Cell::new(CUDA_SUCCESS) };
    static DETAIL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sets the code that driver functions return on this thread from now on, and the detail of errors.
pub(crate) fn answer(code: c_int, detail: Option<&str>) {
    CODE.set(code);
    DETAIL.set(detail.map(str::to_owned));
}

/// Takes the recorded calls of this thread, as `name(argument, …)`. A pointer that is not a small
/// number, such as one to a local variable, is shown as `&`.
#[allow(dead_code, reason = "some tests look at codes only")]
pub(crate) fn calls() -> Vec<String> {
    CALLS.take()
}

/// Returns the recording driver, which lacks `cuCtxGetId`.
pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&Driver> = OnceLock::new();
    // SAFETY: the functions are generated from `for_each_function`, so they have the driver's types.
    // Only `version` dereferences a pointer, as the driver's function does.
    DRIVER.get_or_init(|| unsafe { Driver::provided(&Recorder) }.unwrap())
}

struct Recorder;

impl Provider for Recorder {
    fn name(&self) -> &str {
        "a recorder of calls"
    }

    fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        if name == "cuCtxGetId" { None } else { find(name) }
    }

    fn detail(&self) -> Option<String> {
        DETAIL.with_borrow(Clone::clone)
    }

    fn host_takes(&self, address: u64, bytes: usize) {
        record("host takes", &[address.to_string(), bytes.to_string()]);
    }

    fn simulated(&self) -> bool {
        true
    }
}

fn record(name: &str, arguments: &[String]) -> c_int {
    CALLS.with_borrow_mut(|calls| calls.push(format!("{name}({})", arguments.join(", "))));
    CODE.get()
}

fn shown(argument: impl Debug) -> String {
    let text = format!("{argument:?}");
    match text.split_once("0x") {
        Some((_, digits)) if digits.trim_end_matches(')').len() > 4 => "&".to_owned(),
        _ => text,
    }
}

/// Implements `cuDriverGetVersion`. Must write a version, because creating the driver reads it.
unsafe extern "C" fn version(version: *mut c_int) -> c_int {
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { version.write(13_020) };
    CUDA_SUCCESS
}

macro_rules! define_functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
        #[allow(non_snake_case)]
        mod functions {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    record(stringify!($name), &[$(shown($argument)),*])
                }
            )*
        }

        fn find(name: &str) -> Option<NonNull<c_void>> {
            let function = match name {
                "cuDriverGetVersion" => version as *mut c_void,
                $(stringify!($name) => functions::$name as *mut c_void,)*
                _ => return None,
            };
            NonNull::new(function)
        }
    };
}

for_each_function!(define_functions);
