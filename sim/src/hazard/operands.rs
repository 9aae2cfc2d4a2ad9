//! Operands of warpgroup products in shared memory: their reads last from `wgmma.mma_async` to the wait.
//!
//! The reads are recorded twice, at the instruction and at the wait, so that a write in between is
//! unordered with one of the two. Writes by the same warp are compared with its pending operands: its
//! program order does not order them.

use std::collections::HashSet;

use crate::lanes::lanes_of;
use crate::memory::Space;
use crate::observe::{AccessKind, Event, Memory};
use crate::program::{CHUNK, LANES};

use super::history::Access;
use super::report::HazardKind;
use super::step::Step;

/// The products of a warp that it has not waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Operands {
    pending: Vec<Product>,
    /// Number of committed groups.
    groups: u32,
}

#[derive(Debug, Clone)]
struct Product {
    index: u32,
    time: u32,
    /// Number of groups that were committed before this product.
    group: u32,
    owner: u32,
    /// Addresses of the operands, divided by their length of [`CHUNK`].
    chunks: HashSet<u64>,
}

impl Operands {
    fn add(&mut self, (index, time): (u32, u32), memory: &Memory<'_>) {
        let chunks = lanes_of(memory.lanes).map(|lane| memory.addresses[lane] / CHUNK);
        match self.pending.last_mut().filter(|last| (last.index, last.time) == (index, time)) {
            Some(last) => last.chunks.extend(chunks),
            None => {
                let (group, owner) = (self.groups, memory.owner);
                self.pending.push(Product { index, time, group, owner, chunks: chunks.collect() });
            }
        }
    }

    pub(super) fn commit(&mut self) {
        self.groups += 1;
    }

    /// Removes the products of all committed groups but the last `kept`.
    fn complete(&mut self, kept: u32) -> Vec<Product> {
        let before = self.groups.saturating_sub(kept);
        self.pending.extract_if(.., |product| product.group < before).collect()
    }

    /// Removes bytes that are written from the operands, so that they are reported once. Returns the
    /// instruction of a product that reads them.
    fn overwrite(&mut self, owner: u32, address: u64, bytes: u64) -> Option<u32> {
        let mut found = None;
        for product in self.pending.iter_mut().filter(|product| product.owner == owner) {
            for chunk in address / CHUNK..(address + bytes).div_ceil(CHUNK) {
                if product.chunks.remove(&chunk) {
                    found = found.or(Some(product.index));
                }
            }
        }
        found
    }
}

impl Step<'_, '_> {
    fn operands(&mut self) -> &mut Operands {
        let agent = self.agent as usize;
        &mut self.team().warps[agent].operands
    }

    pub(super) fn read_operand(&mut self, memory: &Memory<'_>) {
        self.touch(memory);
        let (agent, index) = (self.agent as usize, self.event.index);
        let time = self.team().warps[agent].time;
        self.operands().add((index, time), memory);
    }

    pub(super) fn commit_products(&mut self) {
        self.operands().commit();
    }

    pub(super) fn wait_products(&mut self, kept: u32) {
        for Product { index, owner, chunks, .. } in self.operands().complete(kept) {
            let mut chunks: Vec<u64> = chunks.into_iter().map(|chunk| chunk * CHUNK).collect();
            chunks.sort_unstable();
            let event = Event { index, ..*self.event };
            let Self { world, block, order, .. } = self;
            let mut step = Step::new(world, block, &event, *order);
            for part in chunks.chunks(LANES) {
                let addresses = std::array::from_fn(|lane| part.get(lane).copied().unwrap_or(0));
                step.touch(&Memory {
                    space: Space::Shared,
                    owner,
                    generic: false,
                    kind: AccessKind::Load,
                    bytes: CHUNK as u32,
                    elements: 1,
                    lanes: u32::MAX >> (LANES - part.len()),
                    addresses: &addresses,
                    known: None,
                });
            }
        }
    }

    /// Reports a write to shared memory that a pending product of this warp reads. `writes` are lane,
    /// address and length.
    #[inline]
    pub(super) fn check_operands(&mut self, owner: u32, writes: impl Iterator<Item = (u32, u64, u64)>) {
        if self.operands().pending.is_empty() {
            return;
        }
        let mut written = None;
        for (lane, address, bytes) in writes {
            let reader = self.operands().overwrite(owner, address, bytes);
            written = written.or(reader.map(|index| (lane, address, index)));
        }
        if let Some((lane, address, index)) = written {
            let (team, agent) = (self.block.team, self.agent);
            let earlier = Access { team, agent, lanes: 1, index, ..Access::NONE };
            self.report(HazardKind::ReadWriteRace, Space::Shared, address, lane, Some(earlier));
        }
    }
}
