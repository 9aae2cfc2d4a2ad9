//! The simulated device: memory, modules, launches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Launch, Stats};
use crate::decode::MAX_SHARED;
use crate::error::Error;
use crate::exec::{self, Launched, Limits, Off, On, Probe};
use crate::memory::{Allocation, Heap};
use crate::module::{Entry, Image, Module, Patch, PatchTarget};
use crate::observe::Observer;

/// Threads of a block, at most.
const MAX_THREADS: u64 = 1024;
/// Blocks of a cluster, at most; larger ones are not portable between devices.
const MAX_CLUSTER: u64 = 8;
/// Blocks of a grid in x, at most; in y and z at most 65535.
const MAX_GRID_X: u64 = (1 << 31) - 1;

/// A simulated GPU with its own global memory.
///
/// All methods take `&self`; several threads may copy and launch at once.
#[derive(Debug)]
pub struct Gpu {
    config: Config,
    heap: Heap,
    pool: Option<rayon::ThreadPool>,
    loaded: Mutex<HashMap<u64, Arc<Loaded>>>,
    launches: AtomicU64,
}

/// A module's variables on a device.
#[derive(Debug)]
struct Loaded {
    globals: Vec<Arc<Allocation>>,
    addresses: Vec<u64>,
    constants: Vec<u8>,
}

impl Gpu {
    /// A device without allocations.
    #[must_use]
    pub fn new(config: Config) -> Self {
        // A pool that cannot be built leaves rayon's global one.
        let pool = config
            .threads
            .filter(|&threads| threads > 1)
            .and_then(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok());
        Self { config, heap: Heap::new(), pool, loaded: Mutex::default(), launches: AtomicU64::new(0) }
    }

    /// The limits that the device was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Allocates zeroed memory, aligned to 256 bytes; 0 bytes give an address
    /// that may only be freed.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] when the bytes would pass the limit.
    pub fn alloc(&self, bytes: u64) -> Result<u64, Error> {
        Ok(self.allocate(bytes, || "an allocation".to_owned())?.base())
    }

    fn allocate(&self, bytes: u64, what: impl Fn() -> String) -> Result<Arc<Allocation>, Error> {
        let limit = self.config.memory_limit;
        self.heap.alloc(bytes, limit).map_err(|in_use| Error::MemoryLimit {
            what: what(),
            requested: bytes,
            in_use,
            limit,
        })
    }

    /// Frees an allocation by its first address. Launches that run meanwhile go
    /// on with the memory they started with; later ones find it out of bounds.
    ///
    /// # Errors
    /// [`Error::InvalidPointer`] when no live allocation starts there.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        if self.heap.free(address) { Ok(()) } else { Err(self.invalid("free", address, 0)) }
    }

    /// Copies bytes from the host.
    ///
    /// # Errors
    /// [`Error::InvalidPointer`] unless one live allocation holds all bytes.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Error> {
        self.with("write", address, from.len(), |memory, offset| memory.write(offset, from))
    }

    /// Copies bytes to the host.
    ///
    /// # Errors
    /// [`Error::InvalidPointer`] unless one live allocation holds all bytes.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        self.with("read", address, into.len(), |memory, offset| memory.read(offset, into))
    }

    /// Sets `bytes` bytes to `value`.
    ///
    /// # Errors
    /// [`Error::InvalidPointer`] unless one live allocation holds all bytes.
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error> {
        self.with("fill", address, bytes, |memory, offset| memory.fill(offset, value, bytes))
    }

    fn with(
        &self,
        operation: &'static str,
        address: u64,
        bytes: usize,
        run: impl FnOnce(&Allocation, u64),
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let view = self.heap.view();
        match view.find(address, bytes as u64, &mut 0) {
            Some(allocation) => {
                run(allocation, address - allocation.base());
                Ok(())
            }
            None => Err(self.invalid(operation, address, bytes as u64)),
        }
    }

    fn invalid(&self, operation: &'static str, address: u64, bytes: u64) -> Error {
        let nearest = format!("; {}", self.heap.view().nearest(address));
        Error::InvalidPointer { operation, address, bytes, nearest }
    }

    /// Bytes in live allocations.
    #[must_use]
    pub fn memory_in_use(&self) -> u64 {
        self.heap.in_use()
    }

    /// Address and bytes of a `.global` variable of a module, which is loaded if
    /// need be; `None` if it has no such variable.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] when the module's variables do not fit.
    pub fn symbol(&self, module: &Module, name: &str) -> Result<Option<(u64, u64)>, Error> {
        let loaded = self.load(module)?;
        let index = module.image().globals.iter().position(|variable| variable.name == name);
        Ok(index.map(|index| (loaded.globals[index].base(), loaded.globals[index].bytes())))
    }

    /// Forgets a module and frees its variables; a later launch loads it anew,
    /// with initial values.
    pub fn unload(&self, module: &Module) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = loaded.remove(&module.id()) {
            for global in &image.globals {
                // The caller may have freed a variable by its address.
                let _was_live = self.heap.free(global.base());
            }
        }
    }

    /// A module's variables, placed at its first use on this device.
    fn load(&self, module: &Module) -> Result<Arc<Loaded>, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
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
            match self.allocate(variable.bytes, what) {
                Ok(allocation) => globals.push(allocation),
                Err(error) => {
                    for placed in &globals {
                        let _was_live = self.heap.free(placed.base());
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
        let mut constants = image.constants.clone();
        patch(&mut constants, &image.constant_addresses, &addresses);
        Ok(Loaded { globals, addresses, constants })
    }

    /// Runs an entry to its end. `params` are the parameter bytes, such as an
    /// [`Args`](crate::Args).
    ///
    /// # Errors
    /// [`Error::Fault`] when a thread errs; the other kinds when the launch is
    /// not possible. Memory keeps what was stored until then.
    pub fn launch(
        &self,
        module: &Module,
        entry: &str,
        launch: &Launch,
        params: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Stats, Error> {
        self.run(module, entry, launch, params.as_ref(), &Off)
    }

    /// As [`launch`](Self::launch), with an observer of every instruction.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_observed<O: Observer>(
        &self,
        module: &Module,
        entry: &str,
        launch: &Launch,
        params: &(impl AsRef<[u8]> + ?Sized),
        observer: &O,
    ) -> Result<Stats, Error> {
        self.run(module, entry, launch, params.as_ref(), &On(observer))
    }

    fn run<P: Probe>(
        &self,
        module: &Module,
        name: &str,
        shape: &Launch,
        params: &[u8],
        probe: &P,
    ) -> Result<Stats, Error> {
        let entry = module.entry(name).ok_or_else(|| Error::UnknownEntry {
            name: name.to_owned(),
            available: available(module),
        })?;
        check_shape(entry, shape)?;
        let cluster = check_cluster(entry, shape)?;
        if params.len() != entry.param_bytes() {
            return Err(Error::ParameterBytes {
                kernel: name.to_owned(),
                given: params.len(),
                expected: entry.param_bytes(),
                params: entry.params().len(),
            });
        }
        let loaded = self.load(module)?;
        let launched = Launched {
            entry,
            shape: *shape,
            cluster: cluster.unwrap_or([1; 3]),
            explicit_cluster: cluster.is_some(),
            params,
            constants: &loaded.constants,
            globals: &loaded.addresses,
            view: self.heap.view(),
            config: &self.config,
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed),
        };
        let limits = Limits { in_use: self.heap.in_use(), limit: self.config.memory_limit };
        exec::run(&launched, probe, limits, self.pool.as_ref())
    }
}

/// Writes addresses into initial bytes.
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

fn available(module: &Module) -> String {
    let names: Vec<String> = module.entries().map(|entry| format!("`{}`", entry.name())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Checks that a quantity of a launch lies within its limits.
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

/// The cluster shape of a launch, if the launch or the entry states one.
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

/// Checks a launch against the device's limits and the entry's directives.
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
        check("block size", bx * by * bz, 1, extent.map(u64::from).iter().product())?;
    }
    let shared = u64::from(entry.static_shared_bytes()) + u64::from(shape.dynamic_shared);
    check("shared memory", shared, 0, MAX_SHARED)
}
