//! The launch of the kernel for several buffers.

use std::ptr;

use warpfold_abi::{arguments::ReduceBuffers, custom::in_groups, reducer::GROUPS_IN_FLIGHT};

use super::BuffersTask;
use crate::{
    Result,
    geometry::GROUP_BYTES,
    input::Task,
    kernel_file::Family,
    names::KernelKind,
    reducer::{Code, ElementRange, Entry, Kernels, LaunchContext, Workspace, launch_with},
    tuning::{Blocks, Choice},
};

/// Small blocks: a multiprocessor has others to run while the threads of one search the table.
const CHOICE: Choice =
    Choice { kernel: KernelKind::Grid, block: 256, blocks: Blocks::PerMultiprocessor(8) };
/// Maximum number of 16-byte groups per tile. A thread searches the table once per tile.
const TILE_GROUPS: u64 = 4096;

/// Returns the number of elements per tile for `n` elements of `size` bytes in `count` buffers, and for
/// at most `most` blocks of `block` threads.
fn tile(n: u64, count: u64, most: u64, block: u64, size: u64) -> u64 {
    let lanes = if in_groups(size) { GROUP_BYTES / size } else { 1 };
    let least = block * u64::from(GROUPS_IN_FLIGHT) * lanes;
    let even = n.div_ceil(most).clamp(least, TILE_GROUPS * lanes);
    // A block reduces the buffers of a tile one after the other, so that many short ones need small
    // tiles.
    let short = n.div_ceil(count.min(most));
    even.min(short).next_multiple_of(lanes)
}

impl BuffersTask {
    fn entry<'k>(&'k self, kernels: &'k Kernels) -> Result<&'k Entry> {
        kernels.entry_of(Family::Buffers, &self.range.code, KernelKind::Grid as usize)
    }
}

impl Task for BuffersTask {
    fn is_empty(&self) -> bool {
        // `plan` makes this task for two or more buffers, each with elements.
        false
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.range.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.entry(kernels).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let &Self { ref range, table, count } = self;
        let ElementRange { ref code, n, address } = *range;
        let entry = self.entry(kernels)?;
        let choice = entry.fitting(CHOICE);
        let most = entry.resident(choice).min(Workspace::most_blocks(kernels.device()));
        let tile = tile(n, count, most.into(), choice.block.into(), code.element_bytes());
        let blocks = u32::try_from(n.div_ceil(tile)).map_or(most, |tiles| tiles.min(most));
        let shape = context.shape([blocks, choice.block], entry.overlaps);
        let arguments = ReduceBuffers::<u8> {
            input: ptr::without_provenance(address as usize),
            buffers: ptr::without_provenance(table as usize),
            count,
            tile,
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            form: code.form().code,
            ddof: code.form().ddof,
        };
        kernels.device().call("launching a reduction of several buffers", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - The table describes `count` buffers of `n` elements, whose memory the caller keeps with
            //   that of the table.
            // - The block has one of the kernel's sizes.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel's parameters were checked at load.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
