//! The whole state of the driver, guarded by one lock.
//!
//! Calls change the state with the lock held; work runs without it. A thread that waits for work runs
//! that work itself (see `run`), so that threads that wait for different streams run their work at the
//! same time.

mod array;
mod capture;
mod conditional;
mod context;
mod device;
mod event;
mod findings;
mod graph;
mod graph_memory;
mod ids;
mod memory;
mod pool;
mod run;
mod stream;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use warpfold_driver::sys::*;

use crate::failure::{Failure, Outcome, fail_with};
use crate::ffi::{
    ArrayId, ContextId, EventId, ExecId, FunctionId, GraphId, KernelId, LibraryId, LinkId, ModuleId,
    NodeId, PoolId, StreamId,
};

pub(crate) use array::{Array, Object};
pub(crate) use capture::{Capture, CaptureId, Capturing, exchange_mode, is_mode};
pub(crate) use conditional::{Condition, Conditional};
pub(crate) use context::{
    Context, LocalValue, current, lose_current_context, pop_current, push_current, seed, set_config,
    set_current, set_seed, set_step_limit, thread_number, watch_all,
};
pub use device::{CAPABILITIES, CAPABILITY_VARIABLE};
pub(crate) use device::{Device, MULTIPROCESSORS, arch, limits};
pub(crate) use event::{Event, Record};
pub use findings::Finding;
pub(crate) use graph::{Exec, Graph, Node, Unlike, Unready};
pub(crate) use graph_memory::{GraphMemory, GraphPool, MemoryPlan, Reserved};
pub(crate) use ids::ById;
pub(crate) use memory::{HostAllocation, HostKind, HostTable};
pub(crate) use pool::Pool;
pub(crate) use run::{before_free, force, patience, set_frees_wait, set_patience};
pub(crate) use stream::{DefaultOfThread, Kind, Stream};
pub(crate) use task::{
    End, Fill, HostCall, HostFunction, LaunchRequest, Step, TaskId, Tasks, Transfer, Work,
};

struct World {
    state: Mutex<State>,
    changed: Condvar,
}

static WORLD: LazyLock<World> =
    LazyLock::new(|| World { state: Mutex::default(), changed: Condvar::new() });
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// Numbers of driver calls that have begun, and that have returned.
static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) module: ModuleId,
    pub(crate) context: ContextId,
    pub(crate) program: warpfold_sim::Module,
    pub(crate) name: Arc<CStr>,
    /// Maximum bytes of dynamic shared memory of a launch.
    pub(crate) most_dynamic_shared: u32,
    pub(crate) carveout: c_int,
    pub(crate) non_portable_cluster: bool,
}

#[derive(Debug)]
pub(crate) struct LoadedModule {
    pub(crate) context: ContextId,
    pub(crate) program: warpfold_sim::Module,
    /// Handles of the module's functions by name. Every lookup of a name returns the same handle.
    pub(crate) functions: HashMap<String, FunctionId>,
}

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) program: warpfold_sim::Module,
    pub(crate) modules: HashMap<ContextId, ModuleId>,
    /// Handles of the library's kernels by name. Every lookup of a name returns the same handle.
    pub(crate) kernels: HashMap<String, KernelId>,
}

/// A kernel of a library, with a function in each context that loads the library.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) library: LibraryId,
    pub(crate) name: Arc<CStr>,
}

#[derive(Default)]
pub(crate) struct State {
    next_handle: u64,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: ById<ContextId, Context>,
    pub(crate) modules: ById<ModuleId, LoadedModule>,
    pub(crate) functions: ById<FunctionId, Function>,
    pub(crate) libraries: ById<LibraryId, Library>,
    pub(crate) kernels: ById<KernelId, Kernel>,
    /// Texts added to a link, or the linked text.
    pub(crate) links: ById<LinkId, Vec<Vec<u8>>>,
    pub(crate) streams: ById<StreamId, Stream>,
    pub(crate) events: ById<EventId, Event>,
    pub(crate) graphs: ById<GraphId, Graph>,
    pub(crate) nodes: ById<NodeId, Node>,
    pub(crate) execs: ById<ExecId, Exec>,
    pub(crate) captures: ById<CaptureId, Capture>,
    /// Memory of allocation nodes, by first address.
    pub(crate) graph_memory: BTreeMap<u64, GraphMemory>,
    pub(crate) pools: ById<PoolId, Pool>,
    pub(crate) arrays: ById<ArrayId, Array>,
    /// Textures and surfaces, by the handles that kernels take.
    pub(crate) objects: HashMap<u64, Object>,
    pub(crate) host: HostTable,
    pub(crate) tasks: Tasks,
}

pub(crate) type Guard = MutexGuard<'static, State>;

pub(crate) fn lock() -> Guard {
    // The lock is poisoned only by a bug that panicked while holding it, which the call that panicked
    // has reported. Continuing with the state as it is beats failing every later call.
    WORLD.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A driver call that is in progress on this thread.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn new() -> Self {
        CALLS[0].fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CALLS[1].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of calls begun; `None` while one is in progress.
fn calls_at_rest() -> Option<u64> {
    let returned = CALLS[1].load(Ordering::Relaxed);
    (CALLS[0].load(Ordering::Relaxed) == returned).then_some(returned)
}

pub(crate) fn check_initialised() -> Outcome {
    if INITIALISED.load(Ordering::Acquire) {
        return Ok(());
    }
    fail_with(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialised; call cuInit first")
}

pub(crate) fn initialise() -> Outcome {
    let mut state = lock();
    if state.devices.is_empty() {
        state.devices = device::all().map_err(|wrong| {
            crate::call::say(&format!("warpfold-sim-driver: {wrong}"));
            Failure::new(CUDA_ERROR_NO_DEVICE, wrong)
        })?;
        for number in 0..state.devices.len() {
            let pool = state.add_pool(number as u32, true);
            state.devices[number].default_pool = Some(pool);
            state.devices[number].pool = Some(pool);
        }
        INITIALISED.store(true, Ordering::Release);
    }
    Ok(())
}

impl State {
    /// Returns a number that no handle had before, and that differs from the special values of handles.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        0x5100_0000 + 0x10 * self.next_handle
    }
}
