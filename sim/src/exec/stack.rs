//! The stacks of a warp's threads in local memory: frames of called functions, and `alloca`.

use crate::error::FaultKind;
use crate::lanes::lanes_of;
use crate::program::{LANES, MAX_LOCAL, Program, StackOp};

use super::warp::Warp;
use super::{Outcome, trouble};

/// The stack of one thread.
#[derive(Debug, Default, Clone, Hash)]
pub(super) struct Stack {
    pub(super) calls: Vec<Activation>,
    /// Registers that the callers of `calls` need after the return.
    pub(super) kept: Vec<u64>,
    /// End of the memory in use. Unlike on a GPU, the stack grows to higher addresses.
    pub(super) top: u32,
}

/// An active call.
#[derive(Debug, Clone, Hash)]
pub(super) struct Activation {
    /// Call site and callee, as indices into [`Program`]'s `calls` and `functions`.
    pub(super) call: u32,
    pub(super) function: u32,
    /// Start of the caller's frame, and the caller's stack top.
    pub(super) frame: u32,
    pub(super) top: u32,
}

impl Warp {
    /// Empties the stacks, except for the entry's own variables.
    pub(super) fn reset_stacks(&mut self, program: &Program) {
        self.stacks.resize(LANES, Stack::default());
        for stack in &mut self.stacks {
            stack.calls.clear();
            stack.kept.clear();
            stack.top = program.local_bytes;
        }
    }

    /// Executes `alloca`, `stacksave` or `stackrestore`.
    pub(super) fn stack(&mut self, program: &Program, op: StackOp, mask: u32) -> Outcome<()> {
        for lane in lanes_of(mask) {
            let top = self.stacks[lane].top;
            match op {
                StackOp::Allocate { pointer, bytes, align } => {
                    let bytes = self.value(bytes, lane);
                    let start = u64::from(top).next_multiple_of(align.into());
                    let end = start.saturating_add(bytes);
                    if end > MAX_LOCAL {
                        let kind = FaultKind::StackOverflow { bytes, in_use: top, limit: MAX_LOCAL };
                        return trouble(kind, lane as u32);
                    }
                    self.grow_local(end as usize);
                    self.stacks[lane].top = end as u32;
                    self.set(pointer, lane, start);
                }
                StackOp::Save(pointer) => self.set(pointer, lane, top.into()),
                StackOp::Restore(pointer) => {
                    let (pointer, least) = (self.value(pointer, lane), self.frame_end(program, lane));
                    if !(u64::from(least)..=top.into()).contains(&pointer) {
                        return trouble(FaultKind::StackPointer { pointer, least, top }, lane as u32);
                    }
                    self.stacks[lane].top = pointer as u32;
                }
            }
        }
        Ok(())
    }

    /// Returns the end of the current function's variables, where its first `alloca` starts.
    fn frame_end(&self, program: &Program, lane: usize) -> u32 {
        match (self.stacks[lane].calls.last(), program.frame) {
            (Some(activation), Some(frame)) => {
                let function = &program.functions[activation.function as usize];
                self.regs.words[usize::from(frame)][lane] + function.bytes
            }
            _ => program.local_bytes,
        }
    }

    pub(super) fn grow_local(&mut self, bytes: usize) {
        if bytes <= self.local_bytes {
            return;
        }
        let each = bytes.next_power_of_two().max(256);
        let mut local = vec![0; each * LANES];
        if self.local_bytes != 0 {
            let old = self.local.chunks_exact(self.local_bytes);
            for (new, old) in local.chunks_exact_mut(each).zip(old) {
                new[..old.len()].copy_from_slice(old);
            }
        }
        (self.local, self.local_bytes) = (local, each);
    }
}
