//! A CUDA driver without a GPU: the driver interface over the PTX simulator.
//!
//! A program that calls the driver through `warpfold-driver` runs on it without a change, in tests above
//! all. Whoever only wants reductions adds the crate `warpfold`, which brings this one along.
//!
//! [`driver`] is a [`Driver`] like that of `libcuda.so.1`, so that a program
//! runs the same code on both. It is stricter than a GPU where that finds mistakes:
//!
//! - **Streams are lazy.** A copy, memset, launch, event or host function waits in its queue until a
//!   call makes the host wait for it, and then runs with what it comes behind, in the order of the
//!   calls, and nothing else. What reads a result without a wait reads what was there before, every
//!   time. A query answers "not ready" for work that was left; the second one runs it, so that polling
//!   ends. If no driver call is made for a second ([`set_patience`]), everything runs, so that a host
//!   that waits for a word of mapped memory goes on. Work can run later still: see [`run_late`].
//! - **Order is what the interface promises**, no more: streams among each other wait by events and by
//!   the rules of the legacy default stream only. Copies from pageable memory are staged by the call,
//!   those from page-locked memory read it when they run.
//! - **Memory that is freed while pending work names it** is a [`Finding`]; the work then faults,
//!   because addresses are never used twice. The same holds for modules.
//! - **New memory is not zero**, of a device or page-locked: each byte of its first megabyte is 0xff, so
//!   that what is read before it was written is NaN, and no zero by luck.
//! - **Handles are numbers** that are looked up: a wrong one is an error.
//! - **Faults are sticky**: after an illegal address, say, every call in the context answers it.
//!
//! There are devices as many as `WARPFOLD_SIM_DEVICES` says, of compute capability 9.0 with 8
//! multiprocessors; each can be the other's peer, unless `,apart` stands behind the number. Calls fail
//! on demand: see [`inject`]. What runs can be watched ([`watch()`]), and is counted ([`counters`],
//! [`take_last_launch`]).
//!
//! A device has at most 16 GiB of memory, and all devices together three quarters of what the machine,
//! the control groups around the process or its own limits allow. An allocation of a megabyte or more
//! for which the host has no room is `CUDA_ERROR_OUT_OF_MEMORY`, also when a device has.
//!
//! A module may hold kernels with what the simulator does not support, which a GPU's driver refuses as
//! a whole. Here it loads: the kernels that are asked for decide. `cuModuleGetFunction` of a broken one
//! answers `CUDA_ERROR_INVALID_PTX` with line, column and reason, and the information log of
//! `cuModuleLoadDataEx` lists the first of them.
//!
//! Times are those of the simulation, and say nothing about a GPU. Registers are unknown to PTX; the
//! attribute is 0 and occupancy leaves them out.
//!
//! ```
//! use warpfold_sim_driver::driver;
//!
//! let api = driver().api();
//! let mut count = 0;
//! // SAFETY: the calls get what the interface asks for.
//! unsafe {
//!     assert_eq!((api.cuInit)(0), 0);
//!     assert_eq!((api.cuDeviceGetCount)(&mut count), 0);
//! }
//! assert!(count >= 1);
//! ```

// Standard output and error may be closed or full, which is no reason to panic.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod api;
mod call;
mod checks;
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

pub use checks::Checks;
pub use inject::{FAIL_VARIABLE, Fault, Injected, inject};
pub use late::{LATE_VARIABLE, RunsLate, run_late};
pub use log::{CallLog, record_calls};
pub use watch::{Counters, LaunchRecord, SimLaunch, Watcher, take_last_launch};
pub use world::Finding;

/// The simulator as a source of driver functions.
#[derive(Debug)]
struct Simulator;

impl Provider for Simulator {
    fn name(&self) -> &str {
        "the PTX simulator"
    }

    fn find(&self, name: &str) -> Option<NonNull<c_void>> {
        api::find(name)
    }

    fn detail(&self) -> Option<String> {
        call::detail()
    }

    fn host_takes(&self, address: u64, bytes: usize) {
        if !call::is_own_process() {
            return;
        }
        // Told without the lock, as of work that runs.
        let watched = world::lock().watcher_of(address);
        if let Some((watcher, room)) = watched {
            watcher.taken(address, room.min(bytes as u64));
        }
    }

    fn simulated(&self) -> bool {
        true
    }
}

/// The simulator's driver, the same in the whole process.
///
/// # Panics
/// Never: the driver has all that it is asked for.
#[must_use]
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: the functions are made from the driver's own table, with its types, and keep the
        // contract of the interface.
        let made = unsafe { Driver::provided(&Simulator) };
        made.unwrap_or_else(|error| panic!("the simulator is a driver: {error}"))
    })
}

/// The functions that answer `CUDA_ERROR_NOT_SUPPORTED`, by name.
#[must_use]
pub fn unsupported() -> &'static [&'static str] {
    functions::UNSUPPORTED
}

/// After how long without a driver call all pending work runs; a second unless this was called.
#[must_use]
pub fn patience() -> Duration {
    world::patience()
}

/// Sets [`patience`], in the whole process, in steps of a millisecond.
pub fn set_patience(patience: Duration) {
    world::set_patience(patience);
}

/// Sets whether the calls that free memory wait for all work of their context first, in the whole
/// process. NVIDIA's driver does, and programs come to rely on it; the interface does not say so, and
/// unless this was called, work that still names the memory is a [`Finding`].
pub fn set_frees_wait(wait: bool) {
    world::set_frees_wait(wait);
}

/// Sets how many warp instructions a launch may execute in contexts that are made from now on, in the
/// whole process; more of them is `CUDA_ERROR_LAUNCH_TIMEOUT`. 0 stands for what it is unless this was
/// called, 20 thousand million.
pub fn set_step_limit(steps: u64) {
    world::set_step_limit(steps);
}

/// Lets a watcher see what runs in a context from now on, in the place of one that did before.
/// `None`, where there is no such context, is given back.
pub fn watch(context: CUcontext, watcher: Arc<dyn Watcher>) -> Option<()> {
    world::lock().contexts.get_mut(&context.into())?.watcher = Some(watcher);
    Some(())
}

/// Lets every context that is made from now on be watched by what a function makes, in the whole
/// process.
/// `false` if there is such a function already, which stays.
pub fn watch_all(make: impl Fn() -> Arc<dyn Watcher> + Send + Sync + 'static) -> bool {
    world::watch_all(Box::new(make))
}

/// Sets the limits of contexts that are made from now on, in the whole process, in the place of
/// [`set_step_limit`]. The number of multiprocessors stays, and memory has the limits of the devices.
pub fn set_config(config: Config) {
    world::set_config(config);
}

/// Sets whether launches that are asked for from now on run in an order that a seed chooses, in the
/// whole process: see [`Launch::with_seed`](warpfold_sim::Launch::with_seed).
pub fn set_seed(seed: Option<u64>) {
    world::set_seed(seed);
}

/// Names the device memory that an address lies in, for messages, unless it has a name. `false` if there
/// is none.
pub fn name_memory(address: u64, name: &str) -> bool {
    world::lock().memory_of(address).is_some_and(|memory| memory.set_name(address, name))
}

/// Ends what [`watch()`] began.
pub fn unwatch(context: CUcontext) {
    if let Some(context) = world::lock().contexts.get_mut(&context.into()) {
        context.watcher = None;
    }
}

/// What the launches on a stream have executed that are done; null is the legacy default stream of the
/// current context. `None` for what is no stream.
#[must_use]
pub fn counters(stream: CUstream) -> Option<Counters> {
    let mut state = world::lock();
    let stream = state.stream(stream.into()).ok()?;
    Some(state.streams.get(&stream)?.counters)
}

/// What was freed in a context while pending work named it, since the context was made or the findings
/// were last taken; they are taken by this call.
#[must_use]
pub fn take_findings(context: CUcontext) -> Vec<Finding> {
    let mut state = world::lock();
    let context = state.contexts.get_mut(&context.into());
    context.map(|context| std::mem::take(&mut context.findings)).unwrap_or_default()
}

/// Bytes that are allocated in a context: on its device, and of the host for it; 0 for no context.
#[must_use]
pub fn memory_in_use(context: CUcontext) -> u64 {
    let state = world::lock();
    let id = context.into();
    let device = state.contexts.get(&id).map_or(0, |context| context.gpu.memory_in_use());
    let of_the_host = state.host.allocations.values().filter(|allocation| allocation.context == id);
    device + of_the_host.map(|allocation| allocation.bytes).sum::<u64>()
}

/// Bytes of memory that the host has for this process beyond what was given out already: as device
/// memory, or page-locked. It is the machine's memory, or less where the control groups (of Linux)
/// around the process or its own limits say so.
#[must_use]
pub fn host_room() -> u64 {
    world::lock().room()
}

/// A context without findings: panics when it is dropped and there are some, unless the thread panics
/// already. For tests.
#[derive(Debug)]
pub struct NoFindings(ContextNumber);

/// A context's handle as a number, which may go from thread to thread.
#[derive(Debug, Clone, Copy)]
struct ContextNumber(usize);

impl NoFindings {
    /// Watches over a context from now on.
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

/// The program of the readme compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
