//! The launches of the kernels for the elements of a buffer.

use std::ptr;

use warpfold_abi::arguments::{ReduceContinued, ReduceCounted, ReduceCut};
use warpfold_driver::LaunchShape;

use super::CountAt;
use crate::{
    Error, Result,
    geometry::{Launch, Room},
    input::{Task, rows::RowsTask},
    kernel_file::Family,
    names::{Dtype, Form, KernelKind, OpKind},
    reducer::{
        Code, ElementRange, Entry, Kernels, LaunchContext, Place, RunningState, Workspace, launch_with,
    },
    tuning::Choice,
};

#[derive(Debug, Clone)]
pub(crate) struct CountedTask {
    pub(crate) range: ElementRange,
    pub(crate) count: CountAt,
}

#[derive(Debug, Clone)]
pub(crate) struct ContinuedTask {
    pub(crate) range: ElementRange,
    pub(crate) carried: RunningState,
}

impl Task for ElementRange {
    fn is_empty(&self) -> bool {
        self.n == 0 && !self.code.launches_when_empty()
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn pollable_bytes(&self) -> Option<u64> {
        let can_poll = self.code.is_built_in() && self.code.form() == Form::OUTPUT;
        can_poll.then(|| self.bytes())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        planned(kernels, Family::Buffer, self, None).map(drop)
    }

    fn used_slot_bytes(&self, kernels: &Kernels) -> Result<Option<u64>> {
        let (_, Launch { blocks, .. }) = planned(kernels, Family::Buffer, self, None)?;
        // The last block has no slot.
        Ok(Some(u64::from(blocks - 1) * self.code.slot_bytes()))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let (entry, launch) = planned(kernels, Family::Buffer, self, context.choice)?;
        let shape = LaunchShape {
            shared_bytes: launch.shared(),
            ..context.shape([launch.blocks, launch.block], entry.overlaps)
        };
        const CALL: &str = "launching a reduction";
        if let Code::Fused(_) = self.code {
            // The kernels of tuples are for rows, and the buffer is a single one.
            let &Self { ref code, n, address } = self;
            let row = RowsTask { code: code.clone(), rows: 1, len: n, pitch: n, address };
            let arguments = row.arguments(launch.blocks, launch.tile, context);
            return kernels.device().call(CALL, |driver| {
                // SAFETY: the row is the buffer. Blocks, tile, slots and memory are as below.
                unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
            });
        }
        let extent = self.extent();
        let arguments = ReduceCut::<u8> {
            input: ptr::without_provenance(self.address as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            results: 1,
            form: self.code.form().code,
            ddof: self.code.form().ddof,
        };
        kernels.device().call(CALL, |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - The input is cut at its 16-byte boundaries.
            // - The block has one of the kernel's sizes, and a tile has no more groups than the block's
            //   threads load at once.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

impl Task for CountedTask {
    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.range.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        planned(kernels, Family::Counted, &self.range, None).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let Self { range, count } = self;
        let found = context.found.expect("`found` is set for counted tasks");
        let (entry, launch) = planned(kernels, Family::Counted, range, None)?;
        let shape = LaunchShape::new([launch.blocks, 1, 1], [launch.block, 1, 1]);
        let arguments = ReduceCounted::<u8> {
            input: ptr::without_provenance(range.address as usize),
            count: ptr::without_provenance(count.address as usize),
            count_words: count.words.into(),
            most: range.n,
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            found: ptr::without_provenance_mut(found as usize),
        };
        kernels.device().call("launching a counted reduction", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads at most `range.n` elements, whatever the count is.
            // - The block has one of the kernel's sizes.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

impl Task for ContinuedTask {
    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.range.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        planned(kernels, Family::Continued, &self.range, None).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let Self { range, carried } = self;
        let (entry, launch) = planned(kernels, Family::Continued, range, None)?;
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let extent = range.extent();
        let place = carried.meeting.unwrap_or(Place::NONE);
        let arguments = ReduceContinued::<u8> {
            input: ptr::without_provenance(range.address as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            before: carried.before,
            carried: ptr::without_provenance_mut(carried.address as usize),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            meeting: ptr::without_provenance_mut(place.meeting as usize),
            rank: place.rank.into(),
            members: place.members.into(),
            arrivals: place.arrivals,
            result: ptr::without_provenance_mut(place.result as usize),
            others: ptr::without_provenance(place.others.0 as usize),
            copies: place.others.1.into(),
        };
        kernels.device().call("launching a running reduction", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - The input is cut at its 16-byte boundaries; block, tile and number of blocks are those
            //   of `planned`, and the slots are zero.
            // - The running state was left by the same kernel after `before` elements.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid,
            //   including the memory in which devices exchange results.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

pub(crate) fn plan(kernels: &Kernels, range: &ElementRange, choice: Option<Choice>) -> Result<Launch> {
    planned(kernels, Family::Buffer, range, choice).map(|(_, launch)| launch)
}

fn planned<'k>(
    kernels: &'k Kernels,
    family: Family,
    range: &'k ElementRange,
    choice: Option<Choice>,
) -> Result<(&'k Entry, Launch)> {
    range.check()?;
    let find = |kind: KernelKind| kernels.find_of(family, &range.code, kind as usize);
    let arch = kernels.device().info().arch();
    let (entry, choice) = match choice {
        Some(choice) => {
            choice.check(arch).map_err(|reason| Error::Choice { reason })?;
            // No other kernel may replace the one of a caller's choice.
            let entry = find(choice.kernel)?.ok_or_else(|| {
                let reason = "the PTX has no bulk kernel; give PTX for sm_90".to_owned();
                Error::Choice { reason }
            })?;
            (entry, choice)
        }
        None => {
            let (op, dtype) = range.code.tuning_proxy();
            let choice = kernels.tuning().choice(op, dtype, range.bytes(), arch);
            let (entry, choice) = match find(choice.kernel)? {
                Some(entry) => (entry, choice),
                None => {
                    let grid = kernels.entry_of(family, &range.code, KernelKind::Grid as usize)?;
                    (grid, Choice::WITHOUT_BULK)
                }
            };
            (entry, entry.fitting(choice))
        }
    };
    Ok((entry, Launch::new(range.extent(), choice, room(kernels, entry, choice))))
}

/// Returns a launch choice for a kernel that was not measured, and the kernel's occupancy. The choice is
/// the tuning's choice for a sum of `bytes` bytes or, if that uses the bulk kernel,
/// [`Choice::WITHOUT_BULK`].
pub(crate) fn choose_as_sum(
    kernels: &Kernels,
    entry: &Entry,
    dtype: Dtype,
    bytes: u64,
) -> (Choice, Room) {
    let choice =
        kernels.tuning().choice(OpKind::Sum.plain(), dtype, bytes, kernels.device().info().arch());
    let choice = match choice.kernel {
        KernelKind::Grid => choice,
        KernelKind::Bulk => Choice::WITHOUT_BULK,
    };
    let choice = entry.fitting(choice);
    (choice, room(kernels, entry, choice))
}

fn room(kernels: &Kernels, entry: &Entry, choice: Choice) -> Room {
    let device = kernels.device();
    Room {
        multiprocessors: device.info().shape().multiprocessors,
        resident: entry.resident(choice).min(Workspace::most_blocks(device)),
    }
}
