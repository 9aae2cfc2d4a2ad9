//! A CUDA driver without a GPU: the driver interface over the PTX simulator.
//!
//! A program that calls the driver through `warpfold-driver` runs on this one unchanged, above all in
//! tests. For reductions alone, add the crate `warpfold`, which includes this one.
//!
//! [`driver`] is a [`Driver`] like that of `libcuda.so.1`, so that a program runs the same code on both.
//! The simulator is stricter than a GPU where that finds mistakes:
//!
//! - **Streams are lazy.** A copy, memset, launch, event or host function stays in its queue until a
//!   call makes the host wait for it. Then it runs after its dependencies, in the order of the calls,
//!   and nothing else runs. A read of a result without a wait returns the old contents, every time. The
//!   first query of pending work answers "not ready"; the second one runs the work, so that polling
//!   ends. If no driver call is made for a second ([`set_patience`]), everything runs, so that a host
//!   that polls a word of mapped memory continues. Work can run later still: see [`run_late`].
//! - **Order is what the interface promises**, no more: streams wait for each other only by events and
//!   by the rules of the default streams. Copies from pageable memory are staged by the call;
//!   copies from page-locked memory read it when they run.
//! - **Memory that is freed while pending work names it** is a [`Finding`]; the work then faults,
//!   because addresses are never used twice. The same holds for modules.
//! - **New memory is not zero**, on a device or page-locked: each byte of its first megabyte is 0xff, so
//!   that a read before the first write yields NaN and not a plausible zero.
//! - **Handles are numbers** that are looked up: a wrong one is an error.
//! - **Faults are sticky**: after an illegal address, for example, every call in the context returns its
//!   error.
//!
//! `WARPFOLD_SIM_DEVICES` sets the number of devices. Each has compute capability 9.0 and 8
//! multiprocessors, and they can be each other's peers unless `,apart` follows the number.
//! `WARPFOLD_SIM_CAPABILITY` sets another capability, from 8.0 to 12.1, for programs whose only PTX is
//! for a newer GPU, or that choose their kernels by it; other limits are always those of 9.0. Tests can
//! make calls fail ([`inject`]), watch work ([`watch()`]), and read instruction counts ([`counters`],
//! [`take_last_launch`]).
//!
//! A device has at most 16 GiB of memory, and all devices together three quarters of what the machine,
//! the control groups around the process or its own limits allow. An allocation of a megabyte or more
//! for which the host has no room returns `CUDA_ERROR_OUT_OF_MEMORY`, even if the device has room.
//!
//! A module may contain kernels with features that the simulator does not support. A GPU's driver would
//! refuse the whole module; here it loads, and only such a kernel fails: `cuModuleGetFunction` returns
//! `CUDA_ERROR_INVALID_PTX` for it, with line, column and reason, and the information log of
//! `cuModuleLoadDataEx` lists the first ones.
//!
//! Times are those of the simulation and say nothing about a GPU. PTX does not determine the number of
//! registers; the attribute for them is 0, and occupancy ignores them.
//!
//! ```
//! use warpfold_sim_driver::driver;
//!
//! let api = driver().api();
//! let mut count = 0;
//! // SAFETY: the arguments meet the contracts of the driver's functions.
//! unsafe {
//!     assert_eq!((api.cuInit)(0), 0);
//!     assert_eq!((api.cuDeviceGetCount)(&mut count), 0);
//! }
//! assert!(count >= 1);
//! ```

// Printing macros panic if standard output or error is closed or full.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![warn(missing_docs)]

mod api;
mod call;
mod checks;
mod export_table;
mod failure;
pub mod fatbin;
mod ffi;
mod functions;
mod host;
mod host_memory;
mod inject;
mod late;
mod log;
mod pages;
mod staging;
mod watch;
mod world;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use warpfold_driver::sys::{CUcontext, CUstream};
use warpfold_driver::{Driver, Provider};
use warpfold_sim::Config;

pub use api::{FindFunction, find_absent};
pub use call::{AfterRefusal, after_refusals};
pub use checks::Checks;
pub use inject::{FAIL_VARIABLE, Fault, Injected, inject};
pub use late::{LATE_VARIABLE, RunsLate, run_late};
pub use log::{CallLog, record_calls};
pub use watch::{
    AfterLaunch, Counters, LaunchRecord, SimLaunch, Watcher, after_launches, take_last_launch,
};
pub use world::{CAPABILITIES, CAPABILITY_VARIABLE, Finding};

#[derive(Debug)]
struct Simulator;

impl Provider for Simulator {
    fn name(&self) -> &str {
        "the PTX simulator"
    }

    fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        api::find(name, false)
    }

    fn detail(&self) -> Option<String> {
        call::detail()
    }

    fn host_takes(&self, address: u64, bytes: usize) {
        if !call::is_own_process() {
            return;
        }
        // Watchers are called without the lock.
        let watched = world::lock().watcher_of(address);
        if let Some((watcher, room)) = watched {
            watcher.taken(address, room.min(bytes as u64));
        }
    }

    fn simulated(&self) -> bool {
        true
    }
}

/// Returns the simulator's driver, which is the same in the whole process.
///
/// # Panics
/// Never: the simulator provides every function of the driver.
#[must_use]
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: the functions are generated from `warpfold_driver::for_each_function`, with its types,
        // and keep the contract of the interface.
        let made = unsafe { Driver::provided(&Simulator) };
        made.unwrap_or_else(|error| panic!("the simulator is a driver: {error}"))
    })
}

/// Returns the names of the functions that return `CUDA_ERROR_NOT_SUPPORTED`.
#[must_use]
pub fn unsupported() -> &'static [&'static str] {
    functions::UNSUPPORTED
}

/// Returns the time without a driver call after which all pending work runs; a second by default.
#[must_use]
pub fn patience() -> Duration {
    world::patience()
}

/// Sets [`patience`] in the whole process, truncated to whole milliseconds; the minimum is 1.
pub fn set_patience(patience: Duration) {
    world::set_patience(patience);
}

/// Sets whether calls that free memory first wait for all work of their context, in the whole process.
/// NVIDIA's driver waits, and programs come to rely on that, but the interface does not promise it. By
/// default these calls do not wait, and a free while pending work names the memory is a [`Finding`].
pub fn set_frees_wait(wait: bool) {
    world::set_frees_wait(wait);
}

/// Makes driver calls for which stream 0 is the calling thread's default stream, as it is for the
/// functions whose names end in `_ptds` or `_ptsz`.
pub fn with_default_of_thread<T>(calls: impl FnOnce() -> T) -> T {
    let _default = world::DefaultOfThread::set();
    calls()
}

/// Sets the maximum warp instructions of a launch in contexts created from now on, in the whole process.
/// A launch that exceeds it returns `CUDA_ERROR_LAUNCH_TIMEOUT`. 0 restores the default of 20 billion.
pub fn set_step_limit(steps: u64) {
    world::set_step_limit(steps);
}

/// Sets the watcher of a context, in place of an earlier one. Returns `None` if there is no such
/// context.
pub fn watch(context: CUcontext, watcher: Arc<dyn Watcher>) -> Option<()> {
    world::lock().contexts.get_mut(&context.into())?.watcher = Some(watcher);
    Some(())
}

/// Sets a function that creates a watcher for every context created from now on, in the whole process.
/// Returns `false` if there is such a function already, which is kept.
pub fn watch_all(make: impl Fn() -> Arc<dyn Watcher> + Send + Sync + 'static) -> bool {
    world::watch_all(Box::new(make))
}

/// Sets the limits of contexts created from now on, in the whole process. They replace
/// [`set_step_limit`]; the devices determine the number of multiprocessors and the memory limit.
pub fn set_config(config: Config) {
    world::set_config(config);
}

/// Sets the seed that chooses the order of threads in launches requested from now on, in the whole
/// process: see [`Launch::with_seed`](warpfold_sim::Launch::with_seed).
pub fn set_seed(seed: Option<u64>) {
    world::set_seed(seed);
}

/// Names the allocation that contains an address, for messages, unless it has a name. Returns `false` if
/// there is no such allocation.
pub fn name_memory(address: u64, name: &str) -> bool {
    world::lock().memory_of(address).is_some_and(|memory| memory.set_name(address, name))
}

/// Removes the watcher of a context that [`watch()`] set.
pub fn unwatch(context: CUcontext) {
    if let Some(context) = world::lock().contexts.get_mut(&context.into()) {
        context.watcher = None;
    }
}

/// Returns the counters of the completed launches on a stream; null is the legacy default stream of the
/// current context. `None` if there is no such stream.
#[must_use]
pub fn counters(stream: CUstream) -> Option<Counters> {
    let mut state = world::lock();
    let stream = state.stream(stream.into()).ok()?;
    Some(state.streams.get(&stream)?.counters)
}

/// Takes the findings of a context since its creation or the last call: memory and modules that were
/// freed while pending work named them.
#[must_use]
pub fn take_findings(context: CUcontext) -> Vec<Finding> {
    let mut state = world::lock();
    let context = state.contexts.get_mut(&context.into());
    context.map(|context| std::mem::take(&mut context.findings)).unwrap_or_default()
}

/// Returns the bytes allocated in a context, on its device and on the host; 0 if there is no such
/// context.
#[must_use]
pub fn memory_in_use(context: CUcontext) -> u64 {
    let state = world::lock();
    let id = context.into();
    let device = state.contexts.get(&id).map_or(0, |context| context.gpu.memory_in_use());
    let of_the_host = state.host.allocations.values().filter(|allocation| allocation.context == id);
    device + of_the_host.map(|allocation| allocation.bytes).sum::<u64>()
}

/// Returns the bytes of memory that the host has left for this process, beyond what is allocated already
/// as device or page-locked memory. The host's memory is the machine's, or less if Linux control groups
/// around the process or its own limits restrict it.
#[must_use]
pub fn host_room() -> u64 {
    world::lock().room()
}

/// A guard for tests that panics on drop if its context has findings, unless the thread is panicking
/// already.
#[derive(Debug)]
pub struct NoFindings(ContextNumber);

/// A context's handle as a number, which is `Send`.
#[derive(Debug, Clone, Copy)]
struct ContextNumber(usize);

impl NoFindings {
    /// Guards a context from now on.
    #[must_use = "the findings are looked at when it is dropped"]
    pub fn in_context(context: CUcontext) -> Self {
        Self(ContextNumber(context.addr()))
    }
}

impl Drop for NoFindings {
    fn drop(&mut self) {
        let findings = take_findings(std::ptr::without_provenance_mut(self.0.0));
        if !findings.is_empty() && !std::thread::panicking() {
            let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
            panic!("freed too early: {}", lines.join("; "));
        }
    }
}

/// The readme, whose program is run as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
