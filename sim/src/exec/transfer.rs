//! How lanes move their elements to and from a memory.
//!
//! A full warp whose lanes access neighbouring elements moves them in one go
//! after a single bounds check, a full warp that reads one element reads it
//! once; everything else goes lane by lane.

use crate::ast::Type;
use crate::lanes::{FULL, Regs, Row64, for_each_lane};
use crate::memory::Space;
use crate::program::{Access, LANES, Slot};

use super::Outcome;
use super::backing::{Sink, Source};
use super::memory::bad_access;
use super::warp::Warp;

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

/// A register's value in a lane, as memory and register file hold it.
trait Element: Copy + Default {
    /// The row of a slot that holds such values.
    fn row(slot: Slot) -> Option<usize>;
    fn file(regs: &Regs) -> &[[Self; LANES]];
    fn file_mut(regs: &mut Regs) -> &mut [[Self; LANES]];
    fn load(memory: &mut impl Source, address: u64, into: &mut [Self]) -> bool;
    fn store(memory: &mut impl Sink, address: u64, from: &[Self]) -> bool;
}

/// Declares the elements of the two register files.
macro_rules! elements {
    ($($ty:ident: $slot:ident in $file:ident, $load:ident, $store:ident;)*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn row(slot: Slot) -> Option<usize> {
                if let Slot::$slot(row) = slot { Some(usize::from(row)) } else { None }
            }

            #[inline(always)]
            fn file(regs: &Regs) -> &[[Self; LANES]] {
                &regs.$file
            }

            #[inline(always)]
            fn file_mut(regs: &mut Regs) -> &mut [[Self; LANES]] {
                &mut regs.$file
            }

            #[inline(always)]
            fn load(memory: &mut impl Source, address: u64, into: &mut [Self]) -> bool {
                memory.$load(address, into)
            }

            #[inline(always)]
            fn store(memory: &mut impl Sink, address: u64, from: &[Self]) -> bool {
                memory.$store(address, from)
            }
        }
    )*};
}

elements! {
    u32: Word in words, bulk_words, bulk_put_words;
    u64: Double in doubles, bulk_doubles, bulk_put_doubles;
}

impl Warp {
    #[inline]
    pub(super) fn read<M: Source>(
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
                    if !M::PER_LANE
                        && let Some(place) = memory.locate(addresses[0], bytes, 0) =>
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
        match (access.ty.bytes(), access.count) {
            (4, 1) => self.read_row::<u32, M>(memory, access.data[0], address),
            (8, 1) => self.read_row::<u64, M>(memory, access.data[0], address),
            (4, 2) => self.read_vectors::<u32, M, 2>(memory, access, address),
            (4, 4) => self.read_vectors::<u32, M, 4>(memory, access, address),
            (8, 2) => self.read_vectors::<u64, M, 2>(memory, access, address),
            _ => false,
        }
    }

    #[inline]
    fn read_row<E: Element, M: Source>(&mut self, memory: &mut M, slot: Slot, address: u64) -> bool {
        let row = E::row(slot);
        row.is_some_and(|row| E::load(memory, address, &mut E::file_mut(&mut self.regs)[row]))
    }

    fn read_vectors<E: Element, M: Source, const N: usize>(
        &mut self,
        memory: &mut M,
        access: &Access,
        address: u64,
    ) -> bool {
        let slots = &access.data[..N];
        if slots.iter().any(|&slot| slot != Slot::Sink && E::row(slot).is_none()) {
            return false;
        }
        let mut staged = [E::default(); LANES * 4];
        if !E::load(memory, address, &mut staged[..LANES * N]) {
            return false;
        }
        for (index, &slot) in slots.iter().enumerate() {
            let Some(row) = E::row(slot) else { continue };
            for (lane, value) in E::file_mut(&mut self.regs)[row].iter_mut().enumerate() {
                *value = staged[lane * N + index];
            }
        }
        true
    }

    #[inline]
    pub(super) fn write<M: Sink>(
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

    /// Consecutive elements from a full warp, if the types allow to copy them.
    #[inline]
    fn write_bulk<M: Sink>(&self, memory: &mut M, access: &Access, address: u64) -> bool {
        match (access.ty.bytes(), access.count) {
            (4, 1) => self.write_row::<u32, M>(memory, access.data[0], address),
            (8, 1) => self.write_row::<u64, M>(memory, access.data[0], address),
            (4, 2) => self.write_vectors::<u32, M, 2>(memory, access, address),
            (4, 4) => self.write_vectors::<u32, M, 4>(memory, access, address),
            (8, 2) => self.write_vectors::<u64, M, 2>(memory, access, address),
            _ => false,
        }
    }

    #[inline]
    fn write_row<E: Element, M: Sink>(&self, memory: &mut M, slot: Slot, address: u64) -> bool {
        E::row(slot).is_some_and(|row| E::store(memory, address, &E::file(&self.regs)[row]))
    }

    fn write_vectors<E: Element, M: Sink, const N: usize>(
        &self,
        memory: &mut M,
        access: &Access,
        address: u64,
    ) -> bool {
        let mut staged = [E::default(); LANES * 4];
        for (index, &slot) in access.data[..N].iter().enumerate() {
            let Some(row) = E::row(slot) else { return false };
            for (lane, value) in E::file(&self.regs)[row].iter().enumerate() {
                staged[lane * N + index] = *value;
            }
        }
        E::store(memory, address, &staged[..LANES * N])
    }
}
