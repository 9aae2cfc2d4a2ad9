//! The kernels of a contest itself: an empty one, and one that sweeps the cache.

use std::path::Path;

use warpfold_abi::{Arguments, arguments};

use super::Contender;
use warpfold_suite::{
    Device, Dtype, Result, Stream,
    device::{Allocation, Geometry, Kernel, writable},
    measure::Slot,
};

const PTX: &str = include_str!("kernels.ptx");

const VECTOR_BYTES: u64 = 16;

fn load<A: Arguments>(device: &Device, entry: &str) -> Result<Kernel<A>> {
    device.load(Path::new("measure/src/contest/kernels.ptx"), PTX, entry)
}

/// A launch of one thread that does nothing, which measures the cost of a launch.
pub struct Empty(Kernel<arguments::Empty>);

impl Empty {
    pub fn new(device: &Device) -> Result<Self> {
        load(device, "warpfold_empty").map(Self)
    }
}

// SAFETY: the kernel reads and writes nothing.
unsafe impl Contender for Empty {
    fn device(&self) -> &Device {
        self.0.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        None
    }

    unsafe fn enqueue(&mut self, stream: &Stream, _slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the kernel accesses no memory.
        unsafe { self.0.launch(stream, Geometry::linear(1, 1, 0), &arguments::Empty {}) }.map(drop)
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        Ok(())
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        Ok(true)
    }
}

/// A kernel that evicts the L2 cache by reads, which leave nothing to be written back.
pub(super) struct Sweep {
    kernel: Kernel<arguments::Sweep>,
    memory: Allocation,
    geometry: Geometry,
}

impl Sweep {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let info = device.info();
        let bytes = (2 * info.l2_bytes).next_multiple_of(VECTOR_BYTES).max(VECTOR_BYTES);
        let memory = device.allocate(bytes)?;
        memory.fill(0, 0, bytes)?;
        let geometry = Geometry::linear(4 * info.multiprocessors, 256, 0);
        Ok(Self { kernel: load(device, "warpfold_sweep")?, memory, geometry })
    }

    /// # Safety
    /// `self` must live until the stream has been synchronised.
    pub(super) unsafe fn enqueue(&self, stream: &Stream) -> Result<()> {
        let arguments = arguments::Sweep {
            memory: writable(self.memory.address()),
            vectors: self.memory.bytes() / VECTOR_BYTES,
        };
        // SAFETY: the kernel reads `vectors` vectors, which is the whole memory. By this function's
        // contract, `self` and therefore the memory live until the stream has been synchronised.
        unsafe { self.kernel.launch(stream, self.geometry, &arguments) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::Selection;

    #[test]
    fn the_kernels_run() {
        let device = Device::open(Selection::Sim).unwrap();
        let stream = device.stream().unwrap();
        let empty = load(&device, "warpfold_empty").unwrap();
        // SAFETY: the kernel accesses no memory.
        let launched = unsafe { empty.launch(&stream, Geometry::linear(1, 1, 0), &arguments::Empty {}) };
        let launched = launched.unwrap();
        assert_eq!(launched.counters(), None, "it waits in the stream");
        stream.synchronize().unwrap();
        assert_eq!(launched.counters().unwrap().thread_instructions, 1);
    }

    #[test]
    fn a_sweep_reads_all_and_writes_nothing() {
        let device = Device::open(Selection::Sim).unwrap();
        let stream = device.stream().unwrap();
        let memory = device.allocate(16 * 100).unwrap();
        memory.fill(0, 0, 1600).unwrap();
        let sweep =
            Sweep { memory, geometry: Geometry::linear(1, 32, 0), ..Sweep::new(&device).unwrap() };
        // SAFETY: `sweep` lives until the stream has been synchronised.
        unsafe { sweep.enqueue(&stream) }.unwrap();
        stream.synchronize().unwrap();
        let mut bytes = [1; 1600];
        sweep.memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 1600]);
        // A nonzero last byte changes the first word, which shows that the last vector is read.
        sweep.memory.write(1599, &[1]).unwrap();
        // SAFETY: `sweep` lives until the stream has been synchronised.
        unsafe { sweep.enqueue(&stream) }.unwrap();
        stream.synchronize().unwrap();
        sweep.memory.read(0, &mut bytes).unwrap();
        assert_ne!(bytes[..4], [0; 4]);
    }
}
