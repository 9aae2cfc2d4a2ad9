//! Calls of functions that are not inlined, and the registers that lanes save for their callers.
//!
//! A call pushes its return point onto the warp's stack and sends the calling lanes to their functions.
//! Each lane saves the registers that its caller needs after the call. The function's local memory
//! starts after the caller's. Lanes that return wait until the other lanes of the call have returned.

use crate::error::{CallDepth, FaultKind, shortened};
use crate::lanes::{for_each_lane, lanes_of};
use crate::observe::{Branch, Detail};
use crate::program::{Call, MAX_LOCAL, NOWHERE, Part, Program};

use super::control::Split;
use super::stack::Activation;
use super::warp::{Next, Warp};
use super::{ExecContext, Outcome, Probe, trouble};

const MAX_DEPTH: usize = 1024;

impl Warp {
    pub(super) fn call<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        index: u32,
        mask: u32,
    ) -> Outcome<Next> {
        let program = &context.launch.entry.program;
        let (call, (pc, active)) = (&program.calls[index as usize], (self.pc, self.active));
        let mut ways: Vec<(u32, u32)> = Vec::new();
        for lane in lanes_of(mask) {
            let start = self.activate(program, index, lane)?;
            match ways.iter_mut().find(|way| way.0 == start) {
                Some(way) => way.1 |= 1 << lane,
                None => ways.push((start, 1 << lane)),
            }
        }
        if P::ENABLED {
            let diverged = ways.len() + usize::from(mask != active) > 1;
            let branch = Branch { taken: mask, diverged: diverged && mask != 0 };
            context.report((pc, self.index, active, mask), Detail::Branch(branch));
        }
        debug_assert!(call.target.is_some() || ways.len() <= 1);
        self.enter(&ways);
        Ok(Next::Placed)
    }

    /// Starts lanes at their callees. All active lanes wait after the call until the callees return.
    fn enter(&mut self, ways: &[(u32, u32)]) {
        let Some((&(start, lanes), rest)) = ways.split_first() else {
            self.pc += 1;
            return;
        };
        let behind =
            Split { pc: self.pc + 1, mask: self.active, join: self.join, is_return_point: true };
        self.stack.push(behind);
        for &(pc, mask) in rest.iter().rev() {
            self.stack.push(Split { pc, mask, join: NOWHERE, is_return_point: false });
        }
        (self.pc, self.active, self.join) = (start, lanes, NOWHERE);
    }

    /// Gives a lane a stack frame for its callee, and returns the callee's first instruction.
    fn activate(&mut self, program: &Program, index: u32, lane: usize) -> Outcome<u32> {
        let call = &program.calls[index as usize];
        let place = self.called(program, call, lane)?;
        let function = &program.functions[place as usize];
        let frame = program.frame.map_or(0, usize::from);
        let from = self.regs.words[frame][lane];
        let stack = &self.stacks[lane];
        let top = stack.top;
        let begin = u64::from(top).next_multiple_of(program.frame_align.into());
        let end = begin + u64::from(function.bytes);
        if stack.calls.len() == MAX_DEPTH || end > MAX_LOCAL {
            let name = shortened(&function.name).into_owned();
            let depth = stack.calls.len() as u32;
            let depth = CallDepth { name, depth, most: MAX_DEPTH as u32, end, bytes: MAX_LOCAL };
            return trouble(FaultKind::CallDepth(depth), lane as u32);
        }
        self.grow_local(end as usize);
        let begin = begin as u32;
        self.keep(call, Activation { call: index, function: place, frame: from, top }, lane);
        self.stacks[lane].top = end as u32;
        for (argument, param) in call.arguments.iter().zip(&function.params) {
            self.copy_local(lane, from + argument.offset, shifted(param, begin));
        }
        self.regs.words[frame][lane] = begin;
        Ok(function.start)
    }

    fn called(&self, program: &Program, call: &Call, lane: usize) -> Outcome<u32> {
        let Some(row) = call.target else { return Ok(call.functions[0]) };
        let address = self.regs.doubles[usize::from(row)][lane];
        let is_meant = |&&place: &&u32| program.functions[place as usize].address == address;
        match call.functions.iter().find(is_meant) {
            Some(&place) => Ok(place),
            None => {
                let names = call.functions.iter().map(|&place| &program.functions[place as usize].name);
                let names: Vec<String> = names.map(|name| format!("`{}`", shortened(name))).collect();
                let allowed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                trouble(FaultKind::NoFunction { address, allowed }, lane as u32)
            }
        }
    }

    fn keep(&mut self, call: &Call, activation: Activation, lane: usize) {
        let regs = &self.regs;
        let words = call.words.iter().map(|&row| u64::from(regs.words[usize::from(row)][lane]));
        let doubles = call.doubles.iter().map(|&row| regs.doubles[usize::from(row)][lane]);
        let bit = |row: &u16| u64::from(regs.predicates[usize::from(*row)] >> lane & 1);
        let kept = words.chain(doubles).chain(call.predicates.iter().map(bit));
        let stack = &mut self.stacks[lane];
        stack.kept.extend(kept);
        stack.calls.push(activation);
    }

    pub(super) fn ret<P: Probe>(&mut self, context: &mut ExecContext<'_, P>, mask: u32) -> Next {
        if P::ENABLED {
            self.report(context, mask, Detail::None);
        }
        let program = &context.launch.entry.program;
        for_each_lane(mask, |lane| self.deactivate(program, lane));
        self.active &= !mask;
        let own = self.stack.iter().rposition(|split| split.is_return_point).map_or(0, |at| at + 1);
        for split in &mut self.stack[own..] {
            split.mask &= !mask;
        }
        if self.active != 0 {
            return Next::Reported;
        }
        // The stack holds the lanes that wait after the call.
        self.leave();
        Next::Placed
    }

    fn deactivate(&mut self, program: &Program, lane: usize) {
        let Some(activation) = self.stacks[lane].calls.pop() else { return };
        let call = &program.calls[activation.call as usize];
        let function = &program.functions[activation.function as usize];
        let frame = program.frame.map_or(0, usize::from);
        let begin = self.regs.words[frame][lane];
        let from = activation.frame;
        for (result, value) in call.results.iter().zip(&function.returns) {
            self.copy_local(
                lane,
                begin + value.offset,
                Part { bytes: value.bytes, ..shifted(result, from) },
            );
        }
        self.regs.words[frame][lane] = from;
        let count = call.words.len() + call.doubles.len() + call.predicates.len();
        let stack = &mut self.stacks[lane];
        stack.top = activation.top;
        let kept = stack.kept.split_off(stack.kept.len() - count);
        let (words, rest) = kept.split_at(call.words.len());
        let (doubles, predicates) = rest.split_at(call.doubles.len());
        for (&row, &value) in call.words.iter().zip(words) {
            self.regs.words[usize::from(row)][lane] = value as u32;
        }
        for (&row, &value) in call.doubles.iter().zip(doubles) {
            self.regs.doubles[usize::from(row)][lane] = value;
        }
        for (&row, &value) in call.predicates.iter().zip(predicates) {
            let p = &mut self.regs.predicates[usize::from(row)];
            *p = *p & !(1 << lane) | (value as u32) << lane;
        }
    }

    fn copy_local(&mut self, lane: usize, from: u32, to: Part) {
        let start = lane * self.local_bytes;
        let from = start + from as usize;
        self.local.copy_within(from..from + to.bytes as usize, start + to.offset as usize);
    }
}

/// Converts a part's offset in a stack frame that starts at `begin` to one in the lane's local memory.
fn shifted(part: &Part, begin: u32) -> Part {
    Part { offset: part.offset + begin, ..*part }
}
