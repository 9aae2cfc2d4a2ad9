//! Static properties of an entry's instructions: which of them need a full tally, and which registers
//! they name.

use std::collections::HashMap;

use crate::module::{Entry, InstructionInfo};
use crate::observe::Class;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Plan {
    /// Index of each instruction's tally; [`NONE`] for instructions that only compute.
    slots: Vec<u32>,
    pub(super) tallies: usize,
    uses: Vec<Box<[u16]>>,
    loaded: Vec<Box<[u16]>>,
}

impl Plan {
    pub(super) fn new(entry: &Entry) -> Self {
        let mut names = HashMap::new();
        let mut plan = Self { slots: Vec::new(), tallies: 0, uses: Vec::new(), loaded: Vec::new() };
        for info in entry.instructions() {
            let slot = if computes(info) { NONE } else { plan.tallies as u32 };
            plan.tallies += usize::from(slot != NONE);
            plan.slots.push(slot);
            plan.uses.push(registers(&info.text, &mut names));
            let results = info.text.split_once('[').map_or("", |(results, _)| results);
            // The guard of a load is a source, not a destination.
            let results = results.split_once(char::is_whitespace).filter(|_| info.opcode == "ld");
            let results = results.map_or("", |(first, rest)| match first.starts_with('@') {
                true => rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest),
                false => rest,
            });
            plan.loaded.push(registers(results, &mut names));
        }
        plan
    }

    pub(super) fn slot(&self, index: u32) -> Option<usize> {
        let slot = self.slots[index as usize];
        (slot != NONE).then_some(slot as usize)
    }

    pub(super) fn uses(&self, index: u32) -> &[u16] {
        &self.uses[index as usize]
    }

    pub(super) fn loaded(&self, index: u32) -> &[u16] {
        &self.loaded[index as usize]
    }

    pub(super) fn instructions(&self) -> usize {
        self.slots.len()
    }
}

fn computes(info: &InstructionInfo) -> bool {
    !matches!(
        info.class,
        Class::Memory | Class::Copy | Class::Atomic | Class::Control | Class::Barrier | Class::Warp
    )
}

fn registers(text: &str, names: &mut HashMap<String, u16>) -> Box<[u16]> {
    let mut found: Vec<u16> = Vec::new();
    for piece in text.split('%').skip(1) {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
        // Special registers such as `%tid.x` are included; this is harmless, because no load writes
        // them.
        let next = names.len() as u16;
        let number = *names.entry(piece[..end].to_owned()).or_insert(next);
        if !found.contains(&number) {
            found.push(number);
        }
    }
    found.into()
}

#[derive(Debug, Default, Clone)]
pub(super) struct InFlight {
    /// Instruction and bytes of each load.
    loads: Vec<(u32, u32)>,
    bytes: u32,
    pub(super) peak: u32,
}

impl InFlight {
    pub(super) fn clear(&mut self) {
        self.loads.clear();
        self.bytes = 0;
    }

    /// Retires the loads whose results the instruction names, because the instruction waits for them.
    #[inline]
    pub(super) fn execute(&mut self, plan: &Plan, index: u32) {
        if self.loads.is_empty() {
            return;
        }
        let uses = plan.uses(index);
        let bytes = &mut self.bytes;
        self.loads.retain(|&(load, size)| {
            let waits = plan.loaded(load).iter().any(|register| uses.contains(register));
            *bytes -= if waits { size } else { 0 };
            !waits
        });
    }

    pub(super) fn issue(&mut self, index: u32, bytes: u32) {
        self.loads.push((index, bytes));
        self.bytes += bytes;
        self.peak = self.peak.max(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{InFlight, Plan};
    use crate::module::Module;

    #[test]
    fn load_is_in_flight_until_its_result_is_named() {
        let text =
            ".version 7.8 .target sm_80 .entry k() { .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p;
            ld.global.v2.b32 {%r1, %r2}, [%rd1]; @%p ld.global.b32 %r3, [%rd1+8]; add.u32 %r5, %r4, 1;
            add.u32 %r5, %r2, 1; add.u32 %r5, %r3, 1; ret; }";
        let module = Module::parse(text).expect("parses");
        let plan = Plan::new(module.entry("k").expect("entry"));
        let mut flight = InFlight::default();
        let mut after = Vec::new();
        for (index, bytes) in [(0, 8), (1, 4), (2, 0), (3, 0), (4, 0)] {
            flight.execute(&plan, index);
            if bytes > 0 {
                flight.issue(index, bytes);
            }
            after.push(flight.bytes);
        }
        assert_eq!((after, flight.peak), (vec![8, 12, 12, 4, 0], 12));
    }
}
