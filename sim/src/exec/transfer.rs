//! Element transfers between lanes and a memory.
//!
//! A full warp moves its elements together where it can: adjacent elements with one bounds check, and an
//! element that all lanes read with one load. Otherwise halves of the warp, then groups of eight lanes,
//! follow the same rules. All other accesses, including errors, go lane by lane.

use multiversion::multiversion;

use crate::ast::Type;
use crate::lanes::{Address, File, Regs, Row64, are_spaced, for_each_lane};
use crate::memory::Space;
use crate::observe::Spacing;
use crate::program::{Access, Base, LANES, Slot};

use super::Outcome;
use super::backing::{Bytes, Global, Sink, Source};
use super::memory::bad_access;
use super::warp::Warp;

/// Lanes that are moved together if the whole warp cannot be.
const HALF: usize = LANES / 2;
/// Lanes that are moved together if a half cannot be.
const GROUP: usize = 8;

#[inline(always)]
fn advanced<A: Address>(row: &[A; LANES], offset: u64) -> [A; LANES] {
    let mut addresses = *row;
    for address in &mut addresses {
        *address = address.plus(offset);
    }
    addresses
}

#[inline(always)]
fn widened<A: Address>(addresses: &[A; LANES]) -> Row64 {
    let mut wide = [0; LANES];
    for (wide, &address) in wide.iter_mut().zip(addresses) {
        *wide = address.into();
    }
    wide
}

fn extended(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::S8 => bits as u8 as i8 as u64,
        Type::S16 => bits as u16 as i16 as u64,
        Type::S32 => bits as u32 as i32 as u64,
        _ => bits,
    }
}

/// `u32` or `u64`, with its register file, load and store.
trait Element: Copy + Default {
    fn row(slot: Slot) -> Option<usize>;
    fn file(regs: &Regs) -> &File<Self>;
    fn file_mut(regs: &mut Regs) -> &mut File<Self>;
    fn load(memory: &mut impl Source, address: u64, into: &mut [Self]) -> bool;
    fn store(memory: &mut impl Sink, address: u64, from: &[Self]) -> bool;
}

macro_rules! elements {
    ($($ty:ident: $slot:ident in $file:ident, $load:ident, $store:ident;)*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn row(slot: Slot) -> Option<usize> {
                if let Slot::$slot(row) = slot { Some(usize::from(row)) } else { None }
            }

            #[inline(always)]
            fn file(regs: &Regs) -> &File<Self> {
                &regs.$file
            }

            #[inline(always)]
            fn file_mut(regs: &mut Regs) -> &mut File<Self> {
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

/// Functions that move the elements of a full warp at once between registers and a memory, at `offset`
/// from the access's base, and return the spacing of the lanes' addresses. They return `None` if that is
/// not possible; the caller then moves all elements lane by lane, which repeats any partial effects.
#[derive(Clone, Copy)]
pub(crate) struct Moves {
    pub(super) read_bytes: fn(&mut Regs, &[u8], &Access, u64) -> Option<Spacing>,
    pub(super) write_bytes: fn(&Regs, &mut [u8], &Access, u64) -> Option<Spacing>,
    pub(super) read_global: fn(&mut Regs, Global<'_>, &Access, u64) -> Option<Spacing>,
    pub(super) write_global: fn(&Regs, Global<'_>, &Access, u64) -> Option<Spacing>,
}

/// Returns the functions compiled for this host. As in [`compiled`](crate::lanes::compiled), closures
/// are compiled for the same target as the enclosing function, and their callees are inlined.
#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
pub(crate) fn moves() -> Moves {
    Moves {
        read_bytes: |regs, bytes, access, offset| read_by_base(regs, &mut Bytes(bytes), access, offset),
        write_bytes: |regs, bytes, access, offset| {
            write_by_base(regs, &mut Bytes(bytes), access, offset)
        },
        read_global: |regs, mut global, access, offset| read_by_base(regs, &mut global, access, offset),
        write_global: |regs, mut global, access, offset| {
            write_by_base(regs, &mut global, access, offset)
        },
    }
}

#[inline(always)]
fn read_by_base<M: Source>(
    regs: &mut Regs,
    memory: &mut M,
    access: &Access,
    offset: u64,
) -> Option<Spacing> {
    match access.at.base {
        Base::Absolute => read_one(regs, memory, access, offset).then_some(Spacing::Same),
        Base::Word(row) => {
            let addresses = advanced(&regs.words[usize::from(row)], offset);
            read_rows(regs, memory, access, &addresses)
                .unwrap_or_else(|| read_in_groups(regs, memory, access, &widened(&addresses)))
        }
        Base::Double(row) => {
            let addresses = advanced(&regs.doubles[usize::from(row)], offset);
            read_rows(regs, memory, access, &addresses)
                .unwrap_or_else(|| read_in_groups(regs, memory, access, &addresses))
        }
    }
}

#[inline(always)]
fn read_one<M: Source>(regs: &mut Regs, memory: &mut M, access: &Access, address: u64) -> bool {
    match (access.ty.bytes(), access.count, access.data[0]) {
        (4, 1, Slot::Word(row)) => read_same(&mut regs.words[usize::from(row)], memory, address),
        (8, 1, Slot::Double(row)) => read_same(&mut regs.doubles[usize::from(row)], memory, address),
        _ => false,
    }
}

#[inline(always)]
fn read_same<E: Element>(row: &mut [E; LANES], memory: &mut impl Source, address: u64) -> bool {
    let mut one = [E::default()];
    let done = address.is_multiple_of(size_of::<E>() as u64) && E::load(memory, address, &mut one);
    if done {
        *row = [one[0]; LANES];
    }
    done
}

/// Reads an element for each lane. Returns `None` if the addresses are neither adjacent nor equal, and
/// `Some(None)` if the access fails.
#[inline(always)]
fn read_rows<M: Source, A: Address>(
    regs: &mut Regs,
    memory: &mut M,
    access: &Access,
    addresses: &[A; LANES],
) -> Option<Option<Spacing>> {
    match (access.ty.bytes(), access.count, access.data[0]) {
        (4, 1, Slot::Word(row)) => read_row(&mut regs.words[usize::from(row)], memory, addresses),
        (8, 1, Slot::Double(row)) => read_row(&mut regs.doubles[usize::from(row)], memory, addresses),
        _ => None,
    }
}

#[inline(always)]
fn read_row<E: Element, M: Source, A: Address>(
    row: &mut [E; LANES],
    memory: &mut M,
    addresses: &[A; LANES],
) -> Option<Option<Spacing>> {
    let first: u64 = addresses[0].into();
    if are_spaced(addresses, size_of::<E>()) {
        let done = first.is_multiple_of(size_of::<E>() as u64) && E::load(memory, first, row);
        return Some(done.then_some(Spacing::Next));
    }
    are_spaced(addresses, 0).then(|| read_same(row, memory, first).then_some(Spacing::Same))
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
fn read_in_groups<M: Source>(
    regs: &mut Regs,
    memory: &mut M,
    access: &Access,
    addresses: &Row64,
) -> Option<Spacing> {
    match (access.ty.bytes(), access.count) {
        (4, 1) => read_elements::<u32, M, 1>(regs, memory, access, addresses),
        (8, 1) => read_elements::<u64, M, 1>(regs, memory, access, addresses),
        (4, 2) => read_elements::<u32, M, 2>(regs, memory, access, addresses),
        (4, 4) => read_elements::<u32, M, 4>(regs, memory, access, addresses),
        (8, 2) => read_elements::<u64, M, 2>(regs, memory, access, addresses),
        _ => None,
    }
}

#[inline(always)]
fn hold<E: Element>(slots: &[Slot]) -> bool {
    slots.iter().all(|&slot| slot == Slot::Sink || E::row(slot).is_some())
}

#[inline(always)]
fn read_elements<E: Element, M: Source, const N: usize>(
    regs: &mut Regs,
    memory: &mut M,
    access: &Access,
    addresses: &Row64,
) -> Option<Spacing> {
    let (slots, stride) = (&access.data[..N], N * size_of::<E>());
    let aligned = |address: u64| address.is_multiple_of(stride as u64);
    if !hold::<E>(slots) || !aligned(addresses[0]) {
        return None;
    }
    // Registers are written after all reads: they may hold the addresses, which are needed again after a
    // failure.
    let mut staged = [[E::default(); N]; LANES];
    if are_spaced(addresses, stride) {
        let done = E::load(memory, addresses[0], staged.as_flattened_mut());
        if done {
            scatter(regs, slots, &staged);
        }
        return done.then_some(Spacing::Next);
    }
    let (halves, _) = staged.as_chunks_mut::<HALF>();
    for (half, addresses) in halves.iter_mut().zip(addresses.as_chunks::<HALF>().0) {
        let done = read_group(memory, half, addresses).unwrap_or_else(|| {
            let groups = half.as_chunks_mut::<GROUP>().0.iter_mut();
            groups.zip(addresses.as_chunks::<GROUP>().0).all(|(group, addresses)| {
                read_group(memory, group, addresses)
                    .unwrap_or_else(|| read_each(memory, group, addresses))
            })
        });
        if !done {
            return None;
        }
    }
    scatter(regs, slots, &staged);
    Some(Spacing::Other)
}

#[inline(always)]
fn read_group<E: Element, M: Source, const N: usize, const L: usize>(
    memory: &mut M,
    group: &mut [[E; N]; L],
    addresses: &[u64; L],
) -> Option<bool> {
    let stride = N * size_of::<E>();
    let first = addresses[0];
    let aligned = first.is_multiple_of(stride as u64);
    if are_spaced(addresses, stride) {
        return Some(aligned && E::load(memory, first, group.as_flattened_mut()));
    }
    if !are_spaced(addresses, 0) {
        return None;
    }
    let mut one = [E::default(); N];
    let done = aligned && E::load(memory, first, &mut one);
    *group = [one; L];
    Some(done)
}

#[inline(always)]
fn read_each<E: Element, M: Source, const N: usize>(
    memory: &mut M,
    group: &mut [[E; N]; GROUP],
    addresses: &[u64; GROUP],
) -> bool {
    let stride = (N * size_of::<E>()) as u64;
    for (elements, &address) in group.iter_mut().zip(addresses) {
        if !address.is_multiple_of(stride) || !E::load(memory, address, elements) {
            return false;
        }
    }
    true
}

#[inline(always)]
fn scatter<E: Element, const N: usize>(regs: &mut Regs, slots: &[Slot], staged: &[[E; N]; LANES]) {
    for (index, &slot) in slots.iter().enumerate() {
        let Some(row) = E::row(slot) else { continue };
        for (value, elements) in E::file_mut(regs)[row].iter_mut().zip(staged) {
            *value = elements[index];
        }
    }
}

#[inline(always)]
fn write_by_base<M: Sink>(regs: &Regs, memory: &mut M, access: &Access, offset: u64) -> Option<Spacing> {
    match access.at.base {
        Base::Absolute => None,
        Base::Word(row) => {
            let addresses = advanced(&regs.words[usize::from(row)], offset);
            write_rows(regs, memory, access, &addresses)
                .unwrap_or_else(|| write_in_groups(regs, memory, access, &widened(&addresses)))
        }
        Base::Double(row) => {
            let addresses = advanced(&regs.doubles[usize::from(row)], offset);
            write_rows(regs, memory, access, &addresses)
                .unwrap_or_else(|| write_in_groups(regs, memory, access, &addresses))
        }
    }
}

/// Writes an element of each lane, if the addresses are adjacent.
#[inline(always)]
fn write_rows<M: Sink, A: Address>(
    regs: &Regs,
    memory: &mut M,
    access: &Access,
    addresses: &[A; LANES],
) -> Option<Option<Spacing>> {
    match (access.ty.bytes(), access.count, access.data[0]) {
        (4, 1, Slot::Word(row)) => write_row(&regs.words[usize::from(row)], memory, addresses),
        (8, 1, Slot::Double(row)) => write_row(&regs.doubles[usize::from(row)], memory, addresses),
        _ => None,
    }
}

#[inline(always)]
fn write_row<E: Element, M: Sink, A: Address>(
    row: &[E; LANES],
    memory: &mut M,
    addresses: &[A; LANES],
) -> Option<Option<Spacing>> {
    let first: u64 = addresses[0].into();
    are_spaced(addresses, size_of::<E>()).then(|| {
        let done = first.is_multiple_of(size_of::<E>() as u64) && E::store(memory, first, row);
        done.then_some(Spacing::Next)
    })
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
fn write_in_groups<M: Sink>(
    regs: &Regs,
    memory: &mut M,
    access: &Access,
    addresses: &Row64,
) -> Option<Spacing> {
    match (access.ty.bytes(), access.count) {
        (4, 1) => write_elements::<u32, M, 1>(regs, memory, access, addresses),
        (8, 1) => write_elements::<u64, M, 1>(regs, memory, access, addresses),
        (4, 2) => write_elements::<u32, M, 2>(regs, memory, access, addresses),
        (4, 4) => write_elements::<u32, M, 4>(regs, memory, access, addresses),
        (8, 2) => write_elements::<u64, M, 2>(regs, memory, access, addresses),
        _ => None,
    }
}

#[inline(always)]
fn write_elements<E: Element, M: Sink, const N: usize>(
    regs: &Regs,
    memory: &mut M,
    access: &Access,
    addresses: &Row64,
) -> Option<Spacing> {
    let (slots, stride) = (&access.data[..N], N * size_of::<E>());
    let alike = slots.iter().all(|&slot| E::row(slot).is_some());
    let all = addresses.iter().fold(0, |all, address| all | address);
    if !alike || !all.is_multiple_of(stride as u64) {
        return None;
    }
    let staged: [[E; N]; LANES] = gather(regs, slots);
    if are_spaced(addresses, stride) {
        return E::store(memory, addresses[0], staged.as_flattened()).then_some(Spacing::Next);
    }
    let mut halves = staged.as_chunks::<HALF>().0.iter().zip(addresses.as_chunks::<HALF>().0);
    let done = halves.all(|(half, addresses)| {
        write_group(memory, half, addresses).unwrap_or_else(|| {
            let groups = half.as_chunks::<GROUP>().0.iter();
            groups.zip(addresses.as_chunks::<GROUP>().0).all(|(group, addresses)| {
                write_group(memory, group, addresses).unwrap_or_else(|| {
                    let mut lanes = group.iter().zip(addresses);
                    lanes.all(|(elements, &address)| E::store(memory, address, elements))
                })
            })
        })
    });
    done.then_some(Spacing::Other)
}

#[inline(always)]
fn write_group<E: Element, M: Sink, const N: usize, const L: usize>(
    memory: &mut M,
    group: &[[E; N]; L],
    addresses: &[u64; L],
) -> Option<bool> {
    let stride = N * size_of::<E>();
    are_spaced(addresses, stride).then(|| E::store(memory, addresses[0], group.as_flattened()))
}

#[inline(always)]
fn gather<E: Element, const N: usize>(regs: &Regs, slots: &[Slot]) -> [[E; N]; LANES] {
    let mut staged = [[E::default(); N]; LANES];
    for (index, &slot) in slots.iter().enumerate() {
        let Some(row) = E::row(slot) else { continue };
        for (elements, &value) in staged.iter_mut().zip(&E::file(regs)[row]) {
            elements[index] = value;
        }
    }
    staged
}

impl Warp {
    #[inline(never)]
    pub(super) fn read<M: Source>(
        &mut self,
        memory: &mut M,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        space: Space,
    ) -> Outcome<()> {
        let width = access.ty.bytes();
        let bytes = width * u32::from(access.count);
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

    #[inline(never)]
    pub(super) fn write<M: Sink>(
        &mut self,
        memory: &mut M,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        space: Space,
    ) -> Outcome<()> {
        let width = access.ty.bytes();
        let bytes = width * u32::from(access.count);
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
}
