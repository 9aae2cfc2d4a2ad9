//! The simulated device: memory, modules, launches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::{Config, Launch, Stats};
use crate::decode::MAX_SHARED;
use crate::error::Error;
use crate::exec::{self, Launched, Limits, Observed, Off, Probe, Steered, Unobserved};
use crate::memory::{AddressSpace, Allocation, Budget, DeviceHeap, GlobalMemory, Merged, lock};
use crate::module::{Entry, Image, Module, Patch, PatchTarget};
use crate::observe::Observer;
use crate::program::Special;
use crate::texture::{Objects, Texels, Texture, new_handle};

const MAX_THREADS: u64 = 1024;
/// Maximum blocks of a cluster; larger ones are not portable between devices.
const MAX_CLUSTER: u64 = 8;
/// Maximum blocks of a grid in x; in y and z the maximum is 65535.
const MAX_GRID_X: u64 = (1 << 31) - 1;

/// A simulated GPU with its own global memory.
///
/// All methods take `&self`; several threads may copy and launch at once.
#[derive(Debug)]
pub struct Gpu {
    config: Config,
    memory: GlobalMemory,
    /// The memories that are visible to launches.
    seen: Mutex<Merged>,
    pool: Option<rayon::ThreadPool>,
    loaded: Mutex<HashMap<u64, Arc<Loaded>>>,
    launches: AtomicU64,
    /// Output of `printf` that was not taken yet.
    printed: Mutex<Vec<u8>>,
    heap: Mutex<Heap>,
    objects: Mutex<Arc<Objects>>,
    /// Values of the conditional handles of graphs.
    conditions: Mutex<HashMap<u64, u32>>,
}

/// The heap for `malloc` in kernels, allocated when the first kernel needs it.
#[derive(Debug)]
struct Heap {
    bytes: u64,
    made: Option<Arc<DeviceHeap>>,
}

impl Default for Heap {
    fn default() -> Self {
        Self { bytes: 8 << 20, made: None }
    }
}

#[derive(Debug)]
struct Loaded {
    globals: Vec<Arc<Allocation>>,
    addresses: Vec<u64>,
    /// Initial const memory of each launch, if the module has any; the host may write to it.
    constants: Option<Arc<Allocation>>,
}

impl Loaded {
    fn constants(&self) -> Vec<u8> {
        self.constants.as_ref().map_or_else(Vec::new, |constants| {
            let mut bytes = vec![0; constants.bytes() as usize];
            constants.read(0, &mut bytes);
            bytes
        })
    }
}

#[derive(Debug)]
pub(crate) struct Prepared<'p> {
    entry: &'p Entry,
    shape: Launch,
    cluster: Option<[u32; 3]>,
    params: &'p [u8],
    loaded: Arc<Loaded>,
    constants: Vec<u8>,
    workspace: Option<Workspace>,
    heap: Option<Arc<DeviceHeap>>,
}

/// Memory of a cooperative launch's grid barrier: a 32-bit size, which is 8, and a 32-bit block counter.
#[derive(Debug)]
struct Workspace {
    memory: GlobalMemory,
    address: u64,
}

impl Workspace {
    const BYTES: u64 = 8;

    fn new(memory: &GlobalMemory) -> Result<Self, Error> {
        let address = memory.alloc(Self::BYTES)?;
        let workspace = Self { memory: memory.clone(), address };
        memory.write(address, &Self::BYTES.to_le_bytes())?;
        Ok(workspace)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // This fails only if the workspace was already freed, which is harmless.
        let _ = self.memory.free(self.address);
    }
}

impl Prepared<'_> {
    pub(crate) fn in_clusters(&self) -> bool {
        self.cluster.is_some_and(|shape| shape != [1; 3])
    }
}

impl Gpu {
    /// Creates a device with an empty memory of its own.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let addresses = AddressSpace::of_device(0, Budget::new(config.memory_limit));
        Self::with_memory(config, GlobalMemory::new(Arc::new(addresses)))
    }

    /// Creates a device that allocates from the given memory, whose budget replaces
    /// [`Config::memory_limit`].
    #[must_use]
    pub fn with_memory(config: Config, memory: GlobalMemory) -> Self {
        // If the pool cannot be built, rayon's global one is used.
        let pool = config
            .threads
            .filter(|&threads| threads > 1 && exec::has_threads())
            .and_then(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok());
        let seen = Mutex::new(Merged::new(vec![memory.clone()]));
        Self {
            config,
            memory,
            seen,
            pool,
            loaded: Mutex::default(),
            launches: AtomicU64::new(0),
            printed: Mutex::default(),
            heap: Mutex::default(),
            objects: Mutex::default(),
            conditions: Mutex::default(),
        }
    }

    /// Returns the configuration of the device.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the memory that the device allocates from.
    #[must_use]
    pub fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    /// Makes other memories, such as those of the host or of peers, visible to later launches in
    /// addition to the device's own. Replaces the memories of the previous call. No address may be in
    /// two of them.
    pub fn see(&self, others: impl IntoIterator<Item = GlobalMemory>) {
        let memories = std::iter::once(self.memory.clone()).chain(others).collect();
        *lock(&self.seen) = Merged::new(memories);
    }

    /// Allocates memory of the device; see [`GlobalMemory::alloc`].
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::alloc`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, Error> {
        self.memory.alloc(bytes)
    }

    /// Frees memory of the device; see [`GlobalMemory::free`].
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::free`].
    pub fn free(&self, address: u64) -> Result<(), Error> {
        self.memory.free(address)
    }

    /// Copies bytes to the device's own memory; see [`GlobalMemory::write`].
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::write`].
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Error> {
        self.memory.write(address, from)
    }

    /// Copies bytes from the device's own memory; see [`GlobalMemory::read`].
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::read`].
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        self.memory.read(address, into)
    }

    /// Sets `bytes` bytes of the device's own memory to `value`.
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::fill`].
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error> {
        self.memory.fill(address, u64::from_le_bytes([value; 8]), bytes as u64)
    }

    /// Returns the number of bytes in live allocations of the device's own memory.
    #[must_use]
    pub fn memory_in_use(&self) -> u64 {
        self.memory.in_use()
    }

    /// Returns the address and the size in bytes of a `.global` or `.const` variable of a module, which
    /// is loaded if necessary; `None` if it has no such variable. Writes to a `.const` variable take
    /// effect in later launches.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] when the module's variables do not fit.
    pub fn symbol(&self, module: &Module, name: &str) -> Result<Option<(u64, u64)>, Error> {
        let loaded = self.loaded(module)?;
        let image = module.image();
        if let Some(index) = image.globals.iter().position(|variable| variable.name == name) {
            return Ok(Some((loaded.globals[index].base(), loaded.globals[index].bytes())));
        }
        let found = image.constant_variables.iter().find(|variable| variable.name == name);
        let base = loaded.constants.as_ref().map(|constants| constants.base());
        Ok(found.zip(base).map(|(variable, base)| (base + variable.start, variable.bytes)))
    }

    /// Unloads a module and frees its variables; a later launch loads it again, with initial values.
    pub fn unload(&self, module: &Module) {
        let mut loaded = lock(&self.loaded);
        if let Some(image) = loaded.remove(&module.id()) {
            for global in image.globals.iter().chain(&image.constants) {
                // The caller may already have freed a variable with `Gpu::free`.
                let _was_live = self.memory.free(global.base());
            }
        }
    }

    /// Allocates and initialises a module's variables, unless they are loaded. Without this call, the
    /// first launch of the module loads them.
    ///
    /// # Errors
    /// Returns the errors of [`GlobalMemory::alloc`].
    pub fn load(&self, module: &Module) -> Result<(), Error> {
        self.loaded(module).map(|_| ())
    }

    /// Returns a module's variables, which are allocated at the first use on this device.
    fn loaded(&self, module: &Module) -> Result<Arc<Loaded>, Error> {
        let mut loaded = lock(&self.loaded);
        if let Some(found) = loaded.get(&module.id()) {
            return Ok(Arc::clone(found));
        }
        let image = self.place(module.image())?;
        let image = Arc::new(image);
        loaded.insert(module.id(), Arc::clone(&image));
        Ok(image)
    }

    fn place(&self, image: &Image) -> Result<Loaded, Error> {
        let mut globals: Vec<Arc<Allocation>> = Vec::with_capacity(image.globals.len());
        for variable in &image.globals {
            let what = || format!("global variable `{}`", variable.name);
            match self.memory.allocate(variable.bytes, what) {
                Ok(allocation) => {
                    allocation.set_name(&variable.name);
                    globals.push(allocation);
                }
                Err(error) => {
                    for placed in &globals {
                        let _was_live = self.memory.free(placed.base());
                    }
                    return Err(error);
                }
            }
        }
        let addresses: Vec<u64> = globals.iter().map(|global| global.base()).collect();
        for (variable, allocation) in image.globals.iter().zip(&globals) {
            let mut init = variable.init.clone();
            patch(&mut init, &variable.addresses, &addresses);
            allocation.write(0, &init);
        }
        let constants = match image.constants.len() {
            0 => None,
            bytes => {
                let what = || "const memory".to_owned();
                let constants = self.memory.allocate(bytes as u64, what).inspect_err(|_| {
                    for placed in &globals {
                        let _was_live = self.memory.free(placed.base());
                    }
                })?;
                let mut init = image.constants.clone();
                patch(&mut init, &image.constant_addresses, &addresses);
                constants.write(0, &init);
                constants.set_name("const memory");
                Some(constants)
            }
        };
        Ok(Loaded { globals, addresses, constants })
    }

    /// Runs the kernel named `entry` to completion. `params` are the parameter bytes, such as an
    /// [`Args`](crate::Args).
    ///
    /// # Errors
    /// [`Error::UnknownEntry`] and [`Error::BrokenEntry`] for an entry that does not exist or is not
    /// supported, [`Error::InvalidLaunch`] for a shape that is out of range, [`Error::ParameterBytes`]
    /// for a wrong number of parameter bytes, and [`Error::MemoryLimit`] if there is no memory for the
    /// blocks or the module's variables. [`Error::Fault`] if a thread fails, a barrier deadlocks, or a
    /// limit of [`Config`] is reached: memory then keeps the stores up to the failure.
    pub fn launch(
        &self,
        module: &Module,
        entry: &str,
        launch: &Launch,
        params: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Stats, Error> {
        match launch.seed {
            None => self.run(module, entry, launch, params.as_ref(), &Off),
            Some(_) => self.launch_observed(module, entry, launch, params, &Unobserved),
        }
    }

    /// Like [`launch`](Self::launch), with an observer of every instruction.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](Self::launch).
    pub fn launch_observed<O: Observer>(
        &self,
        module: &Module,
        entry: &str,
        launch: &Launch,
        params: &(impl AsRef<[u8]> + ?Sized),
        observer: &O,
    ) -> Result<Stats, Error> {
        match launch.seed {
            None => self.run(module, entry, launch, params.as_ref(), &Observed::by(observer)),
            Some(seed) => {
                let probe = Steered::seeded(seed, observer);
                self.run(module, entry, launch, params.as_ref(), &probe)
            }
        }
    }

    fn run<P: Probe>(
        &self,
        module: &Module,
        name: &str,
        shape: &Launch,
        params: &[u8],
        probe: &P,
    ) -> Result<Stats, Error> {
        let prepared = self.prepare(module, name, shape, params)?;
        let mut launched = self.launched(&prepared);
        if P::ENABLED {
            let instructions = prepared.entry.instructions().iter();
            launched.ignored = instructions.map(|instruction| probe.ignores(instruction)).collect();
        }
        let limits = Limits {
            in_use: self.memory.budget().map_or(0, Budget::used),
            limit: self
                .memory
                .budget()
                .map_or(self.config.memory_limit, |budget| budget.used().saturating_add(budget.free())),
        };
        exec::run(&launched, probe, limits, self.pool.as_ref())
    }

    /// Returns and removes the output of `printf` since the last call, in the order in which the threads
    /// printed. Output past 64 MiB is dropped.
    pub fn take_printed(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.printed))
    }

    /// Creates a texture and returns its handle, which kernels take as 64 bits. The memory remains the
    /// caller's: reading a texel that is not allocated is a fault.
    pub fn create_texture(&self, texture: Texture) -> u64 {
        let handle = new_handle();
        Arc::make_mut(&mut lock(&self.objects)).textures.insert(handle, texture);
        handle
    }

    /// Destroys a texture; returns `false` if no texture has this handle.
    pub fn destroy_texture(&self, handle: u64) -> bool {
        Arc::make_mut(&mut lock(&self.objects)).textures.remove(&handle).is_some()
    }

    /// Creates a surface and returns its handle, like [`create_texture`](Self::create_texture). Kernels
    /// can also write to a surface.
    pub fn create_surface(&self, texels: Texels) -> u64 {
        let handle = new_handle();
        Arc::make_mut(&mut lock(&self.objects)).surfaces.insert(handle, texels);
        handle
    }

    /// Destroys a surface; returns `false` if no surface has this handle.
    pub fn destroy_surface(&self, handle: u64) -> bool {
        Arc::make_mut(&mut lock(&self.objects)).surfaces.remove(&handle).is_some()
    }

    /// Sets the value of a graph's conditional handle, which kernels of later launches change by
    /// `cudaGraphSetConditional`. Using any other handle is a fault.
    pub fn set_condition(&self, handle: u64, value: u32) {
        lock(&self.conditions).insert(handle, value);
    }

    /// Returns the current value of a conditional handle; `None` if the handle does not exist.
    pub fn condition(&self, handle: u64) -> Option<u32> {
        lock(&self.conditions).get(&handle).copied()
    }

    /// Removes a conditional handle; returns `false` if it does not exist.
    pub fn forget_condition(&self, handle: u64) -> bool {
        lock(&self.conditions).remove(&handle).is_some()
    }

    /// Sets the size in bytes of the heap for the `malloc` of kernels, by default 8 MiB. Returns `false`
    /// once a kernel that may allocate was launched; the heap then counts as device memory.
    pub fn set_heap_bytes(&self, bytes: u64) -> bool {
        let mut heap = lock(&self.heap);
        let can = heap.made.is_none();
        if can {
            heap.bytes = bytes;
        }
        can
    }

    fn heap(&self) -> Result<Arc<DeviceHeap>, Error> {
        let mut heap = lock(&self.heap);
        if let Some(made) = &heap.made {
            return Ok(Arc::clone(made));
        }
        let memory = self.memory.allocate(heap.bytes, || "the heap of kernels".to_owned())?;
        let made = Arc::new(DeviceHeap::new(memory));
        heap.made = Some(Arc::clone(&made));
        Ok(made)
    }

    pub(crate) fn prepare<'p>(
        &self,
        module: &'p Module,
        name: &str,
        shape: &Launch,
        params: &'p [u8],
    ) -> Result<Prepared<'p>, Error> {
        let entry = module.find(name)?;
        let cluster = check(entry, shape)?;
        if params.len() != entry.param_bytes() {
            return Err(Error::ParameterBytes {
                kernel: name.to_owned(),
                given: params.len(),
                expected: entry.param_bytes(),
                params: entry.params().len(),
            });
        }
        let loaded = self.loaded(module)?;
        let constants = loaded.constants();
        let needs = shape.cooperative && entry.program.reads(Special::is_workspace);
        let workspace = needs.then(|| Workspace::new(&self.memory)).transpose()?;
        let allocates = !entry.program.heap_calls.is_empty();
        let heap = allocates.then(|| self.heap()).transpose()?;
        Ok(Prepared { entry, shape: *shape, cluster, params, loaded, constants, workspace, heap })
    }

    pub(crate) fn launched<'p>(&'p self, prepared: &'p Prepared<'_>) -> Launched<'p> {
        let Prepared { entry, shape, cluster, params, loaded, constants, workspace, heap } = prepared;
        Launched {
            entry,
            shape: *shape,
            cluster: cluster.unwrap_or([1; 3]),
            explicit_cluster: cluster.is_some(),
            params,
            constants,
            globals: &loaded.addresses,
            view: lock(&self.seen).view(),
            config: &self.config,
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed),
            printed: &self.printed,
            objects: Arc::clone(&lock(&self.objects)),
            conditions: &self.conditions,
            heap: heap.clone(),
            reserves: entry.program.reads(Special::is_reserved),
            workspace: workspace.as_ref().map_or(0, |workspace| workspace.address),
            moves: exec::moves(),
            ignored: Vec::new(),
        }
    }
}

fn patch(bytes: &mut [u8], patches: &[Patch], globals: &[u64]) {
    for patch in patches {
        let target = match patch.target {
            PatchTarget::Global(index) => globals[index],
            PatchTarget::Fixed(address) => address,
        };
        let value = target.wrapping_add(patch.addend as u64).to_le_bytes();
        let room = bytes.len().saturating_sub(patch.at).min(8);
        bytes[patch.at..patch.at + room].copy_from_slice(&value[..room]);
    }
}

pub(crate) fn check(entry: &Entry, shape: &Launch) -> Result<Option<[u32; 3]>, Error> {
    check_shape(entry, shape)?;
    check_cluster(entry, shape)
}

fn within(entry: &Entry, what: &'static str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Err(invalid(entry, what, value, allowed))
}

fn invalid(entry: &Entry, what: &'static str, value: u64, allowed: String) -> Error {
    Error::InvalidLaunch { kernel: entry.name().to_owned(), what, value, allowed }
}

/// Returns the cluster shape of a launch, if the launch or the entry states one.
fn check_cluster(entry: &Entry, shape: &Launch) -> Result<Option<[u32; 3]>, Error> {
    let Some(cluster) = shape.cluster.or(entry.required_cluster()) else {
        if entry.cluster.explicit {
            let allowed = format!("1 to {MAX_CLUSTER}, which the launch must state");
            return Err(invalid(entry, "cluster size", 0, allowed));
        }
        return Ok(None);
    };
    let axes = ["cluster.x", "cluster.y", "cluster.z"].into_iter().zip(cluster.map(u64::from));
    for ((what, blocks), required) in axes.zip(entry.required_cluster().unwrap_or(cluster)) {
        within(entry, what, blocks, 1, MAX_CLUSTER)?;
        within(entry, what, blocks, required.into(), required.into())?;
    }
    let most = entry.max_cluster_blocks().map_or(MAX_CLUSTER, |most| MAX_CLUSTER.min(most.into()));
    within(entry, "cluster size", cluster.map(u64::from).iter().product(), 1, most)?;
    let grid = ["grid.x", "grid.y", "grid.z"].into_iter().zip(shape.grid);
    for ((what, blocks), cluster) in grid.zip(cluster) {
        if blocks % cluster != 0 {
            let allowed = format!("a multiple of {cluster}, the cluster's extent");
            return Err(invalid(entry, what, blocks.into(), allowed));
        }
    }
    Ok(Some(cluster))
}

fn check_shape(entry: &Entry, shape: &Launch) -> Result<(), Error> {
    let check = |what, value, least, most| within(entry, what, value, least, most);
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid.map(u64::from), shape.block.map(u64::from));
    check("grid.x", gx, 1, MAX_GRID_X)?;
    check("grid.y", gy, 1, 65_535)?;
    check("grid.z", gz, 1, 65_535)?;
    check("block.x", bx, 1, MAX_THREADS)?;
    check("block.y", by, 1, MAX_THREADS)?;
    check("block.z", bz, 1, 64)?;
    check("block size", bx * by * bz, 1, MAX_THREADS)?;
    if let Some([x, y, z]) = entry.required_threads() {
        check("block.x", bx, x.into(), x.into())?;
        check("block.y", by, y.into(), y.into())?;
        check("block.z", bz, z.into(), z.into())?;
    }
    if let Some(extent) = entry.max_threads() {
        let most = extent.map(u64::from).into_iter().fold(1, u64::saturating_mul);
        check("block size", bx * by * bz, 1, most)?;
    }
    let shared = u64::from(entry.static_shared_bytes()) + u64::from(shape.dynamic_shared);
    check("shared memory", shared, 0, MAX_SHARED)
}
