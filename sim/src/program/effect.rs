//! Effects of instructions besides computing registers: the one table that the decoder, the instruction
//! loop and the probes read.

use super::{AtomicOp, Op, Program, Strength};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Accesses memory; has the index in `Program::accesses`. Atomics are writes.
    Read(u32),
    Write(u32),
    /// Continues at an instruction, or at one of the targets in an entry of `Program::tables`.
    Branch(u32),
    BranchTable(u32),
    End,
    /// Waits for other warps, so that the turn may end; has the index in `Program::barriers`.
    Barrier(u32),
    /// Lanes or warps must converge here, or may have to in a called function.
    Converge,
    /// A sequentially consistent fence (`fence.sc`).
    Fence,
    /// Waits for the previous launch (`griddepcontrol.wait`).
    Depend,
    ReadTime,
}

impl Effect {
    pub(crate) const fn converges(self) -> bool {
        matches!(self, Self::Barrier(_) | Self::Converge)
    }

    /// Returns whether no executing lane continues at the next instruction.
    pub(crate) const fn leaves(self) -> bool {
        matches!(self, Self::Branch(_) | Self::BranchTable(_) | Self::End)
    }
}

impl Op {
    pub(crate) const fn effect(&self) -> Effect {
        match *self {
            Self::Load(access) => Effect::Read(access),
            Self::Store(access) | Self::Atomic(access) => Effect::Write(access),
            Self::Branch { target, .. } => Effect::Branch(target),
            Self::BranchIndex { table, .. } => Effect::BranchTable(table),
            Self::Exit | Self::Return | Self::Trap | Self::Assertion(_) => Effect::End,
            Self::Barrier(barrier) => Effect::Barrier(barrier),
            Self::Call(_) | Self::Matrix(_) | Self::ClusterBarrier { .. } | Self::Collective { .. } => {
                Effect::Converge
            }
            Self::Fence { sc: true, .. } => Effect::Fence,
            Self::GridDependency { wait: true } => Effect::Depend,
            Self::Timer { .. } => Effect::ReadTime,
            Self::Alu { .. } | Self::Compare { .. } | Self::Set { .. } | Self::ActiveMask { .. } => {
                Effect::None
            }
            Self::Async(_) | Self::Texture(_) | Self::Print(_) | Self::Heap(_) | Self::Condition(_) => {
                Effect::None
            }
            Self::Fence { .. }
            | Self::GridDependency { .. }
            | Self::Sleep
            | Self::Stack(_)
            | Self::Nop => Effect::None,
        }
    }

    /// Returns the reconvergence point of a branch.
    pub(crate) const fn join_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Branch { join, .. } | Self::BranchIndex { join, .. } => Some(join),
            _ => None,
        }
    }
}

impl Program {
    /// Returns whether an instruction observes memory that other threads write: a load that is not weak,
    /// or an atomic that returns a value or may take a lock.
    pub(crate) fn watches(&self, op: &Op) -> bool {
        let access = |index: u32| &self.accesses[index as usize];
        match op.effect() {
            Effect::Read(index) => access(index).strength != Strength::Weak,
            Effect::Write(index) => {
                access(index).results.is_some() || access(index).atomic.is_some_and(AtomicOp::may_lock)
            }
            _ => false,
        }
    }
}
