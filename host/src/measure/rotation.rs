//! Rotated inputs, so that no run finds its input in the L2 cache.

use std::sync::Arc;

use crate::{Buffer, Device, Result, device::Allocation};

/// Slots in device memory, each with a copy of the input and room for the output. They are used in turn,
/// so that the next slot is always the least recently used.
pub struct Rotation {
    memory: Arc<Allocation>,
    start: u64,
    stride: u64,
    slots: u64,
    room: u64,
    /// Offset of the output from a slot's start.
    output: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Slot<'r> {
    memory: &'r Allocation,
    input: u64,
    output: u64,
    room: u64,
}

/// The total size of all slots, in multiples of the L2 cache, so that a slot is evicted before reuse.
const CACHES: u64 = 6;

impl Rotation {
    /// Creates slots for `runs` runs by `runners` that alternate. The number of slots is coprime to
    /// `runners`, so that each runner uses every slot.
    pub fn of(input: &Buffer, room: u64, runs: u64, runners: u64) -> Result<Self> {
        let (held, start) = input.place();
        let device = input.device();
        let stride = stride(input.bytes(), room);
        let slots = slots(stride, device.info().l2_bytes, runs, runners);
        if slots == 1 && room == 0 {
            let memory = held.clone();
            return Ok(Self { memory, start, stride, slots, room, output: 0 });
        }
        let stream = device.stream()?;
        Self::new(device, input.bytes(), room, slots, |memory| {
            // SAFETY: both memories live until the copy was waited for below, even after an error.
            let copied = unsafe { memory.copy_from(&stream, 0, held, start, input.bytes()) };
            stream.synchronize().and(copied)
        })
    }

    pub(super) fn upload(device: &Device, input: &[u8], room: u64, runs: u64) -> Result<Self> {
        let bytes = input.len() as u64;
        let slots = slots(stride(bytes, room), device.info().l2_bytes, runs, 1);
        Self::new(device, bytes, room, slots, |memory| memory.write(0, input))
    }

    /// Creates at most `slots` slots, as device memory allows. `write` stores the input in the first.
    fn new(
        device: &Device,
        bytes: u64,
        room: u64,
        slots: u64,
        write: impl FnOnce(&Allocation) -> Result<()>,
    ) -> Result<Self> {
        let l2 = device.info().l2_bytes;
        let stride = stride(bytes, room);
        let slots = slots.min((device.free_memory()? / 2 / stride).max(1));
        let memory = device.allocate(slots * stride)?;
        write(&memory)?;
        let stream = device.stream()?;
        // SAFETY: `memory` lives until the copies were waited for below, even after an error.
        let mut copy = |slot| unsafe { memory.copy_within(&stream, 0, slot * stride, bytes) };
        let copied = (1..slots).try_for_each(&mut copy);
        stream.synchronize().and(copied)?;
        // The copies are still in the cache: evict them.
        let flush = device.allocate(2 * l2)?;
        flush.fill(0, 0, 2 * l2)?;
        let output = room_offset(bytes);
        Ok(Self { memory: Arc::new(memory), start: 0, stride, slots, room, output })
    }

    /// Returns the bytes of device memory that a rotation needs in addition to the input.
    pub fn bytes(bytes: u64, room: u64, l2: u64, runs: u64, runners: u64) -> u64 {
        let stride = stride(bytes, room);
        match slots(stride, l2, runs, runners) {
            1 if room == 0 => 0,
            slots => slots.saturating_mul(stride),
        }
    }

    pub fn slot(&self, run: u64) -> Slot<'_> {
        let input = self.start + run % self.slots * self.stride;
        Slot { memory: &self.memory, input, output: input + self.output, room: self.room }
    }
}

impl Slot<'_> {
    /// Returns the address of the input.
    pub fn input(&self) -> u64 {
        self.memory.address() + self.input
    }

    /// Returns the address of the output.
    pub fn output(&self) -> u64 {
        self.memory.address() + self.output
    }

    /// Sets every byte of the output. Returns after they are set.
    pub fn poison(&self, byte: u8) -> Result<()> {
        self.memory.fill(self.output, byte, self.room)
    }

    /// Reads the output from its start.
    pub fn read(&self, bytes: &mut [u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= self.room, "{} of {} bytes", bytes.len(), self.room);
        self.memory.read(self.output, bytes)
    }
}

/// Returns the distance between slots. Saturates to a size that no memory has.
fn stride(bytes: u64, room: u64) -> u64 {
    room_offset(bytes).saturating_add(aligned(room))
}

pub(super) fn room_offset(bytes: u64) -> u64 {
    aligned(bytes).max(ALIGNMENT)
}

fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// Returns enough slots to evict each other from the cache, but at most one per run, rounded up to a
/// number coprime to `runners`.
fn slots(stride: u64, l2: u64, runs: u64, runners: u64) -> u64 {
    let enough = (CACHES * l2).div_ceil(stride).clamp(1, runs.max(1));
    if enough == 1 {
        return 1;
    }
    (enough..).find(|&slots| gcd(slots, runners.max(1)) == 1).expect("a prime is to be found")
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Slots and their parts are aligned like device allocations.
const ALIGNMENT: u64 = 256;

#[cfg(test)]
mod tests {
    use warpfold_driver::sys;

    use super::*;
    use crate::{Data, Selection};

    #[test]
    fn slot_count_exceeds_the_cache_and_is_coprime_to_runners() {
        let l2 = 60 << 20;
        // Small inputs: one slot per run.
        assert_eq!(slots(4096, l2, 100, 1), 100);
        assert_eq!(slots(4096, l2, 100, 2), 101);
        // Large inputs: six times the cache. At least two slots if a run may leave part of its input in
        // the cache.
        assert_eq!((slots(4 << 20, l2, 1000, 1), slots(256 << 20, l2, 1000, 1)), (90, 2));
        assert_eq!((slots(256 << 20, l2, 1000, 2), slots(1 << 30, l2, 1000, 2)), (3, 1));
        for runners in 1..60 {
            assert_eq!(gcd(slots(1 << 20, l2, 1000, runners), runners), 1, "{runners}");
        }
        assert_eq!(Rotation::bytes(1 << 30, 0, l2, 1000, 2), 0);
        assert_eq!(Rotation::bytes(256 << 20, 0, l2, 1000, 2), 3 * (256 << 20));
        assert_eq!(Rotation::bytes(1 << 30, 1 << 30, l2, 1000, 2), 2 << 30);
    }

    #[test]
    fn stride_saturates_on_overflow() {
        assert_eq!((stride(100, u64::MAX), stride(u64::MAX, 0)), (u64::MAX, u64::MAX));
        let device = Device::open(Selection::Sim).unwrap();
        let input = device.upload(&Data::U8(vec![0; 100])).unwrap();
        for room in [u64::MAX, u64::MAX - 300, 1 << 60] {
            let error = Rotation::of(&input, room, 3, 1).err().unwrap();
            assert!(matches!(error, crate::Error::OutOfMemory { .. }), "{error}");
        }
    }

    #[test]
    fn copies_are_waited_for_when_one_of_them_fails() {
        let device = Device::isolated(Selection::Sim).unwrap();
        let context = device.raw_context().unwrap().cast();
        let _no_findings = warpfold_sim_driver::NoFindings::in_context(context);
        for call in 1..3 {
            let fault = warpfold_sim_driver::inject(warpfold_sim_driver::Fault {
                function: "cuMemcpyDtoDAsync_v2",
                call,
                code: sys::CUDA_ERROR_UNKNOWN,
                sticky: false,
            });
            assert!(Rotation::new(&device, 100, 8, 3, |_| Ok(())).is_err() && fault.has_struck());
        }
    }

    #[test]
    fn every_slot_holds_the_input_and_has_room_of_its_own() {
        let device = Device::open(Selection::Sim).unwrap();
        let data = Data::U32((0..100).collect());
        let input = device.upload(&data).unwrap().slice(10..60).unwrap();
        let rotation = Rotation::new(&device, input.bytes(), 8, 3, |memory| {
            let (held, start) = input.place();
            let stream = device.stream()?;
            // SAFETY: the copy is waited for, and both memories live until then.
            unsafe { memory.copy_from(&stream, 0, held, start, input.bytes()) }?;
            stream.synchronize()
        });
        let rotation = rotation.unwrap();
        let mut bytes = [0; 200];
        for run in 0..6 {
            let slot = rotation.slot(run);
            slot.poison(7).unwrap();
            rotation.memory.read(slot.input, &mut bytes).unwrap();
            assert_eq!(&bytes, &data.as_bytes()[40..240], "{run}");
            assert_eq!(slot.input(), rotation.slot(run + 3).input());
            assert!(slot.output() >= slot.input() + 200);
        }
        let mut room = [0; 8];
        rotation.slot(1).read(&mut room).unwrap();
        assert_eq!(room, [7; 8]);
    }
}
