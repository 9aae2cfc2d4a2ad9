//! Contexts, and the current one of each thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpfold_driver::is_forked;
use warpfold_driver::sys::*;
use warpfold_sim::{Config, GlobalMemory, Gpu};

use super::stream::{Kind, Stream};
use super::{Device, Finding, MULTIPROCESSORS, State, limits};
use crate::export_table::Destructor;
use crate::failure::{Failure, Outcome, fail};
use crate::ffi::{ContextId, StreamId};
use crate::watch::Watcher;

/// A context: a simulated GPU with memory of its own.
pub(crate) struct Context {
    pub(crate) device: u32,
    pub(crate) flags: c_uint,
    pub(crate) gpu: Arc<Gpu>,
    /// The failure that every call returns after work has failed.
    pub(crate) lost: Option<Failure>,
    pub(crate) legacy: StreamId,
    /// Per-thread default streams by thread number.
    pub(crate) of_threads: HashMap<u64, StreamId>,
    /// Streams that synchronise with the legacy one, including destroyed ones with work left.
    pub(crate) blocking: BTreeSet<StreamId>,
    pub(crate) peers: BTreeSet<ContextId>,
    pub(crate) watcher: Option<Arc<dyn Watcher>>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) limits: BTreeMap<CUlimit, usize>,
    pub(crate) cache_config: CUfunc_cache,
    pub(crate) bank_config: CUsharedconfig,
    /// Values that NVIDIA's runtime stores by key.
    pub(crate) local: BTreeMap<usize, LocalValue>,
    /// Set while the destructors of these values run, after which the context is removed.
    pub(crate) ends: bool,
}

/// A value of a context's storage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalValue {
    pub(crate) value: usize,
    pub(crate) destructor: Option<Destructor>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("device", &self.device).finish_non_exhaustive()
    }
}

static CONFIG: Mutex<Option<Config>> = Mutex::new(None);

pub(crate) fn set_config(config: Config) {
    *CONFIG.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
}

/// Returns the configuration of a device whose allocations are rounded up to `round` bytes.
fn config(round: u64) -> Config {
    let config = CONFIG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let config = config.unwrap_or_else(|| Config { step_limit: step_limit(), ..Config::default() });
    // The threads of rayon's global pool do not exist in a forked child.
    let threads = if is_forked() { Some(1) } else { config.threads };
    let shared_granularity = config.shared_granularity.max(limits::SHARED_GRANULARITY.min(round as u32));
    Config { sm_count: MULTIPROCESSORS, threads, shared_granularity, ..config }
}

type MakeWatcher = Box<dyn Fn() -> Arc<dyn Watcher> + Send + Sync>;

static WATCHERS: OnceLock<MakeWatcher> = OnceLock::new();

pub(crate) fn watch_all(make: MakeWatcher) -> bool {
    WATCHERS.set(make).is_ok()
}

static SEED: Mutex<Option<u64>> = Mutex::new(None);

pub(crate) fn set_seed(seed: Option<u64>) {
    *SEED.lock().unwrap_or_else(PoisonError::into_inner) = seed;
}

pub(crate) fn seed() -> Option<u64> {
    *SEED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum warp instructions of a launch, in contexts created from now on; 0 for the default.
static STEPS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn set_step_limit(steps: u64) {
    STEPS.store(steps, Ordering::Relaxed);
}

fn step_limit() -> u64 {
    match STEPS.load(Ordering::Relaxed) {
        0 => Config::default().step_limit,
        steps => steps,
    }
}

thread_local! {
    /// Stack of contexts of this thread; the last one is current.
    static CURRENT: RefCell<Vec<ContextId>> = const { RefCell::new(Vec::new()) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// Returns a number of the calling thread that is unique in the process's lifetime.
pub(crate) fn thread_number() -> u64 {
    THREAD.with(|number| *number)
}

pub(crate) fn current() -> Option<ContextId> {
    CURRENT.try_with(|stack| stack.borrow().last().copied()).ok().flatten()
}

pub(crate) fn push_current(id: ContextId) {
    CURRENT.with_borrow_mut(|stack| stack.push(id));
}

pub(crate) fn pop_current() -> Option<ContextId> {
    CURRENT.with_borrow_mut(Vec::pop)
}

pub(crate) fn set_current(id: Option<ContextId>) {
    CURRENT.with_borrow_mut(|stack| {
        let _before = stack.pop();
        stack.extend(id);
    });
}

pub(crate) fn lose_current_context(failure: &Failure) {
    let mut state = super::lock();
    if let Some(context) = current().and_then(|id| state.contexts.get_mut(&id)) {
        context.lost.get_or_insert_with(|| failure.clone());
    }
}

impl State {
    pub(crate) fn add_context(&mut self, device: u32, flags: c_uint) -> ContextId {
        let id = ContextId(self.new_handle());
        self.add_context_as(id, device, flags);
        id
    }

    /// Returns the handle of a device's primary context, which need not be active.
    pub(crate) fn primary_handle(&mut self, device: u32) -> ContextId {
        let at = device as usize;
        let id = self.devices[at].primary.unwrap_or_else(|| ContextId(self.new_handle()));
        *self.devices[at].primary.insert(id)
    }

    pub(crate) fn active_primary(&self, device: usize) -> Option<ContextId> {
        self.devices[device].primary.filter(|id| self.contexts.contains_key(id))
    }

    /// Returns the active primary context of a device, which is created if there is none.
    pub(crate) fn activate_primary(&mut self, device: u32) -> ContextId {
        let id = self.primary_handle(device);
        if !self.contexts.contains_key(&id) {
            self.add_context_as(id, device, self.devices[device as usize].primary_flags);
        }
        id
    }

    fn add_context_as(&mut self, id: ContextId, device: u32, flags: c_uint) {
        let legacy = StreamId(self.new_handle());
        let Device { addresses, round, .. } = &self.devices[device as usize];
        let (memory, round) = (GlobalMemory::new(Arc::clone(addresses)), *round);
        let gpu = Arc::new(Gpu::with_memory(config(round), memory));
        self.streams.insert(legacy, Stream::new(id, Kind::Legacy, 0));
        let context = Context {
            device,
            flags,
            gpu,
            lost: None,
            legacy,
            of_threads: HashMap::new(),
            blocking: BTreeSet::new(),
            peers: BTreeSet::new(),
            watcher: WATCHERS.get().map(|make| make()),
            findings: Vec::new(),
            limits: BTreeMap::new(),
            cache_config: CU_FUNC_CACHE_PREFER_NONE,
            bank_config: CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE,
            local: BTreeMap::new(),
            ends: false,
        };
        self.contexts.insert(id, context);
        self.update_visible_memory();
    }

    /// Removes a context and everything in it. Pending work is dropped. Launches that other threads are
    /// running continue, and keep the memory with which they started.
    pub(crate) fn remove_context(&mut self, id: ContextId) {
        self.contexts.remove(&id);
        self.tasks.drop_of(id);
        self.streams.retain(|_, stream| stream.context != id);
        self.events.retain(|_, event| event.context != id);
        self.modules.retain(|_, module| module.context != id);
        self.arrays.retain(|_, array| array.context != id);
        self.objects.retain(|_, object| object.context != id);
        self.functions.retain(|_, function| function.context != id);
        self.execs.retain(|_, exec| exec.context != id);
        self.drop_graph_memory_of(id);
        let captures = &mut self.captures;
        captures.retain(|_, capture| capture.context != id);
        self.free_host_memory_of(id);
        for context in self.contexts.values_mut() {
            context.peers.remove(&id);
        }
        self.update_visible_memory();
    }

    pub(crate) fn change_peers(
        &mut self,
        id: ContextId,
        change: impl FnOnce(&mut BTreeSet<ContextId>) -> bool,
    ) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let _changed = change(&mut context.peers);
        self.look(&self.contexts[&id]);
    }

    /// Updates what all contexts can access, after a context was added or removed, or a pool opened or
    /// closed.
    pub(crate) fn update_visible_memory(&self) {
        self.contexts.values().for_each(|context| self.look(context));
    }

    /// Updates the memory that a context's launches can access: that of the host, of peers, and of
    /// devices with a pool that is open to the context's device. Access extends to all memory of such a
    /// device, not only to the pool.
    fn look(&self, context: &Context) {
        let pools = self.pools.values().filter(|pool| pool.open_to.contains(&context.device));
        let devices = self.devices.iter().zip(0..);
        let of_graphs = devices.filter(|(one, _)| one.graph_pool.open_to.contains(&context.device));
        let of_graphs = of_graphs.map(|(_, number)| number);
        let devices: BTreeSet<u32> = pools.map(|pool| pool.device).chain(of_graphs).collect();
        let is_seen = |(id, other): &(&ContextId, &Context)| {
            context.peers.contains(id) || devices.contains(&other.device)
        };
        let memories = self.contexts.iter().filter(is_seen).map(|(_, other)| other.gpu.memory().clone());
        context.gpu.see(memories.chain([self.host.memory.clone()]));
    }

    pub(crate) fn here(&self) -> Outcome<ContextId> {
        let id = self.here_or_lost()?;
        self.check(id)?;
        Ok(id)
    }

    pub(crate) fn here_or_lost(&self) -> Outcome<ContextId> {
        match current() {
            None => fail(CUDA_ERROR_INVALID_CONTEXT),
            Some(id) if self.contexts.contains_key(&id) => Ok(id),
            Some(_) => fail(CUDA_ERROR_CONTEXT_IS_DESTROYED),
        }
    }

    pub(crate) fn check(&self, id: ContextId) -> Outcome {
        match self.contexts.get(&id) {
            None => fail(CUDA_ERROR_CONTEXT_IS_DESTROYED),
            Some(Context { lost: Some(failure), .. }) => Err(failure.clone()),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn context(&mut self, id: ContextId) -> Outcome<&mut Context> {
        self.contexts.get_mut(&id).ok_or_else(|| CUDA_ERROR_INVALID_CONTEXT.into())
    }
}
