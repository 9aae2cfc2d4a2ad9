//! Loads and stores of a warp.
//!
//! A full warp whose lanes access neighbouring elements moves them in one go
//! after a single bounds check, a full warp that reads one element reads it
//! once; everything else goes lane by lane.

use std::sync::atomic::{Ordering, fence};

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::{FULL, Row, Row64, for_each_lane};
use crate::memory::{Space, classify, window};
use crate::observe::{AccessKind, Detail, Memory};
use crate::program::{Access, Base, LANES, Slot, Strength};

use super::backing::{Bytes, Global, Lanes, Sink, Source};
use super::warp::Warp;
use super::{Outcome, Probe, Scene, trouble};

/// How the addresses of a full warp relate.
#[derive(PartialEq, Eq)]
enum Pattern {
    Consecutive,
    Uniform,
    Other,
}

fn pattern(addresses: &Row64, stride: u64) -> Pattern {
    let first = addresses[0];
    let mut differs = 0;
    for (lane, &address) in addresses.iter().enumerate() {
        differs |= address ^ first.wrapping_add(lane as u64 * stride);
    }
    if differs == 0 {
        return Pattern::Consecutive;
    }
    let uniform = addresses.iter().fold(0, |differs, &address| differs | address ^ first) == 0;
    if uniform { Pattern::Uniform } else { Pattern::Other }
}

/// The bits of an element as a register gets them.
fn extended(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::S8 => bits as u8 as i8 as u64,
        Type::S16 => bits as u16 as i16 as u64,
        Type::S32 => bits as u32 as i32 as u64,
        _ => bits,
    }
}

impl Warp {
    #[inline]
    fn set(&mut self, slot: Slot, lane: usize, value: u64) {
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
    pub(super) fn addresses(&self, access: &Access) -> Row64 {
        let offset = access.offset as u64;
        let mut addresses = [offset; LANES];
        match access.base {
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
            (access.space, access.base, access.data[0])
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
        let first = bases[0].wrapping_add(access.offset as u32);
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
        let mut addresses = self.addresses(access);
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
        let mut addresses = self.addresses(access);
        self.by_space(scene, access, mask, &mut addresses, AccessKind::Store)
    }

    /// Carries out an access in its state space; a generic one in each space
    /// that its addresses lie in.
    pub(super) fn by_space<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        access: &Access,
        mask: u32,
        addresses: &mut Row64,
        kind: AccessKind,
    ) -> Outcome<()> {
        let generic = access.space == Space::Generic;
        let (mut rest, mut space) = (mask, access.space);
        loop {
            let mut lanes = rest;
            if generic && rest != 0 {
                space = classify(addresses[rest.trailing_zeros() as usize]);
                for_each_lane(rest, |lane| {
                    if classify(addresses[lane]) == space {
                        addresses[lane] -= window(space);
                    } else {
                        lanes &= !(1 << lane);
                    }
                });
            }
            if lanes != 0 {
                self.within(scene, access, lanes, addresses, kind, space)?;
            }
            if P::ENABLED {
                let detail = Detail::Memory(Memory {
                    space,
                    generic,
                    kind,
                    bytes: access.ty.bytes() * u32::from(access.count),
                    elements: u32::from(access.count),
                    lanes,
                    addresses,
                });
                self.tell(scene, mask, detail);
            }
            rest &= !lanes;
            if rest == 0 {
                return Ok(());
            }
        }
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
                let mut global = Global { view: &launch.view, hint: &mut scene.arena.hint };
                self.transfer(&mut global, access, lanes, addresses, kind, Space::Global)
            }
            (Space::Shared, _) => {
                self.transfer(&mut Bytes(&mut scene.arena.shared), access, lanes, addresses, kind, space)
            }
            (Space::Local, _) => {
                let bytes = launch.entry.program.local_bytes as usize;
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

    #[inline]
    fn read<M: Source>(
        &mut self,
        memory: &mut M,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        space: Space,
    ) -> Outcome<()> {
        let bytes = access.ty.bytes() * u32::from(access.count);
        if lanes == FULL && addresses[0].is_multiple_of(u64::from(bytes)) {
            match pattern(addresses, u64::from(bytes)) {
                Pattern::Consecutive if self.read_bulk(memory, access, addresses[0]) => return Ok(()),
                Pattern::Uniform
                    if let Some(place) = memory.locate(addresses[0], bytes, 0)
                        && space != Space::Local =>
                {
                    self.read_one(memory, place, access);
                    return Ok(());
                }
                _ => {}
            }
        }
        let width = access.ty.bytes();
        let mut failed = None;
        for_each_lane(lanes, |lane| {
            let address = addresses[lane];
            let place = memory.locate(address, bytes, lane);
            match place.filter(|_| address.is_multiple_of(u64::from(bytes))) {
                Some(place) => {
                    for index in 0..access.count {
                        let bits = memory.get(place, u32::from(index) * width, width);
                        let slot = access.data[usize::from(index)];
                        self.set(slot, lane, extended(access.ty, bits));
                    }
                }
                None => failed = failed.or(Some(lane)),
            }
        });
        match failed {
            None => Ok(()),
            Some(lane) => bad_access(memory, "load", space, addresses[lane], bytes, lane),
        }
    }

    /// One element for all lanes.
    fn read_one<M: Source>(&mut self, memory: &M, place: M::Place, access: &Access) {
        let width = access.ty.bytes();
        for index in 0..access.count {
            let bits = memory.get(place, u32::from(index) * width, width);
            let value = extended(access.ty, bits);
            match access.data[usize::from(index)] {
                Slot::Sink => {}
                Slot::Word(row) => self.regs.words[usize::from(row)] = [value as u32; LANES],
                Slot::Half(row) => {
                    self.regs.words[usize::from(row)] = [value as u32 & 0xffff; LANES];
                }
                Slot::Double(row) => self.regs.doubles[usize::from(row)] = [value; LANES],
            }
        }
    }

    /// Consecutive elements for a full warp, if the types allow to copy them.
    #[inline]
    fn read_bulk<M: Source>(&mut self, memory: &mut M, access: &Access, address: u64) -> bool {
        match (access.ty.bytes(), access.count, access.data[0]) {
            (4, 1, Slot::Word(row)) => {
                memory.bulk_words(address, &mut self.regs.words[usize::from(row)])
            }
            (8, 1, Slot::Double(row)) => {
                memory.bulk_doubles(address, &mut self.regs.doubles[usize::from(row)])
            }
            (4, 2, _) => self.read_word_vectors::<M, 2>(memory, access, address),
            (4, 4, _) => self.read_word_vectors::<M, 4>(memory, access, address),
            (8, 2, _) => self.read_double_vectors(memory, access, address),
            _ => false,
        }
    }

    fn read_word_vectors<M: Source, const N: usize>(
        &mut self,
        memory: &mut M,
        access: &Access,
        address: u64,
    ) -> bool {
        let slots = &access.data[..N];
        if slots.iter().any(|slot| matches!(slot, Slot::Half(_) | Slot::Double(_))) {
            return false;
        }
        let mut staged = [0; LANES * 4];
        if !memory.bulk_words(address, &mut staged[..LANES * N]) {
            return false;
        }
        for (index, slot) in slots.iter().enumerate() {
            if let Slot::Word(row) = slot {
                let row: &mut Row = &mut self.regs.words[usize::from(*row)];
                for (lane, value) in row.iter_mut().enumerate() {
                    *value = staged[lane * N + index];
                }
            }
        }
        true
    }

    fn read_double_vectors<M: Source>(&mut self, memory: &mut M, access: &Access, address: u64) -> bool {
        let mut staged = [0; LANES * 2];
        if !memory.bulk_doubles(address, &mut staged) {
            return false;
        }
        for (index, slot) in access.data[..2].iter().enumerate() {
            if let Slot::Double(row) = slot {
                let row: &mut Row64 = &mut self.regs.doubles[usize::from(*row)];
                for (lane, value) in row.iter_mut().enumerate() {
                    *value = staged[lane * 2 + index];
                }
            }
        }
        true
    }

    #[inline]
    fn write<M: Sink>(
        &mut self,
        memory: &mut M,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        space: Space,
    ) -> Outcome<()> {
        let bytes = access.ty.bytes() * u32::from(access.count);
        let aligned = addresses[0].is_multiple_of(u64::from(bytes));
        if lanes == FULL
            && aligned
            && pattern(addresses, u64::from(bytes)) == Pattern::Consecutive
            && self.write_bulk(memory, access, addresses[0])
        {
            return Ok(());
        }
        let width = access.ty.bytes();
        let mut failed = None;
        for_each_lane(lanes, |lane| {
            let address = addresses[lane];
            let place = memory.locate(address, bytes, lane);
            match place.filter(|_| address.is_multiple_of(u64::from(bytes))) {
                Some(place) => {
                    for index in 0..access.count {
                        let value = self.value(access.data[usize::from(index)], lane);
                        memory.put(place, u32::from(index) * width, width, value);
                    }
                }
                None => failed = failed.or(Some(lane)),
            }
        });
        match failed {
            None => Ok(()),
            Some(lane) => bad_access(memory, "store", space, addresses[lane], bytes, lane),
        }
    }

    #[inline]
    fn write_bulk<M: Sink>(&self, memory: &mut M, access: &Access, address: u64) -> bool {
        match (access.ty.bytes(), access.count, access.data) {
            (4, 1, [Slot::Word(row), ..]) => {
                memory.bulk_put_words(address, &self.regs.words[usize::from(row)])
            }
            (8, 1, [Slot::Double(row), ..]) => {
                memory.bulk_put_doubles(address, &self.regs.doubles[usize::from(row)])
            }
            (4, count @ (2 | 4), slots) => {
                let count = usize::from(count);
                let mut staged = [0; LANES * 4];
                for (index, slot) in slots[..count].iter().enumerate() {
                    let Slot::Word(row) = slot else { return false };
                    for (lane, value) in self.regs.words[usize::from(*row)].iter().enumerate() {
                        staged[lane * count + index] = *value;
                    }
                }
                memory.bulk_put_words(address, &staged[..LANES * count])
            }
            (8, 2, [Slot::Double(first), Slot::Double(second), ..]) => {
                let mut staged = [0; LANES * 2];
                for (index, row) in [first, second].into_iter().enumerate() {
                    for (lane, value) in self.regs.doubles[usize::from(row)].iter().enumerate() {
                        staged[lane * 2 + index] = *value;
                    }
                }
                memory.bulk_put_doubles(address, &staged)
            }
            _ => false,
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
