//! What launches write: the slots through which blocks hand on their values, and the results.

use std::sync::atomic::{AtomicBool, Ordering};

use warpfold_abi::reducer::{OUTPUT_BYTES, SLOT_BYTES};

use super::{Answer, tuning::KernelKind};
use crate::{
    Device, Dtype, Error, Op, Result, Stream,
    device::{Allocation, Event, ResultMemory},
};

/// Words of a result.
const RESULT_WORDS: usize = OUTPUT_BYTES as usize / size_of::<u64>();

/// Memory for one order of launches at a time, and who has it.
pub(super) struct Workspace {
    slots: Allocation,
    results: ResultMemory,
    /// The end of what was enqueued last.
    end: Event,
    /// What it belongs to, for the error of whoever finds it taken.
    owner: &'static str,
    busy: AtomicBool,
    /// Whether slots may be something other than zero, because a launch failed.
    unsettled: AtomicBool,
}

impl Workspace {
    /// One for so many results at a time.
    pub(super) fn new(device: &Device, results: usize, owner: &'static str) -> Result<Self> {
        let slots = device.allocate(u64::from(Self::most_blocks(device)) * SLOT_BYTES)?;
        slots.fill(0, 0, slots.bytes())?;
        Ok(Self {
            slots,
            results: device.results(RESULT_WORDS * results)?,
            end: device.marker()?,
            owner,
            busy: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
        })
    }

    /// Blocks that there are slots for: as many as a device can hold.
    pub(super) fn most_blocks(device: &Device) -> u32 {
        device.info().resident_blocks(KernelKind::Grid.block_sizes()[0])
    }

    /// Where the slots are.
    pub(super) fn slots(&self) -> u64 {
        self.slots.address()
    }

    /// Where a kernel puts a result.
    pub(super) fn output(&self, result: usize) -> u64 {
        self.results.address(RESULT_WORDS * result)
    }

    /// Takes it, until [`release`](Self::release).
    ///
    /// # Errors
    /// [`Error::ReducerBusy`] when somebody has it.
    pub(super) fn claim(&self) -> Result<()> {
        // Acquires what the last one wrote before it released.
        self.busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
            .map_err(|_| Error::ReducerBusy { what: self.owner })
    }

    /// Gives it back. `failed` says whether a launch since the claim failed: kernels leave the slots at zero
    /// only if they come to their end. Nothing may run any more that uses it.
    pub(super) fn release(&self, failed: bool) {
        if failed {
            self.unsettled.store(true, Ordering::Relaxed);
        }
        self.busy.store(false, Ordering::Release);
    }

    /// Enqueues what makes the slots zero, if they may be something else.
    ///
    /// # Safety
    /// The caller has claimed it and keeps it until `stream` was synchronised.
    pub(super) unsafe fn settle(&self, stream: &Stream) -> Result<()> {
        if self.unsettled.load(Ordering::Relaxed) {
            // SAFETY: the caller's contract.
            unsafe { self.slots.fill_on(stream, 0, 0, self.slots.bytes()) }?;
            self.unsettled.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Marks the end of what was enqueued on a stream.
    pub(super) fn mark(&self, stream: &Stream) -> Result<()> {
        self.end.record(stream)
    }

    /// Waits for the end that was marked.
    pub(super) fn wait(&self) -> Result<()> {
        self.end.synchronize()
    }

    /// Whether that end has come.
    pub(super) fn is_ready(&self) -> Result<bool> {
        self.end.is_done()
    }

    /// A result of a launch that has ended well.
    pub(super) fn answer(&self, result: usize, op: Op, dtype: Dtype) -> Answer {
        Answer::from_words(op, dtype, self.results.read(RESULT_WORDS * result))
    }
}
