//! The reducer's kernels: loaded at first use, found again without a lock or an allocation.

use std::sync::OnceLock;

use warpfold_abi::arguments::ReduceCut;

use super::{
    Job,
    geometry::{Extent, Launch, MAX_ELEMENTS, Room, shared_bytes},
    tuning::{Choice, KernelKind, PerPair, Tuning},
    workspace::Workspace,
};
use crate::{
    Arch, Device, Dtype, Error, Op, PtxStore, Result, Stream,
    catalogue::reducer_ptx,
    device::{Geometry, Kernel, Launched, readable, writable},
    ptx::PtxFile,
};

/// The kernels of a device, and which of them to take.
pub(super) struct Kernels {
    device: Device,
    store: PtxStore,
    tuning: Tuning,
    loaded: PerPair<OnceLock<Loaded>>,
}

/// The kernels of an operation and type.
struct Loaded {
    grid: Entry,
    /// Where the device and the PTX have it.
    bulk: Option<Entry>,
}

/// The oldest architecture whose kernels wait themselves for the launch before.
const OVERLAPPING: Arch = Arch::new(9, 0);

/// A kernel, with what the driver says of it, so that a reduction need not ask.
struct Entry {
    kernel: Kernel<ReduceCut<()>>,
    /// Blocks resident at once, for each of its block sizes.
    resident: Vec<u32>,
    /// Whether it waits itself for the launch before: PTX for older architectures cannot.
    overlapping: bool,
}

impl Kernels {
    pub(super) fn new(device: &Device, store: &PtxStore, tuning: Tuning) -> Self {
        let (device, store) = (device.clone(), store.clone());
        Self { device, store, tuning, loaded: PerPair::default() }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Loads the kernels of an operation and type, unless they are.
    pub(super) fn prepare(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.find(op, dtype).map(drop)
    }

    fn find(&self, op: Op, dtype: Dtype) -> Result<&Loaded> {
        let cell = self.loaded.get(op, dtype);
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        // Two threads may both come here: they load the same, and one of them puts it there.
        let loaded = self.load(op, dtype)?;
        Ok(cell.get_or_init(|| loaded))
    }

    fn load(&self, op: Op, dtype: Dtype) -> Result<Loaded> {
        let id = reducer_ptx(op, dtype);
        let info = self.device.info();
        let ptx = self.store.find(&id, info)?;
        let grid = self.entry(&ptx, &id, KernelKind::Grid)?;
        let bulk = if info.arch < KernelKind::Bulk.min_arch() {
            None
        } else {
            match self.entry(&ptx, &id, KernelKind::Bulk) {
                Ok(entry) => Some(entry),
                // PTX for an older architecture, which runs here, has none.
                Err(Error::PtxMissing { .. }) => None,
                Err(error) => return Err(error),
            }
        };
        Ok(Loaded { grid, bulk })
    }

    fn entry(&self, ptx: &PtxFile, id: &str, kind: KernelKind) -> Result<Entry> {
        let kernel = self.device.load(&ptx.path, &ptx.text, &format!("{id}_{}", kind.name()))?;
        let shared = shared_bytes(kind);
        if shared > 0 {
            kernel.allow_shared(shared)?;
        }
        let resident = kind.block_sizes().iter().map(|&block| kernel.resident_blocks(block, shared));
        let overlapping = ptx.arch >= OVERLAPPING;
        Ok(Entry { resident: resident.collect::<Result<_>>()?, kernel, overlapping })
    }

    /// The launch of a job that is not empty: the tuning's choice, unless another is given.
    pub(super) fn plan(&self, job: &Job, choice: Option<Choice>) -> Result<Launch> {
        self.planned(job, choice).map(|(_, launch)| launch)
    }

    fn planned(&self, job: &Job, choice: Option<Choice>) -> Result<(&Entry, Launch)> {
        job.check()?;
        let loaded = self.find(job.op, job.dtype)?;
        let info = self.device.info();
        let (entry, choice) = match choice {
            Some(choice) => (loaded.entry_of(choice, &self.device)?, choice),
            None => {
                let choice = self.tuning.choice(job.op, job.dtype, job.bytes(), info);
                match (choice.kernel, &loaded.bulk) {
                    (KernelKind::Grid, _) => (&loaded.grid, choice),
                    (KernelKind::Bulk, Some(bulk)) => (bulk, choice),
                    (KernelKind::Bulk, None) => (&loaded.grid, Choice::WITHOUT_BULK),
                }
            }
        };
        let room = Room {
            multiprocessors: info.multiprocessors,
            resident: entry.resident(choice).min(Workspace::most_blocks(&self.device)),
        };
        Ok((entry, Launch::new(job.extent(), choice, room)))
    }

    /// Enqueues a job that is not empty.
    ///
    /// # Safety
    /// - The elements of the job must be readable on this device.
    /// - `output` must have [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES) writable bytes there,
    ///   8-aligned.
    /// - The workspace must be of this device, and nothing else use it.
    /// - All of them, and `self`, must live until `stream` was synchronised.
    pub(super) unsafe fn enqueue(
        &self,
        stream: &Stream,
        job: &Job,
        workspace: &Workspace,
        output: u64,
        choice: Option<Choice>,
    ) -> Result<Launched> {
        let (entry, launch) = self.planned(job, choice)?;
        // The kernels wait themselves for the launch before, where they touch slots or output. What they read
        // before are elements of a buffer, which nothing writes.
        let linear = Geometry::linear(launch.blocks, launch.block, launch.shared());
        let geometry = Geometry { overlapping: entry.overlapping, ..linear };
        let extent = job.extent();
        let arguments = ReduceCut {
            input: readable(job.address),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: writable(workspace.slots()),
            output: writable(output),
        };
        // SAFETY: the launch is one that the kernel takes:
        // - The input is cut at its 16-byte boundaries.
        // - The block has a size of the kernel's own, and a tile no more groups than its threads load at
        //   once.
        // - There are no more blocks than slots, and the slots are zero.
        // - The caller answers for the memory.
        unsafe { entry.kernel.launch(stream, geometry, &arguments) }
    }
}

impl Loaded {
    /// The kernel of a choice that somebody made on purpose: no other runs instead.
    fn entry_of(&self, choice: Choice, device: &Device) -> Result<&Entry> {
        let refused = |reason| Error::Mismatch { what: "choice", reason };
        choice.check(device.info().arch).map_err(refused)?;
        match choice.kernel {
            KernelKind::Grid => Ok(&self.grid),
            KernelKind::Bulk => self
                .bulk
                .as_ref()
                .ok_or_else(|| refused("the PTX has no bulk kernel; build it for sm_90".to_owned())),
        }
    }
}

impl Entry {
    /// Blocks of a choice that are resident at once; at least 1, which the driver refuses if need be.
    fn resident(&self, choice: Choice) -> u32 {
        let sizes = choice.kernel.block_sizes().iter();
        let mut counts = sizes.zip(&self.resident);
        let found = counts.find(|(size, _)| **size == choice.block);
        found.map_or(1, |(_, &count)| count.max(1))
    }
}

impl Job {
    /// # Errors
    /// [`Error::TooManyElements`]
    pub(super) fn check(&self) -> Result<()> {
        if self.n > MAX_ELEMENTS {
            return Err(Error::TooManyElements { n: self.n, most: MAX_ELEMENTS });
        }
        Ok(())
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::of(self.address, self.n, self.dtype.size() as u64)
    }

    /// Of the elements; at most 2^38.
    fn bytes(&self) -> u64 {
        self.n * self.dtype.size() as u64
    }
}
