//! Loads and stores of a warp.
//!
//! A full warp whose lanes access neighbouring elements moves them in one go
//! after a single bounds check, a full warp that reads one element reads it
//! once; everything else goes lane by lane.

use std::sync::atomic::{Ordering, fence};

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::{FULL, Row, Row64, for_each_lane};
use crate::memory::{Allocation, Space, View, classify, window};
use crate::observe::{AccessKind, Detail, Memory};
use crate::program::{Access, Base, LANES, Slot, Strength};

use super::block::Arena;
use super::warp::{Turn, Warp};
use super::{Launched, Outcome, Probe, trouble};

/// Memory that lanes read.
pub(super) trait Source {
    /// A checked location of one lane's access.
    type Place: Copy;

    /// Checks bounds; the address is aligned already.
    fn locate(&mut self, address: u64, bytes: u32, lane: usize) -> Option<Self::Place>;

    /// The `width` bytes at `offset` from a location.
    fn get(&self, place: Self::Place, offset: u32, width: u32) -> u64;

    /// Fills `words` from consecutive addresses; `false` if that is not possible.
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool;

    /// As `bulk_words`, in units of 64 bits.
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool;

    /// The bounds in words, for an error.
    fn bounds(&self, address: u64) -> String;
}

/// Memory that lanes write.
pub(super) trait Sink: Source {
    fn put(&mut self, place: Self::Place, offset: u32, width: u32, value: u64);
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool;
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool;
    /// Replaces a value by `change` of it and returns the old one.
    fn update(&mut self, place: Self::Place, width: u32, change: impl Fn(u64) -> u64) -> u64;
}

/// Bytes that all lanes share.
pub(super) struct Bytes<T>(pub(super) T);

/// Local memory: each lane has its own `bytes` of the whole.
pub(super) struct Lanes<'m> {
    memory: &'m mut [u8],
    bytes: usize,
}

/// Global memory, with the index of the allocation found last.
pub(super) struct Global<'v> {
    pub(super) view: &'v View,
    pub(super) hint: &'v mut usize,
}

fn read(memory: &[u8], at: usize, width: u32) -> u64 {
    let mut bytes = [0; 8];
    match width {
        4 => return u64::from(u32::from_le_bytes(array(memory, at))),
        8 => return u64::from_le_bytes(array(memory, at)),
        _ => bytes[..width as usize].copy_from_slice(&memory[at..at + width as usize]),
    }
    u64::from_le_bytes(bytes)
}

#[inline(always)]
fn array<const N: usize>(memory: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&memory[at..at + N]);
    bytes
}

/// The range of `count` elements of `N` bytes from an address on.
fn span<const N: usize>(address: u64, count: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(address).ok()?;
    Some(start..start.checked_add(count * N)?)
}

impl<T: AsRef<[u8]>> Source for Bytes<T> {
    type Place = usize;

    #[inline]
    fn locate(&mut self, address: u64, bytes: u32, _: usize) -> Option<usize> {
        let length = self.0.as_ref().len() as u64;
        (address < length && u64::from(bytes) <= length - address).then_some(address as usize)
    }

    #[inline]
    fn get(&self, place: usize, offset: u32, width: u32) -> u64 {
        read(self.0.as_ref(), place + offset as usize, width)
    }

    #[inline]
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool {
        let Some(bytes) = span::<4>(address, words.len()).and_then(|s| self.0.as_ref().get(s)) else {
            return false;
        };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(array(bytes, 0));
        }
        true
    }

    #[inline]
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool {
        let Some(bytes) = span::<8>(address, doubles.len()).and_then(|s| self.0.as_ref().get(s)) else {
            return false;
        };
        for (double, bytes) in doubles.iter_mut().zip(bytes.chunks_exact(8)) {
            *double = u64::from_le_bytes(array(bytes, 0));
        }
        true
    }

    fn bounds(&self, _: u64) -> String {
        format!("the space has {} bytes", self.0.as_ref().len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sink for Bytes<T> {
    #[inline]
    fn put(&mut self, place: usize, offset: u32, width: u32, value: u64) {
        write(self.0.as_mut(), place + offset as usize, width, value);
    }

    #[inline]
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool {
        let Some(bytes) = span::<4>(address, words.len()).and_then(|s| self.0.as_mut().get_mut(s))
        else {
            return false;
        };
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        true
    }

    #[inline]
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool {
        let Some(bytes) = span::<8>(address, doubles.len()).and_then(|s| self.0.as_mut().get_mut(s))
        else {
            return false;
        };
        for (bytes, double) in bytes.chunks_exact_mut(8).zip(doubles) {
            bytes.copy_from_slice(&double.to_le_bytes());
        }
        true
    }

    #[inline]
    fn update(&mut self, place: usize, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let old = read(self.0.as_ref(), place, width);
        write(self.0.as_mut(), place, width, change(old));
        old
    }
}

fn write(memory: &mut [u8], at: usize, width: u32, value: u64) {
    match width {
        4 => memory[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
        8 => memory[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        _ => {
            let width = width as usize;
            memory[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}

impl Source for Lanes<'_> {
    type Place = usize;

    fn locate(&mut self, address: u64, bytes: u32, lane: usize) -> Option<usize> {
        let length = self.bytes as u64;
        (address < length && u64::from(bytes) <= length - address)
            .then_some(lane * self.bytes + address as usize)
    }

    fn get(&self, place: usize, offset: u32, width: u32) -> u64 {
        read(self.memory, place + offset as usize, width)
    }

    fn bulk_words(&mut self, _: u64, _: &mut [u32]) -> bool {
        false
    }

    fn bulk_doubles(&mut self, _: u64, _: &mut [u64]) -> bool {
        false
    }

    fn bounds(&self, _: u64) -> String {
        format!("the thread has {} bytes", self.bytes)
    }
}

impl Sink for Lanes<'_> {
    fn put(&mut self, place: usize, offset: u32, width: u32, value: u64) {
        write(self.memory, place + offset as usize, width, value);
    }

    fn bulk_put_words(&mut self, _: u64, _: &[u32]) -> bool {
        false
    }

    fn bulk_put_doubles(&mut self, _: u64, _: &[u64]) -> bool {
        false
    }

    fn update(&mut self, place: usize, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let old = read(self.memory, place, width);
        write(self.memory, place, width, change(old));
        old
    }
}

impl<'v> Source for Global<'v> {
    type Place = (&'v Allocation, u64);

    #[inline]
    fn locate(&mut self, address: u64, bytes: u32, _: usize) -> Option<Self::Place> {
        let allocation = self.view.find(address, u64::from(bytes), self.hint)?;
        Some((allocation, address - allocation.base()))
    }

    #[inline]
    fn get(&self, (allocation, at): Self::Place, offset: u32, width: u32) -> u64 {
        allocation.load(at + u64::from(offset), width, Ordering::Relaxed)
    }

    #[inline]
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool {
        if !address.is_multiple_of(8) || !words.len().is_multiple_of(2) {
            return false;
        }
        let Some((allocation, offset)) = self.locate(address, words.len() as u32 * 4, 0) else {
            return false;
        };
        for (pair, cell) in words.chunks_exact_mut(2).zip(allocation.cells_from(offset)) {
            let value = cell.load(Ordering::Relaxed);
            (pair[0], pair[1]) = (value as u32, (value >> 32) as u32);
        }
        true
    }

    #[inline]
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool {
        let Some((allocation, offset)) = self.locate(address, doubles.len() as u32 * 8, 0) else {
            return false;
        };
        for (double, cell) in doubles.iter_mut().zip(allocation.cells_from(offset)) {
            *double = cell.load(Ordering::Relaxed);
        }
        true
    }

    fn bounds(&self, address: u64) -> String {
        self.view.nearest(address)
    }
}

impl Sink for Global<'_> {
    #[inline]
    fn put(&mut self, (allocation, at): Self::Place, offset: u32, width: u32, value: u64) {
        allocation.store(at + u64::from(offset), width, value, Ordering::Relaxed);
    }

    #[inline]
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool {
        if !address.is_multiple_of(8) || !words.len().is_multiple_of(2) {
            return false;
        }
        let Some((allocation, offset)) = self.locate(address, words.len() as u32 * 4, 0) else {
            return false;
        };
        for (pair, cell) in words.chunks_exact(2).zip(allocation.cells_from(offset)) {
            cell.store(u64::from(pair[0]) | u64::from(pair[1]) << 32, Ordering::Relaxed);
        }
        true
    }

    #[inline]
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool {
        let Some((allocation, offset)) = self.locate(address, doubles.len() as u32 * 8, 0) else {
            return false;
        };
        for (double, cell) in doubles.iter().zip(allocation.cells_from(offset)) {
            cell.store(*double, Ordering::Relaxed);
        }
        true
    }

    #[inline]
    fn update(&mut self, (allocation, at): Self::Place, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        allocation.update(at, width, change)
    }
}

/// How the addresses of a full warp relate.
#[derive(PartialEq, Eq)]
enum Pattern {
    Consecutive,
    Uniform,
    Other,
}

fn pattern(addresses: &Row64, stride: u64) -> Pattern {
    let first = addresses[0];
    let (mut steps, mut differs) = (0, 0);
    for (lane, &address) in addresses.iter().enumerate() {
        steps |= address ^ first.wrapping_add(lane as u64 * stride);
        differs |= address ^ first;
    }
    match (steps, differs) {
        (0, _) => Pattern::Consecutive,
        (_, 0) => Pattern::Uniform,
        _ => Pattern::Other,
    }
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
        match access.base {
            Base::Absolute => [offset; LANES],
            Base::Word(row) => {
                self.regs.words[usize::from(row)].map(|a| u64::from(a.wrapping_add(offset as u32)))
            }
            Base::Double(row) => self.regs.doubles[usize::from(row)].map(|a| a.wrapping_add(offset)),
        }
    }

    pub(super) fn load<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        arena: &mut Arena,
        probe: &P,
        turn: &mut Turn,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength != Strength::Weak {
            Self::poll(turn);
        }
        let addresses = self.addresses(access);
        self.by_space(launch, arena, probe, access, mask, addresses, AccessKind::Load)?;
        if access.strength == Strength::Acquire {
            fence(Ordering::Acquire);
        }
        Ok(())
    }

    pub(super) fn store<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        arena: &mut Arena,
        probe: &P,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if access.strength == Strength::Release {
            fence(Ordering::Release);
        }
        let addresses = self.addresses(access);
        self.by_space(launch, arena, probe, access, mask, addresses, AccessKind::Store)
    }

    /// Carries out an access in its state space; a generic one in each space
    /// that its addresses lie in.
    pub(super) fn by_space<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        arena: &mut Arena,
        probe: &P,
        access: &Access,
        mask: u32,
        mut addresses: Row64,
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
                self.within(launch, arena, access, lanes, &addresses, kind, space)?;
            }
            if P::ENABLED {
                let detail = Detail::Memory(Memory {
                    space,
                    generic,
                    kind,
                    bytes: access.ty.bytes() * u32::from(access.count),
                    elements: u32::from(access.count),
                    lanes,
                    addresses: &addresses,
                });
                self.tell(launch, arena, probe, mask, detail);
            }
            rest &= !lanes;
            if rest == 0 {
                return Ok(());
            }
        }
    }

    /// Carries out an access within one state space.
    fn within(
        &mut self,
        launch: &Launched<'_>,
        arena: &mut Arena,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        kind: AccessKind,
        space: Space,
    ) -> Outcome<()> {
        match (space, kind) {
            (Space::Global | Space::Generic, _) => {
                let mut global = Global { view: &launch.view, hint: &mut arena.hint };
                self.transfer(&mut global, access, lanes, addresses, kind, Space::Global)
            }
            (Space::Shared, _) => {
                self.transfer(&mut Bytes(&mut arena.shared), access, lanes, addresses, kind, space)
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
