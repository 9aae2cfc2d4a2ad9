//! Steps of a block: the work of its warps between two block barriers.

use super::tally::SharedAccess;

/// A step, summed over all blocks: the work of warps between their `n`th block barrier and the next one.
/// Step 0 precedes the first barrier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Blocks that reached the step.
    pub blocks: u64,
    /// Warps that stored to shared memory, over all blocks.
    pub active_warps: u64,
    /// Blocks in which at least one warp stored to shared memory.
    pub active_blocks: u64,
    /// Lanes that stored to shared memory, once per store instruction, over all blocks.
    pub stores: u64,
    /// Instructions issued by warps.
    pub warp_instructions: u64,
    /// Accesses to the block's own shared memory.
    pub shared: SharedAccess,
}

/// One warp's part of a step, for the timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WarpStep {
    /// Instructions issued by the warp.
    pub warp_instructions: u64,
    /// Lanes that stored to shared memory.
    pub stored: u32,
    /// Lanes that loaded from shared memory.
    pub loaded: u32,
    /// Number of different words that each bank supplied in its worst pass.
    pub banks: [u8; 32],
    /// Passes over the banks.
    pub wavefronts: u64,
}

/// The steps of one block, each with its warps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The block's number in the grid, x fastest.
    pub block: u64,
    /// The steps in order, each with an element for every warp of the block.
    pub steps: Vec<Vec<WarpStep>>,
}

impl Timeline {
    pub(super) fn at(&mut self, step: usize, warp: usize, warps: usize) -> &mut WarpStep {
        if self.steps.len() <= step {
            self.steps.resize_with(step + 1, || vec![WarpStep::default(); warps]);
        }
        &mut self.steps[step][warp]
    }
}

impl Step {
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.active_warps += other.active_warps;
        self.active_blocks += other.active_blocks;
        self.stores += other.stores;
        self.warp_instructions += other.warp_instructions;
        self.shared += other.shared;
    }
}
