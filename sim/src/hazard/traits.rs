//! What an instruction's modifiers say about the order of memory.

use crate::module::{Entry, InstructionInfo};
use crate::observe::Class;

/// The order of an instruction's accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Atomic, relaxed, volatile or stronger: two such accesses do not race.
    pub(super) strong: bool,
    /// Volatile, and nothing stronger.
    pub(super) volatile: bool,
    /// Sees what a release published.
    pub(super) acquire: bool,
    /// Publishes what came before.
    pub(super) release: bool,
    /// Between the threads of a block alone.
    pub(super) block_only: bool,
    /// Whether it is a fence.
    pub(super) fence: bool,
    /// Waits for groups of asynchronous copies.
    pub(super) waits_for_copies: bool,
    /// Whether the instruction concerns hazards at all.
    pub(super) matters: bool,
}

impl Order {
    pub(super) fn of(info: &InstructionInfo) -> Self {
        let has = |modifier: &str| info.text.split(['.', ' ']).any(|part| part == modifier);
        let fence = info.class == Class::Fence && !has("proxy") && !has("mbarrier_init");
        let atomic = info.class == Class::Atomic;
        let both = has("acq_rel") || has("sc");
        let waits = info.opcode == "cp" && (has("wait_group") || has("wait_all"));
        let computes = !matches!(
            info.class,
            Class::Memory | Class::Copy | Class::Atomic | Class::Barrier | Class::Warp | Class::Fence
        );
        Self {
            strong: atomic
                || both
                || ["volatile", "relaxed", "acquire", "release", "mmio"].iter().any(|m| has(m)),
            volatile: has("volatile"),
            acquire: both || has("acquire"),
            release: both || has("release"),
            block_only: has("cta"),
            fence,
            waits_for_copies: waits,
            matters: !computes,
        }
    }

    /// Of all instructions of an entry.
    pub(super) fn of_entry(entry: &Entry) -> Vec<Self> {
        entry.instructions().iter().map(Self::of).collect()
    }
}
