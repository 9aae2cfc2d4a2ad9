//! Matrix products of warpgroups: `wgmma.mma_async`.
//!
//! Each warp computes its 16 of the 64 rows by itself, from its registers and the operands in shared
//! memory, when it executes the instruction, so that the warps need no synchronisation.

use crate::error::{FaultKind, WarpgroupProblem};
use crate::lanes::matrix::{self, Values};
use crate::lanes::{FULL, Row64};
use crate::memory::Space;
use crate::observe::{AccessKind, Detail, Memory};
use crate::program::{CHUNK, Described, Element, GroupProduct, LANES, Layout, Multiplicand, WARPGROUP};

use super::backing::Bytes;
use super::memory::bad_access;
use super::warp::Warp;
use super::{ExecContext, Launched, Outcome, Probe, trouble};

impl Warp {
    #[inline(never)]
    pub(super) fn multiply_group<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        product: &GroupProduct,
    ) -> Outcome<()> {
        self.require_warpgroup(context.launch)?;
        let GroupProduct { a, b, d, adds, subtracts, summing } = product;
        let adds = self.scale(*adds)?;
        let shape = d.fragment.shape;
        let (mut part, element) = (0, b.fragment.element);
        let mut first = match a {
            Multiplicand::Held(held) => self.held(held),
            Multiplicand::Described(a) => {
                let row = self.index % WARPGROUP * shape.m;
                self.described(context, a, ("the descriptor of A", row), &mut part)?
            }
        };
        let second = self.described(context, b, ("the descriptor of B", 0), &mut part)?;
        if *subtracts {
            first.negate();
        }
        let mut sums = match adds {
            true => self.held(d),
            false => Values::zeros(d.fragment.element, (shape.m * shape.n) as usize),
        };
        matrix::multiply((shape, element), [&first, &second], &mut sums, *summing);
        self.put_held(d, &sums);
        Ok(())
    }

    /// Checks that the block has all four warps of the warpgroup.
    fn require_warpgroup(&self, launch: &Launched<'_>) -> Outcome<()> {
        let first = self.index / WARPGROUP * WARPGROUP;
        let warps = launch.warps() - first;
        if warps >= WARPGROUP {
            return Ok(());
        }
        let problem = WarpgroupProblem::Incomplete { first, warps };
        trouble(FaultKind::Warpgroup(problem), self.active.trailing_zeros())
    }

    /// Returns the predicate scale-d, which must be the same in all lanes.
    fn scale(&self, (row, negated): (u16, bool)) -> Outcome<bool> {
        let lanes = self.regs.predicates[usize::from(row)] ^ if negated { FULL } else { 0 };
        if lanes == 0 || lanes == FULL {
            return Ok(lanes == FULL);
        }
        let lane = if lanes & 1 == 0 { lanes } else { !lanes }.trailing_zeros();
        let [first, other] = [lanes & 1, lanes >> lane & 1].map(u64::from);
        let problem = WarpgroupProblem::Differs { operand: "scale-d", first, lane, other };
        trouble(FaultKind::Warpgroup(problem), lane)
    }

    /// Reads a matrix in shared memory, or this warp's part of it, which starts at row or column `from`.
    fn described<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        matrix: &Described,
        (operand, from): (&'static str, u32),
        part: &mut u32,
    ) -> Outcome<Values> {
        let descriptors = &self.regs.doubles[usize::from(matrix.descriptor)];
        let [first, ..] = *descriptors;
        if let Some(lane) = descriptors.iter().position(|&other| other != first) {
            let (other, lane) = (descriptors[lane], lane as u32);
            let problem = WarpgroupProblem::Differs { operand, first, lane, other };
            return trouble(FaultKind::Warpgroup(problem), lane);
        }
        let layout = Layout::of(first, matrix.transposed);
        let element = matrix.fragment.element;
        let (bits, count) = (element.bits(), matrix.chunks());
        let mut values = Values::zeros(element, (count * 8 * CHUNK as u32 / bits) as usize);
        let mut addresses = Vec::with_capacity(if P::ENABLED { count as usize } else { 0 });
        let (mut missed, shared) = (None, &context.own().shared);
        matrix.each(from, |line, chunk, at, apart| {
            let address = layout.address(line, chunk);
            match shared.get(address as usize..(address + CHUNK) as usize) {
                Some(bytes) => set(&mut values, (element, bits), bytes, (at, apart)),
                None => missed = missed.or(Some(address)),
            }
            if P::ENABLED {
                addresses.push(address);
            }
        });
        if let Some(address) = missed {
            return bad_access(&Bytes(shared), "load", Space::Shared, address, CHUNK as u32, 0);
        }
        for addresses in addresses.chunks(LANES) {
            self.tell_operand(context, addresses, part);
        }
        Ok(values)
    }

    /// Reports chunks that the warp reads, as if each lane read one.
    fn tell_operand<P: Probe>(&self, context: &mut ExecContext<'_, P>, chunks: &[u64], part: &mut u32) {
        let addresses: Row64 = std::array::from_fn(|lane| chunks.get(lane).copied().unwrap_or(0));
        let detail = Detail::Operand(Memory {
            space: Space::Shared,
            owner: context.rank,
            generic: false,
            kind: AccessKind::Load,
            bytes: CHUNK as u32,
            elements: 1,
            lanes: FULL >> (LANES - chunks.len()),
            addresses: &addresses,
            known: None,
        });
        context.report_part((self.pc, self.index, FULL, FULL), *part, detail);
        *part += 1;
    }
}

/// Sets elements, at distances of `apart` from index `at` on, from the bits of a chunk.
fn set(values: &mut Values, (element, bits): (Element, u32), chunk: &[u8], (at, apart): (usize, usize)) {
    let words = chunk
        .chunks_exact(4)
        .map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte)));
    let elements = words.flat_map(|word| (0..32).step_by(bits as usize).map(move |from| word >> from));
    for (index, bits) in elements.enumerate() {
        values.set(element, at + index * apart, bits);
    }
}
