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
    /// Publishes what came before, as a barrier does that says nothing else.
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
        let matters = matches!(
            info.class,
            Class::Memory | Class::Copy | Class::Atomic | Class::Barrier | Class::Warp | Class::Fence
        );
        let mut order = Self {
            strong: info.class == Class::Atomic,
            release: info.class == Class::Barrier,
            fence: info.class == Class::Fence,
            matters,
            ..Self::default()
        };
        if !matters {
            return order;
        }
        for part in info.text.split(['.', ' ']) {
            match part {
                "acq_rel" | "sc" => (order.acquire, order.release) = (true, true),
                "acquire" => order.acquire = true,
                "release" => order.release = true,
                "volatile" => order.volatile = true,
                "relaxed" => (order.strong, order.release) = (true, false),
                "mmio" => order.strong = true,
                "cta" => order.block_only = true,
                "proxy" | "mbarrier_init" => order.fence = false,
                "wait_group" | "wait_all" => order.waits_for_copies = info.opcode == "cp",
                _ => {}
            }
        }
        order.strong |= order.acquire || order.release || order.volatile;
        order
    }

    /// Of all instructions of an entry.
    pub(super) fn of_entry(entry: &Entry) -> Vec<Self> {
        entry.instructions().iter().map(Self::of).collect()
    }
}
