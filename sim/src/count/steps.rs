//! Steps of a block: what its warps do between two block barriers.

use super::tally::SharedAccess;

/// A step of all blocks together: what warps did between their `n`th block barrier
/// and the next, step 0 being what comes before the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Blocks that got there.
    pub blocks: u64,
    /// Warps with at least one lane that stored to shared memory, over all blocks.
    pub active_warps: u64,
    /// Blocks that had such a warp.
    pub active_blocks: u64,
    /// Lanes that stored, once per store instruction, over all blocks.
    pub stores: u64,
    /// Instructions that warps have issued.
    pub warp_instructions: u64,
    /// Accesses to the block's own shared memory.
    pub shared: SharedAccess,
}

/// A warp in a step of the block that the timeline shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WarpStep {
    /// Instructions that warps have issued.
    pub warp_instructions: u64,
    /// Lanes that stored to shared memory.
    pub stored: u32,
    /// Lanes that loaded from it.
    pub loaded: u32,
    /// Different words that each bank gave in its worst pass.
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
