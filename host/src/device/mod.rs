//! Where kernels run: an NVIDIA GPU through cust, or the PTX simulator.
//!
//! Both answer the same calls. What only one of them can do says so in its result: the simulator
//! has no times, the GPU no instruction counts.

mod cuda;
mod graph;
mod kernel;
mod memory;
mod signature;
mod sim;
mod stream;
mod watch;

use std::{fmt, marker::PhantomData, path::Path, str::FromStr, sync::Arc};

use serde::Serialize;
use warpfold_abi::Arguments;

use crate::{Arch, Error, Result, nearest};

use kernel::KernelInner;
use stream::StreamInner;

pub use cuda::{GpuProbe, probe};
pub use graph::Graph;
pub use kernel::{Counters, Geometry, Kernel, readable, writable};
pub(crate) use memory::ResultMemory;
pub use memory::{Allocation, Buffer, HostMemory, read_value};
pub use stream::{Event, Stream};
pub use watch::{SimLaunch, Watcher};

/// Which device a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// The GPU where the driver answers, else the simulator.
    #[default]
    Auto,
    /// An NVIDIA GPU.
    Cuda,
    /// The PTX simulator.
    Sim,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        match given {
            "auto" => Ok(Self::Auto),
            "cuda" => Ok(Self::Cuda),
            "sim" => Ok(Self::Sim),
            _ => Err(Error::UnknownName {
                what: "device",
                given: given.to_owned(),
                nearest: nearest(given, ["auto", "cuda", "sim"]),
                see: "there are auto, cuda and sim",
            }),
        }
    }
}

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An NVIDIA GPU.
    Cuda,
    /// The PTX simulator.
    Sim,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "cuda",
            Self::Sim => "sim",
        })
    }
}

/// What a device is and has.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceInfo {
    /// GPU or simulator.
    pub kind: Kind,
    /// Its name, for a GPU the driver's.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most threads resident on one multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Most blocks resident on one multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Bytes of L2 cache; 0 for the simulator.
    pub l2_bytes: u64,
    /// Bytes of global memory.
    pub memory_bytes: u64,
    /// Peak bandwidth of global memory in bytes per second, from its clock and bus width: two
    /// transfers per clock. None for the simulator.
    pub peak_bandwidth: Option<f64>,
    /// Version of the driver's CUDA interface, as (major, minor). None for the simulator.
    pub driver: Option<(u32, u32)>,
}

impl DeviceInfo {
    /// Blocks of this many threads that fill the device once, by threads alone.
    pub fn resident_blocks(&self, block: u32) -> u32 {
        let per_multiprocessor =
            (self.threads_per_multiprocessor / block).clamp(1, self.blocks_per_multiprocessor);
        self.multiprocessors * per_multiprocessor
    }
}

/// A GPU or the simulator. Clones are handles to the same device.
#[derive(Clone)]
pub struct Device {
    backend: Arc<Backend>,
}

enum Backend {
    Cuda(cuda::Cuda),
    Sim(sim::Sim),
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.info().name).finish()
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::NoCuda`] when a GPU is demanded and the driver does not answer.
    pub fn open(selection: Selection) -> Result<Self> {
        let backend = match selection {
            Selection::Sim => Backend::Sim(sim::Sim::new(None)),
            Selection::Cuda => Backend::Cuda(cuda::Cuda::open()?),
            Selection::Auto => match cuda::Cuda::open() {
                Ok(cuda) => Backend::Cuda(cuda),
                Err(Error::NoCuda { .. }) => Backend::Sim(sim::Sim::new(None)),
                Err(error) => return Err(error),
            },
        };
        Ok(Self { backend: Arc::new(backend) })
    }

    /// The simulator, watched: whatever runs on this device does so under the watcher's eyes.
    pub fn watched(watcher: Arc<dyn Watcher>) -> Self {
        Self { backend: Arc::new(Backend::Sim(sim::Sim::new(Some(watcher)))) }
    }

    /// What the device is and has.
    pub fn info(&self) -> &DeviceInfo {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda.info(),
            Backend::Sim(sim) => sim.info(),
        }
    }

    /// Bytes of device memory that are free now.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver does not answer.
    pub fn free_memory(&self) -> Result<u64> {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda.free_memory(),
            Backend::Sim(sim) => Ok(sim.free_memory()),
        }
    }

    /// Refuses before anything is allocated what cannot fit.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with what is needed and what is free.
    pub fn require_memory(&self, needed: u64) -> Result<()> {
        let free = self.free_memory()?;
        if needed > free {
            return Err(Error::OutOfMemory { device: self.info().name.clone(), needed, free });
        }
        Ok(())
    }

    /// A stream: launches on one run in order, launches on two may overlap.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses it.
    pub fn stream(&self) -> Result<Stream> {
        let inner = match &*self.backend {
            Backend::Cuda(cuda) => StreamInner::Cuda(cuda.stream()?),
            Backend::Sim(_) => StreamInner::Sim,
        };
        Ok(Stream { device: self.clone(), inner })
    }

    /// Whether both handles are the same device.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// Loads an entry of a PTX text, to be launched with the arguments `A`; `path` is what errors call
    /// the text.
    ///
    /// # Errors
    /// [`Error::PtxRejected`] when the device does not take the text, [`Error::PtxMissing`] when it
    /// has no such entry, [`Error::WrongParameters`] when the entry's parameters are not those of `A`.
    pub fn load<A: Arguments>(&self, path: &Path, ptx: &str, entry: &str) -> Result<Kernel<A>> {
        let inner = match &*self.backend {
            Backend::Cuda(cuda) => KernelInner::Cuda(cuda.load(path, ptx, entry)?),
            Backend::Sim(sim) => KernelInner::Sim(sim.load(path, ptx, entry)?),
        };
        signature::check(path, ptx, entry, A::PARAMETERS)?;
        Ok(Kernel { device: self.clone(), inner, arguments: PhantomData })
    }

    /// A point in a stream's work, with a time stamp; none in the simulator, which has no times.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    pub fn event(&self) -> Result<Option<Event>> {
        self.new_event(true)
    }

    /// A point in a stream's work; none in the simulator, which has finished whatever was enqueued.
    pub(crate) fn marker(&self) -> Result<Option<Event>> {
        self.new_event(false)
    }

    fn new_event(&self, timed: bool) -> Result<Option<Event>> {
        match &*self.backend {
            Backend::Cuda(cuda) => Ok(Some(Event { device: self.clone(), inner: cuda.event(timed)? })),
            Backend::Sim(_) => Ok(None),
        }
    }

    /// The CUDA backend behind an object that only it can have made.
    fn cuda(&self) -> &cuda::Cuda {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda,
            Backend::Sim(_) => unreachable!("the simulator makes no CUDA objects"),
        }
    }
}

/// A device that plans can be made for without one.
#[cfg(test)]
pub(crate) fn testing_info() -> DeviceInfo {
    sim::Sim::new(None).info().clone()
}
