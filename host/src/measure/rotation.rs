//! Inputs that take turns, so that each run finds its own out of the cache.

use std::sync::Arc;

use crate::{Buffer, Device, Result, device::Allocation};

/// Places in device memory, each with the input and room for what a run writes, taken in turn: the
/// next one is that which was touched longest ago.
pub struct Rotation {
    memory: Arc<Allocation>,
    /// Offset of the first one.
    start: u64,
    stride: u64,
    slots: u64,
    room: u64,
    /// Of the room, from a slot's start.
    output: u64,
}

/// Where one run reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct Slot<'r> {
    memory: &'r Allocation,
    input: u64,
    output: u64,
    room: u64,
}

/// Slots that together have this many times the cache's bytes leave it before they come round again.
const CACHES: u64 = 6;

impl Rotation {
    /// Slots for `runs` runs by `runners` that take turns. Their number has no divisor in common with
    /// that of the runners, so that each of these comes by every slot.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) and [`Error::Driver`](crate::Error::Driver).
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
            // SAFETY: the copy is waited for below, whatever came of it, and both memories live until
            // then.
            let copied = unsafe { memory.copy_from(&stream, 0, held, start, input.bytes()) };
            stream.synchronize().and(copied)
        })
    }

    /// Slots for `runs` runs of one runner, from host memory.
    pub(super) fn upload(device: &Device, input: &[u8], room: u64, runs: u64) -> Result<Self> {
        let bytes = input.len() as u64;
        let slots = slots(stride(bytes, room), device.info().l2_bytes, runs, 1);
        Self::new(device, bytes, room, slots, |memory| memory.write(0, input))
    }

    /// `slots` of them where they fit; `write` puts the input into the first.
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
        // SAFETY: the copies are waited for below, whatever came of them.
        let mut copy = |slot| unsafe { memory.copy_within(&stream, 0, slot * stride, bytes) };
        let copied = (1..slots).try_for_each(&mut copy);
        stream.synchronize().and(copied)?;
        // The copies have just gone through the cache: push them out.
        let flush = device.allocate(2 * l2)?;
        flush.fill(0, 0, 2 * l2)?;
        let output = room_offset(bytes);
        Ok(Self { memory: Arc::new(memory), start: 0, stride, slots, room, output })
    }

    /// Bytes that it takes on a device beside the input.
    pub fn bytes(bytes: u64, room: u64, l2: u64, runs: u64, runners: u64) -> u64 {
        let stride = stride(bytes, room);
        match slots(stride, l2, runs, runners) {
            1 if room == 0 => 0,
            slots => slots.saturating_mul(stride),
        }
    }

    /// Where the run of this number reads and writes.
    pub fn slot(&self, run: u64) -> Slot<'_> {
        let input = self.start + run % self.slots * self.stride;
        Slot { memory: &self.memory, input, output: input + self.output, room: self.room }
    }
}

impl Slot<'_> {
    /// The address of the input.
    pub fn input(&self) -> u64 {
        self.memory.address() + self.input
    }

    /// The address of what may be written.
    pub fn output(&self) -> u64 {
        self.memory.address() + self.output
    }

    /// Sets all that may be written to a byte. Returns when it is set.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    pub fn poison(&self, byte: u8) -> Result<()> {
        self.memory.fill(self.output, byte, self.room)
    }

    /// What was written, from the start.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    ///
    /// # Panics
    /// When so much may not be written.
    pub fn read(&self, bytes: &mut [u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= self.room, "{} of {} bytes", bytes.len(), self.room);
        self.memory.read(self.output, bytes)
    }
}

/// From one slot to the next; more than any memory has, where it would be more than a number holds.
fn stride(bytes: u64, room: u64) -> u64 {
    room_offset(bytes).saturating_add(aligned(room))
}

/// Where the room begins, counted from a slot's start.
pub(super) fn room_offset(bytes: u64) -> u64 {
    aligned(bytes).max(ALIGNMENT)
}

fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// As many slots as push each other out of the cache, or as there are runs if these are fewer. There may
/// be a few more, to have no divisor in common with the runners.
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

/// Slots, and what is in them, start where an allocation would.
const ALIGNMENT: u64 = 256;

#[cfg(test)]
mod tests {
    use warpfold_driver::sys;

    use super::*;
    use crate::{Data, Selection};

    #[test]
    fn slots_push_each_other_out_of_the_cache_and_are_shared_by_all() {
        let l2 = 60 << 20;
        // Small inputs: one slot a run, and no more.
        assert_eq!(slots(4096, l2, 100, 1), 100);
        assert_eq!(slots(4096, l2, 100, 2), 101);
        // Large ones: six caches full; two at least where one run leaves traces for the next.
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
    fn more_room_than_a_number_holds_is_more_than_any_memory_has() {
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
