//! Kernels and their launches.

use serde::Serialize;

use super::{Backend, Device, Stream, cuda, sim, stream::StreamInner};
use crate::{Error, Result};

/// A kernel ready to be launched.
pub struct Kernel {
    pub(super) device: Device,
    pub(super) inner: KernelInner,
}

pub(super) enum KernelInner {
    Cuda(cuda::CudaKernel),
    Sim(sim::SimKernel),
}

/// Shape of one launch.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Whether all blocks must be resident at once, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster along x, which reach each other's shared memory; 1 without clusters.
    pub cluster: u32,
    /// Whether a launch that is recorded in a graph may start before the one in front of it is over
    /// (programmatic dependent launch): the kernel then waits for that one itself, before it touches what
    /// that one uses. Older GPUs than those of compute capability 9.0 start it afterwards.
    pub overlapping: bool,
}

impl Geometry {
    /// Blocks and threads along x alone.
    pub const fn linear(grid: u32, block: u32, shared: u32) -> Self {
        Self {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared,
            cooperative: false,
            cluster: 1,
            overlapping: false,
        }
    }
}

/// What the simulator counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Instructions issued, once per warp.
    pub warp_instructions: u64,
    /// Instructions executed, once per active thread.
    pub thread_instructions: u64,
    /// Blocks run.
    pub blocks: u64,
    /// Kernel launches.
    pub launches: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.blocks += other.blocks;
        self.launches += other.launches;
    }
}

impl Kernel {
    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Blocks of this many threads and bytes of dynamic shared memory that the device can hold at once.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver does not answer.
    pub fn resident_blocks(&self, block: u32, shared: u32) -> Result<u32> {
        let info = self.device.info();
        match &self.inner {
            KernelInner::Cuda(kernel) => {
                let per_multiprocessor =
                    self.device.cuda().blocks_per_multiprocessor(kernel, block, shared)?;
                Ok(info.multiprocessors * per_multiprocessor)
            }
            KernelInner::Sim(kernel) => Ok(kernel.resident_blocks(info, block, shared)),
        }
    }

    /// Lets launches ask for up to `bytes` of dynamic shared memory, as more than 48 KiB need.
    ///
    /// # Errors
    /// [`Error::Driver`] when a block of the device has less.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        match &self.inner {
            KernelInner::Cuda(kernel) => self.device.cuda().allow_shared(kernel, bytes),
            // The simulator asks at the launch alone.
            KernelInner::Sim(_) => Ok(()),
        }
    }

    /// Enqueues a launch; the simulator runs it at once and returns what it counted. All arguments
    /// are 8 bytes, addresses and counts, as all kernels of the suite have them.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch is refused, [`Error::Simulator`] when the kernel fails,
    /// [`Error::Mismatch`] when the stream is another device's.
    ///
    /// # Safety
    /// The arguments must be what the kernel's contract asks for, and the memory they name must stay
    /// alive, and be left alone by others, until the stream has been synchronised.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &[u64],
    ) -> Result<Option<Counters>> {
        match (&self.inner, &stream.inner) {
            // SAFETY: the caller's contract.
            (KernelInner::Cuda(kernel), StreamInner::Cuda(stream)) => unsafe {
                self.device.cuda().launch(kernel, stream, geometry, arguments).map(|()| None)
            },
            (KernelInner::Sim(kernel), StreamInner::Sim) => match &*self.device.backend {
                Backend::Sim(sim) => sim.launch(kernel, geometry, arguments).map(Some),
                Backend::Cuda(_) => unreachable!("a simulated kernel has the simulator"),
            },
            _ => Err(Error::Mismatch {
                what: "stream",
                reason: format!(
                    "it belongs to {}, the kernel to {}",
                    stream.device.info().name,
                    self.device.info().name
                ),
            }),
        }
    }
}
