//! Loads and stores of a warp: which memory each lane means.

use std::sync::atomic::{Ordering, fence};

use crate::error::FaultKind;
use crate::lanes::{FULL, Row64, for_each_lane};
use crate::memory::{Space, classify, owner, region, window};
use crate::observe::{AccessKind, Detail, Memory};
use crate::program::{Access, Base, LANES, Place, Slot, Strength};

use super::backing::{Bytes, Global, Lanes, Sink, Source};
use super::explored::Weak;
use super::warp::Warp;
use super::{Outcome, Probe, Scene, trouble};

/// Of the lanes of `rest`, those that access the same memory as the first of them:
/// its space, and its owner's rank if the addresses name one. Their addresses
/// become those within it.
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

    /// The address of each lane.
    #[inline]
    pub(super) fn addresses(&self, place: &Place) -> Row64 {
        let offset = place.offset as u64;
        let mut addresses = [offset; LANES];
        match place.base {
            Base::Absolute => {}
            Base::Word(row) => {
                for (address, base) in addresses.iter_mut().zip(&self.regs.words[usize::from(row)]) {
                    *address = u64::from(base.wrapping_add(offset as u32));
                }
            }
            Base::Double(row) => {
                for (address, base) in addresses.iter_mut().zip(&self.regs.doubles[usize::from(row)]) {
                    *address = base.wrapping_add(offset);
                }
            }
        }
        addresses
    }

    /// The first address of a full warp on neighbouring words of shared memory,
    /// the most frequent access of all, found on the 32-bit addresses themselves.
    #[inline]
    fn shared_words(&self, access: &Access, mask: u32) -> Option<(usize, u64)> {
        let (Space::Shared, Base::Word(base), Slot::Word(row)) =
            (access.at.space, access.at.base, access.data[0])
        else {
            return None;
        };
        if mask != FULL || access.count != 1 || access.ty.bytes() != 4 {
            return None;
        }
        let bases = &self.regs.words[usize::from(base)];
        let mut differs = 0;
        for (lane, base) in bases.iter().enumerate() {
            differs |= base ^ bases[0].wrapping_add(4 * lane as u32);
        }
        let first = bases[0].wrapping_add(access.at.offset as u32);
        (differs == 0 && first.is_multiple_of(4)).then_some((usize::from(row), u64::from(first)))
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
        if !P::ENABLED
            && let Some((row, first)) = self.shared_words(access, mask)
            && Bytes(&scene.arena.shared).bulk_words(first, &mut self.regs.words[row])
        {
            return Ok(());
        }
        let mut addresses = self.addresses(&access.at);
        self.by_space(scene, access, mask, &mut addresses, AccessKind::Load)?;
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
        if !P::ENABLED
            && let Some((row, first)) = self.shared_words(access, mask)
            && Bytes(&mut scene.arena.shared).bulk_put_words(first, &self.regs.words[row])
        {
            return Ok(());
        }
        let mut addresses = self.addresses(&access.at);
        self.by_space(scene, access, mask, &mut addresses, AccessKind::Store)
    }

    /// Carries out an access in its state space; a generic one in each space, and
    /// one of a cluster's shared memory in each block, that its addresses lie in.
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

    /// As [`by_space`](Self::by_space), one of several accesses of an instruction: its events are numbered
    /// from `part` on, which becomes the number behind them.
    pub(super) fn by_space_from<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
        part: &mut u32,
    ) -> Outcome<()> {
        let generic = access.at.space == Space::Generic;
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
                let detail = Detail::Memory(Memory {
                    space,
                    owner: rank as u32,
                    generic,
                    kind,
                    bytes: access.ty.bytes() * u32::from(access.count),
                    elements: u32::from(access.count),
                    lanes,
                    addresses,
                });
                let active = self.active | mask;
                scene.tell_part((self.pc, self.index, active, mask), *part, detail);
                *part += 1;
            }
            rest &= !lanes;
            if rest == 0 {
                return Ok(());
            }
        }
    }

    /// Carries out an access in the shared memory of another block of the cluster.
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

    /// Carries out an access within one state space.
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

/// The name of an access in errors.
pub(super) const fn name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Atomic | AccessKind::Reduction => "atomic",
    }
}

/// The error of a lane whose address is misaligned or out of bounds.
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
