//! The PTX simulator as a device.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
};

use warpfold_sim::{Args, Config, Gpu, Launch, Module};

use super::{Counters, DeviceInfo, Geometry, Kind, SimLaunch, Watcher, kernel::ArgumentList};
use crate::{Arch, Error, Result};

/// Bytes of simulated global memory, at most.
const MEMORY: u64 = 16 << 30;

pub(super) struct Sim {
    gpu: Gpu,
    info: DeviceInfo,
    /// Decoded modules by their text: one file holds all entries of a variant.
    modules: Mutex<HashMap<String, Module>>,
    watcher: Option<Arc<dyn Watcher>>,
}

pub(super) struct SimKernel {
    module: Module,
    entry: String,
}

/// Shared memory of a multiprocessor of compute capability 9.0, and what each block takes beside its
/// own.
const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
const RESERVED_PER_BLOCK: u32 = 1 << 10;

impl SimKernel {
    /// Blocks that threads and shared memory leave room for; the simulator has registers enough.
    pub(super) fn resident_blocks(&self, info: &DeviceInfo, block: u32, shared: u32) -> u32 {
        let entry = self.module.entry(&self.entry).expect("loaded with it");
        let bytes = entry.static_shared_bytes() + shared + RESERVED_PER_BLOCK;
        let by_shared = (SHARED_PER_MULTIPROCESSOR / bytes).max(1) * info.multiprocessors;
        info.resident_blocks(block).min(by_shared)
    }
}

impl Sim {
    /// A device with the limits of compute capability 9.0 and, so that default grids stay small, a
    /// few multiprocessors.
    pub(super) fn new(watcher: Option<Arc<dyn Watcher>>) -> Self {
        let info = DeviceInfo {
            kind: Kind::Sim,
            name: "PTX simulator".to_owned(),
            arch: Arch::new(9, 0),
            multiprocessors: 8,
            threads_per_multiprocessor: 2048,
            blocks_per_multiprocessor: 32,
            l2_bytes: 0,
            memory_bytes: MEMORY,
            peak_bandwidth: None,
            driver: None,
        };
        let config =
            Config { memory_limit: MEMORY, sm_count: info.multiprocessors, ..Config::default() };
        Self { gpu: Gpu::new(config), info, modules: Mutex::default(), watcher }
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(super) fn free_memory(&self) -> u64 {
        MEMORY.saturating_sub(self.gpu.memory_in_use())
    }

    pub(super) fn allocate(&self, bytes: u64) -> Result<u64> {
        let free = self.free_memory();
        if bytes > free {
            return Err(Error::OutOfMemory { device: self.info.name.clone(), needed: bytes, free });
        }
        let address = self.gpu.alloc(bytes).map_err(refused)?;
        self.tell(|watcher| watcher.allocated(address, bytes));
        Ok(address)
    }

    pub(super) fn free(&self, address: u64) {
        // An allocation is freed once, by its owner: there is nothing to report.
        let _ = self.gpu.free(address);
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.tell(|watcher| watcher.written(address, bytes.len() as u64));
        self.gpu.write(address, bytes).map_err(refused)
    }

    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.tell(|watcher| watcher.read(address, bytes.len() as u64));
        self.gpu.read(address, bytes).map_err(refused)
    }

    pub(super) fn fill(&self, address: u64, value: u8, len: u64) -> Result<()> {
        self.tell(|watcher| watcher.written(address, len));
        self.gpu.fill(address, value, len as usize).map_err(refused)
    }

    fn tell(&self, what: impl FnOnce(&dyn Watcher)) {
        if let Some(watcher) = &self.watcher {
            what(watcher.as_ref());
        }
    }

    pub(super) fn copy(&self, from: u64, to: u64, len: u64) -> Result<()> {
        let mut bytes = vec![0; len as usize];
        self.read(from, &mut bytes)?;
        self.write(to, &bytes)
    }

    pub(super) fn load(&self, path: &Path, ptx: &str, entry: &str) -> Result<SimKernel> {
        let module = self.module(path, ptx)?;
        if module.entry(entry).is_none() {
            return Err(Error::PtxMissing { what: entry.to_owned(), path: path.to_owned() });
        }
        Ok(SimKernel { module, entry: entry.to_owned() })
    }

    fn module(&self, path: &Path, ptx: &str) -> Result<Module> {
        // A panic while the lock was held can have left out a module, never a broken one.
        let mut modules = self.modules.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(module) = modules.get(ptx) {
            return Ok(module.clone());
        }
        let module = Module::parse(ptx)
            .map_err(|error| Error::PtxRejected { path: path.to_owned(), reason: error.to_string() })?;
        modules.insert(ptx.to_owned(), module.clone());
        Ok(module)
    }

    pub(super) fn launch(
        &self,
        kernel: &SimKernel,
        geometry: Geometry,
        arguments: ArgumentList<'_>,
    ) -> Result<Counters> {
        let Geometry { grid, block, shared, cluster, .. } = geometry;
        let cluster = (cluster > 1).then_some([cluster, 1, 1]);
        let launch = Launch { grid, block, dynamic_shared: shared, cluster };
        let SimKernel { module, entry } = kernel;
        let params = module.entry(entry).expect("loaded with it").params();
        let args = arguments
            .iter()
            .zip(params)
            .fold(Args::new(), |args, (argument, param)| args.bytes(argument, param.align));
        let launch = SimLaunch { gpu: &self.gpu, module, entry, shape: &launch, args: &args };
        let ran = self.watcher.as_ref().map_or_else(|| launch.run(), |watcher| watcher.launch(&launch));
        let stats = ran.map_err(refused)?;
        Ok(Counters {
            warp_instructions: stats.warp_instructions,
            thread_instructions: stats.thread_instructions,
            blocks: stats.blocks,
            launches: 1,
        })
    }
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::Simulator(error.to_string())
}
