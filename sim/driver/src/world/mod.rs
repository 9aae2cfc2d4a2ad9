//! The whole state of the driver, guarded by one lock.
//!
//! Calls change the state with the lock held; work runs without it. A thread that waits for work runs
//! what is ready by itself (`run`), so that threads that wait for different streams run them at the same
//! time.

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
    Context, current, lose_current_context, pop_current, push_current, seed, set_config, set_current,
    set_seed, set_step_limit, thread_number, watch_all,
};
pub(crate) use device::{Device, MULTIPROCESSORS, limits};
pub(crate) use event::{Event, Record};
pub use findings::Finding;
pub(crate) use graph::{Exec, Graph, Node, Unlike, Unready};
pub(crate) use graph_memory::{GraphMemory, GraphPool, MemoryPlan, Reserved};
pub(crate) use ids::ById;
pub(crate) use memory::{HostAllocation, HostKind, HostTable};
pub(crate) use pool::Pool;
pub(crate) use run::{before_free, force, patience, set_frees_wait, set_patience};
pub(crate) use stream::{Kind, Stream};
pub(crate) use task::{
    End, Fill, HostCall, HostFunction, Launching, Step, TaskId, Tasks, Transfer, Work,
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
    /// Handles of its functions: always the same one for a name.
    pub(crate) functions: HashMap<String, FunctionId>,
}

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) program: warpfold_sim::Module,
    /// The modules into which contexts have loaded it.
    pub(crate) modules: HashMap<ContextId, ModuleId>,
    /// Handles of its kernels: always the same one for a name.
    pub(crate) kernels: HashMap<String, KernelId>,
}

/// A kernel of a library, which has a function in each context that loads it.
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
    /// Memory of nodes that allocate, by first address.
    pub(crate) graph_memory: BTreeMap<u64, GraphMemory>,
    pub(crate) pools: ById<PoolId, Pool>,
    pub(crate) arrays: ById<ArrayId, Array>,
    /// Textures and surfaces, by the handles that kernels take.
    pub(crate) objects: HashMap<u64, Object>,
    pub(crate) host: HostTable,
    pub(crate) tasks: Tasks,
}

pub(crate) type Guard = MutexGuard<'static, State>;

/// Locks the state for one call.
pub(crate) fn lock() -> Guard {
    // A panic with the lock held is a bug, which that call reports; continuing with the state as it is
    // beats a failure of every later call.
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

/// Returns an error before `cuInit` was called.
pub(crate) fn check_initialised() -> Outcome {
    if INITIALISED.load(Ordering::Acquire) {
        return Ok(());
    }
    fail_with(CUDA_ERROR_NOT_INITIALIZED, "cuInit must come first")
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
    /// Returns a number that no handle had before, and that is no special value.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        0x5100_0000 + 0x10 * self.next_handle
    }
}
