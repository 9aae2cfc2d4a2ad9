//! Loads and stores of a warp, by the memory that each lane accesses.

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
use super::{Outcome, Probe, Scene, trouble};

/// Returns the lanes of `rest` that access the same memory as the first of them, its space, and its
/// owner's rank if the addresses name one. Makes their addresses relative to that memory.
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

/// Returns the space of generic addresses and its window, if all are in one space of the block itself.
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

    /// Returns the memory of the block itself that all lanes of a full warp access, if they do, and the
    /// start of its window.
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

    /// Carries out a load or store of a full warp at once, if the lanes' addresses and elements allow
    /// it; returns its space and the spacing of the addresses.
    #[inline]
    fn all_at_once<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        kind: AccessKind,
    ) -> Option<(Space, Spacing)> {
        if scene.probe.exploration().is_some() {
            return None;
        }
        let (space, window) = self.own_space(&access.at)?;
        let offset = (access.at.offset as u64).wrapping_sub(window);
        let (regs, launch, moves) = (&mut self.regs, scene.launch, &scene.launch.moves);
        let global = Global { view: &launch.view, hint: &mut scene.arena.hint };
        let spacing = match (space, kind) {
            (Space::Shared, AccessKind::Load) => {
                (moves.read_bytes)(regs, &scene.arena.shared, access, offset)
            }
            (Space::Shared, _) => (moves.write_bytes)(regs, &mut scene.arena.shared, access, offset),
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
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
        kind: AccessKind,
    ) -> Outcome<()> {
        if !P::ENABLED {
            if mask == FULL && self.all_at_once(scene, access, kind).is_some() {
                return Ok(());
            }
            let mut addresses = self.addresses(&access.at);
            return self.by_space(scene, access, mask, &mut addresses, kind);
        }
        // A load may overwrite its address registers.
        let mut addresses = self.addresses(&access.at);
        if mask == FULL
            && let Some((space, spacing)) = self.all_at_once(scene, access, kind)
        {
            if access.at.space == Space::Generic {
                addresses = addresses.map(|address| address - window(space));
            }
            let owner = scene.arena.rank;
            let all = (mask, mask, 0);
            self.tell_access(scene, access, all, (space, owner), (&addresses, Some(spacing)), kind);
            return Ok(());
        }
        self.by_space(scene, access, mask, &mut addresses, kind)
    }

    pub(super) fn load<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength != Strength::Weak {
            scene.turn.poll();
        }
        self.access(scene, access, mask, AccessKind::Load)?;
        if access.strength == Strength::Acquire {
            fence(Ordering::Acquire);
        }
        Ok(())
    }

    pub(super) fn store<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength == Strength::Release {
            fence(Ordering::Release);
        }
        self.access(scene, access, mask, AccessKind::Store)
    }

    /// Gives the observer the event of an access, or of a part of one: the lanes that execute it, those
    /// of the part, and its number.
    fn tell_access<P: Probe>(
        &self,
        scene: &mut Scene<'_, P>,
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
        scene.tell_part((self.pc, self.index, active, mask), part, detail);
    }

    /// Carries out an access in its state space: a generic one in each space, and one of a cluster's
    /// shared memory in each block, that its addresses are in.
    pub(super) fn by_space<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
    ) -> Outcome<()> {
        self.by_space_from(scene, access, mask, addresses, kind, &mut 0)
    }

    /// As [`by_space`](Self::by_space), for one of several accesses of an instruction: its events are
    /// numbered from `part`, which is advanced past them.
    pub(super) fn by_space_from<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
        part: &mut u32,
    ) -> Outcome<()> {
        let own = u64::from(scene.arena.rank);
        let (mut rest, mut space, mut rank) = (mask, access.at.space, own);
        loop {
            let mut lanes = rest;
            if access.at.cluster && rest != 0 {
                let named;
                (lanes, space, named) = nearest_memory(access.at.space, rest, addresses);
                rank = named.unwrap_or(own);
            }
            if lanes != 0 && rank != own {
                self.remote(scene, access, lanes, addresses, kind, rank)?;
            } else if lanes != 0 {
                self.within(scene, access, lanes, addresses, kind, space)?;
            }
            if P::ENABLED {
                let (of, owner) = ((mask, lanes, *part), (space, rank as u32));
                self.tell_access(scene, access, of, owner, (addresses, None), kind);
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
        scene: &mut Scene<'_, P>,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        rank: u64,
    ) -> Outcome<()> {
        let lane = lanes.trailing_zeros();
        let member = scene.common.member(rank, addresses[lane as usize], name(kind), lane)?;
        self.transfer(&mut Bytes(&mut member.shared), access, lanes, addresses, kind, Space::Shared)
    }

    fn within<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        space: Space,
    ) -> Outcome<()> {
        let launch = scene.launch;
        match (space, kind) {
            (Space::Global | Space::Generic, _) => {
                if let Some(world) = scene.probe.exploration() {
                    let hint = &mut scene.arena.hint;
                    let mut weak = Weak { world, launch, hint, warp: self.index, order: access.order };
                    return self.transfer(&mut weak, access, lanes, addresses, kind, Space::Global);
                }
                let mut global = Global { view: &launch.view, hint: &mut scene.arena.hint };
                self.transfer(&mut global, access, lanes, addresses, kind, Space::Global)
            }
            (Space::Shared, _) => {
                self.transfer(&mut Bytes(&mut scene.arena.shared), access, lanes, addresses, kind, space)
            }
            (Space::Local, _) => {
                let bytes = self.local_bytes;
                let mut memory = std::mem::take(&mut self.local);
                let mut local = Lanes { memory: &mut memory, bytes };
                let done = self.transfer(&mut local, access, lanes, addresses, kind, space);
                self.local = memory;
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
        let allowed = memory.bounds(address);
        FaultKind::OutOfBounds { access, space, address, bytes, allowed }
    } else {
        FaultKind::Misaligned { access, space, address, bytes }
    };
    trouble(kind, lane as u32)
}
