//! A driver of which every function writes down how it was called, and returns what the test says.

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

/// What the functions return on this thread from here on, and what is known beyond it.
pub(crate) fn answer(code: c_int, detail: Option<&str>) {
    CODE.set(code);
    DETAIL.set(detail.map(str::to_owned));
}

/// The calls on this thread since the last time, as `name(argument, …)`. A pointer that is no small
/// number, such as one to a local variable, is shown as `&`.
#[allow(dead_code, reason = "some tests look at codes only")]
pub(crate) fn calls() -> Vec<String> {
    CALLS.take()
}

/// The one driver of this kind. It lacks `cuCtxGetId`.
pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&Driver> = OnceLock::new();
    // SAFETY: the functions are made from the table, so they have its types, and they read through no
    // pointer but the one that they write a version to.
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

/// `cuDriverGetVersion`: is called when the driver is made.
unsafe extern "C" fn version(version: *mut c_int) -> c_int {
    // SAFETY: the caller gives a pointer to write to, as to a driver.
    unsafe { version.write(13_020) };
    CUDA_SUCCESS
}

macro_rules! define_functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
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
