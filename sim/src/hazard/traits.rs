//! Memory order of instructions, derived from their modifiers.

use crate::module::{Entry, InstructionInfo};
use crate::observe::Class;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Atomic, relaxed, volatile or stronger: two such accesses do not race.
    pub(super) strong: bool,
    /// Volatile, and not stronger.
    pub(super) volatile: bool,
    pub(super) acquire: bool,
    pub(super) release: bool,
    /// Marked `.relaxed`, so that the operation neither acquires nor releases.
    pub(super) relaxed: bool,
    pub(super) block_only: bool,
    pub(super) effect: Effect,
    pub(super) matters: bool,
}

/// Effect on memory order of an instruction without accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Effect {
    #[default]
    None,
    Fence,
    CopyWait,
    /// `wgmma.commit_group`
    ProductCommit,
    /// `wgmma.wait_group`, with the number of groups that may stay pending.
    ProductWait(u32),
}

impl Order {
    pub(super) fn of(info: &InstructionInfo) -> Self {
        let matters = matches!(
            info.class,
            Class::Memory | Class::Copy | Class::Atomic | Class::Barrier | Class::Warp | Class::Fence
        ) || info.opcode == "wgmma";
        let mut order = Self {
            strong: info.class == Class::Atomic,
            effect: if info.class == Class::Fence { Effect::Fence } else { Effect::None },
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
                "relaxed" => order.relaxed = true,
                "mmio" => order.strong = true,
                "cta" => order.block_only = true,
                "proxy" | "mbarrier_init" => order.effect = Effect::None,
                "wait_group" | "wait_all" if info.opcode == "cp" => order.effect = Effect::CopyWait,
                "commit_group" if info.opcode == "wgmma" => order.effect = Effect::ProductCommit,
                "wait_group" if info.opcode == "wgmma" => {
                    let count =
                        info.text.split(' ').find_map(|part| part.trim_end_matches(';').parse().ok());
                    order.effect = Effect::ProductWait(count.unwrap_or(0));
                }
                _ => {}
            }
        }
        order.strong |= order.acquire || order.release || order.volatile || order.relaxed;
        order
    }

    pub(super) fn of_entry(entry: &Entry) -> Vec<Self> {
        entry.instructions().iter().map(Self::of).collect()
    }
}
