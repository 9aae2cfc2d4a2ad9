//! Loads and stores of a warp, split by the memory that each lane accesses.

use std::sync::atomic::{Ordering, fence};

use crate::error::FaultKind;
use multiversion::multiversion;

use crate::lanes::{FULL, Regs, Row64, for_each_lane};
use crate::memory::{Space, classify, is_global, is_own_shared, owner, region, window};
use crate::observe::{AccessKind, Detail, Memory, Spacing};
use crate::program::{Access, Base, LANES, Place, Slot, Strength};

use super::backing::{Bytes, Global, Lanes, Sink, Source};
use super::explored::Weak;
use super::warp::Warp;
use super::{ExecContext, Outcome, Probe, trouble};

/// Returns the lanes of `rest` that access the same memory as its first lane, that memory's space, and
/// the rank of its block if addresses contain one. Makes the addresses relative to that memory.
fn nearest_memory(space: Space, rest: u32, addresses: &mut Row64) -> (u32, Space, Option<u64>) {
    let generic = space == Space::Generic;
    if !generic && space != Space::Shared {
        return (rest, space, None);
    }
    let memory = |address| if generic { region(address) } else { owner(address).0.map_or(0, |r| r + 1) };
    let first = addresses[rest.trailing_zeros() as usize];
    let (wanted, found) = (memory(first), if generic { classify(first) } else { space });
    let start = if generic { window(found) } else { 0 };
    let (mut lanes, mut rank) = (0, None);
    for_each_lane(rest, |lane| {
        if memory(addresses[lane]) == wanted {
            lanes |= 1 << lane;
            addresses[lane] -= start;
            if found == Space::Shared {
                (rank, addresses[lane]) = owner(addresses[lane]);
            }
        }
    });
    (lanes, found, rank)
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
fn addresses(regs: &Regs, place: &Place) -> Row64 {
    let offset = place.offset as u64;
    let mut addresses = [offset; LANES];
    match place.base {
        Base::Absolute => {}
        Base::Word(row) => {
            for (address, base) in addresses.iter_mut().zip(&regs.words[usize::from(row)]) {
                *address = u64::from(base.wrapping_add(offset as u32));
            }
        }
        Base::Double(row) => {
            for (address, base) in addresses.iter_mut().zip(&regs.doubles[usize::from(row)]) {
                *address = base.wrapping_add(offset);
            }
        }
    }
    addresses
}

/// Returns the space of generic addresses and the generic address at which it starts, if all are global,
/// or all are in the block's own shared memory.
#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
fn generic_space(bases: &Row64, offset: u64) -> Option<(Space, u64)> {
    let (mut global, mut shared) = (true, true);
    for base in bases {
        let address = base.wrapping_add(offset);
        global &= is_global(address);
        shared &= is_own_shared(address);
    }
    match (global, shared) {
        (true, _) => Some((Space::Global, 0)),
        (_, true) => Some((Space::Shared, window(Space::Shared))),
        _ => None,
    }
}

impl Warp {
    #[inline]
    pub(super) fn set(&mut self, slot: Slot, lane: usize, value: u64) {
        match slot {
            Slot::Sink => {}
            Slot::Word(row) => self.regs.words[usize::from(row)][lane] = value as u32,
            Slot::Half(row) => self.regs.words[usize::from(row)][lane] = value as u32 & 0xffff,
            Slot::Double(row) => self.regs.doubles[usize::from(row)][lane] = value,
        }
    }

    #[inline]
    pub(super) fn value(&self, slot: Slot, lane: usize) -> u64 {
        match slot {
            Slot::Sink => 0,
            Slot::Word(row) | Slot::Half(row) => u64::from(self.regs.words[usize::from(row)][lane]),
            Slot::Double(row) => self.regs.doubles[usize::from(row)][lane],
        }
    }

    #[inline]
    pub(super) fn addresses(&self, place: &Place) -> Row64 {
        addresses(&self.regs, place)
    }

    /// Returns the space that all lanes of a full warp access, and the generic address at which it
    /// starts; `None` for local memory, other blocks' shared memory and mixed spaces.
    #[inline]
    fn own_space(&self, place: &Place) -> Option<(Space, u64)> {
        match (place.space, place.base) {
            (Space::Shared, _) if place.cluster => None,
            (Space::Local, _) => None,
            (Space::Generic, Base::Double(row)) => {
                generic_space(&self.regs.doubles[usize::from(row)], place.offset as u64)
            }
            (Space::Generic, _) => None,
            (space, _) => Some((space, 0)),
        }
    }

    /// Executes a load or store of a full warp at once, if the lanes' addresses and elements allow it.
    /// Returns the accessed space and the spacing of the addresses.
    #[inline]
    fn all_at_once<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        kind: AccessKind,
    ) -> Option<(Space, Spacing)> {
        if context.probe.exploration().is_some() {
            return None;
        }
        let (space, window) = self.own_space(&access.at)?;
        let offset = (access.at.offset as u64).wrapping_sub(window);
        let (regs, launch, moves) = (&mut self.regs, context.launch, &context.launch.moves);
        let global = Global { view: &launch.view, hint: &mut context.hint };
        let spacing = match (space, kind) {
            (Space::Shared, AccessKind::Load) => {
                (moves.read_bytes)(regs, &context.own().shared, access, offset)
            }
            (Space::Shared, _) => (moves.write_bytes)(regs, &mut context.own().shared, access, offset),
            (Space::Global, AccessKind::Load) => (moves.read_global)(regs, global, access, offset),
            (Space::Global, _) => (moves.write_global)(regs, global, access, offset),
            (Space::Param, AccessKind::Load) => (moves.read_bytes)(regs, launch.params, access, offset),
            (Space::Const, AccessKind::Load) => {
                (moves.read_bytes)(regs, launch.constants, access, offset)
            }
            _ => None,
        };
        Some((space, spacing?))
    }

    #[inline]
    pub(super) fn access<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
        kind: AccessKind,
    ) -> Outcome<()> {
        if !P::ENABLED {
            if mask == FULL && self.all_at_once(context, access, kind).is_some() {
                return Ok(());
            }
            let mut addresses = self.addresses(&access.at);
            return self.by_space(context, access, mask, &mut addresses, kind);
        }
        self.observed_access(context, access, mask, kind)
    }

    /// Executes and reports a load or store. Out of line, so that the loop's own values stay in
    /// registers.
    #[inline(never)]
    fn observed_access<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
        kind: AccessKind,
    ) -> Outcome<()> {
        // A load may overwrite its address registers.
        let mut addresses = self.addresses(&access.at);
        if mask == FULL
            && let Some((space, spacing)) = self.all_at_once(context, access, kind)
        {
            if access.at.space == Space::Generic {
                addresses = addresses.map(|address| address - window(space));
            }
            let owner = context.rank;
            let all = (mask, mask, 0);
            self.tell_access(context, access, all, (space, owner), (&addresses, Some(spacing)), kind);
            return Ok(());
        }
        self.by_space(context, access, mask, &mut addresses, kind)
    }

    pub(super) fn load<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength != Strength::Weak {
            self.turn.poll();
        }
        self.access(context, access, mask, AccessKind::Load)?;
        if access.strength == Strength::Acquire {
            fence(Ordering::Acquire);
        }
        Ok(())
    }

    pub(super) fn store<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength == Strength::Release {
            fence(Ordering::Release);
        }
        self.access(context, access, mask, AccessKind::Store)
    }

    /// Reports an access, or a part of one: `mask` has the executing lanes of the instruction, `lanes`
    /// those of the part, and `part` is the part's number.
    #[inline(always)]
    fn tell_access<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        (mask, lanes, part): (u32, u32, u32),
        (space, owner): (Space, u32),
        (addresses, spacing): (&Row64, Option<Spacing>),
        kind: AccessKind,
    ) {
        let detail = Detail::Memory(Memory {
            space,
            owner,
            generic: access.at.space == Space::Generic,
            kind,
            bytes: access.ty.bytes() * u32::from(access.count),
            elements: u32::from(access.count),
            lanes,
            addresses,
            known: spacing,
        });
        let active = self.active | mask;
        context.report_part((self.pc, self.index, active, mask), part, detail);
    }

    /// Executes an access, split by space for generic addresses, and by block for the shared memory of a
    /// cluster.
    pub(super) fn by_space<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
    ) -> Outcome<()> {
        self.by_space_from(context, access, mask, addresses, kind, &mut 0)
    }

    /// Executes one of several accesses of an instruction, like [`by_space`](Self::by_space). Its events
    /// are numbered from `part`, which is advanced past them.
    pub(super) fn by_space_from<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
        part: &mut u32,
    ) -> Outcome<()> {
        let own = u64::from(context.rank);
        let (mut rest, mut space, mut rank) = (mask, access.at.space, own);
        loop {
            let mut lanes = rest;
            if access.at.cluster && rest != 0 {
                let named;
                (lanes, space, named) = nearest_memory(access.at.space, rest, addresses);
                rank = named.unwrap_or(own);
            }
            if lanes != 0 && rank != own {
                self.remote(context, access, lanes, addresses, kind, rank)?;
            } else if lanes != 0 {
                self.within(context, access, lanes, addresses, kind, space)?;
            }
            if P::ENABLED {
                let (of, owner) = ((mask, lanes, *part), (space, rank as u32));
                self.tell_access(context, access, of, owner, (addresses, None), kind);
                *part += 1;
            }
            rest &= !lanes;
            if rest == 0 {
                return Ok(());
            }
        }
    }

    #[cold]
    fn remote<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        rank: u64,
    ) -> Outcome<()> {
        let lane = lanes.trailing_zeros();
        let member = context.common.member(rank, addresses[lane as usize], name(kind), lane)?;
        self.transfer(&mut Bytes(&mut member.shared), access, lanes, addresses, kind, Space::Shared)
    }

    fn within<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        space: Space,
    ) -> Outcome<()> {
        let launch = context.launch;
        match (space, kind) {
            (Space::Global | Space::Generic, _) => {
                if let Some(world) = context.probe.exploration() {
                    let hint = &mut context.hint;
                    let mut weak = Weak { world, launch, hint, warp: self.index, order: access.order };
                    return self.transfer(&mut weak, access, lanes, addresses, kind, Space::Global);
                }
                let mut global = Global { view: &launch.view, hint: &mut context.hint };
                self.transfer(&mut global, access, lanes, addresses, kind, Space::Global)
            }
            (Space::Shared, _) => self.transfer(
                &mut Bytes(&mut context.own().shared),
                access,
                lanes,
                addresses,
                kind,
                space,
            ),
            (Space::Local, _) => {
                let bytes = self.local_bytes;
                let mut memory = std::mem::take(&mut self.local);
                let stacks = std::mem::take(&mut self.stacks);
                let mut local = Lanes { memory: &mut memory, bytes, stacks: &stacks };
                let done = self.transfer(&mut local, access, lanes, addresses, kind, space);
                (self.local, self.stacks) = (memory, stacks);
                done
            }
            (Space::Const, AccessKind::Load) => {
                self.read(&mut Bytes(launch.constants), access, lanes, addresses, space)
            }
            (Space::Param, AccessKind::Load) => {
                self.read(&mut Bytes(launch.params), access, lanes, addresses, space)
            }
            (Space::Const | Space::Param, _) => {
                let kind = FaultKind::ReadOnly { access: name(kind), space };
                trouble(kind, lanes.trailing_zeros())
            }
        }
    }

    fn transfer(
        &mut self,
        memory: &mut impl Sink,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        space: Space,
    ) -> Outcome<()> {
        match kind {
            AccessKind::Load => self.read(memory, access, lanes, addresses, space),
            AccessKind::Store => self.write(memory, access, lanes, addresses, space),
            AccessKind::Atomic | AccessKind::Reduction => {
                self.change(memory, access, lanes, addresses, space)
            }
        }
    }
}

pub(super) const fn name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Atomic | AccessKind::Reduction => "atomic",
    }
}

#[cold]
pub(super) fn bad_access<T>(
    memory: &impl Source,
    access: &'static str,
    space: Space,
    address: u64,
    bytes: u32,
    lane: usize,
) -> Outcome<T> {
    let kind = if address.is_multiple_of(u64::from(bytes)) {
        let allowed = memory.bounds(address, lane);
        FaultKind::OutOfBounds { access, space, address, bytes, allowed }
    } else {
        FaultKind::Misaligned { access, space, address, bytes }
    };
    trouble(kind, lane as u32)
}
