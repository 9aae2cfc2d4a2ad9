//! Completion of asynchronous copies.

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::for_each_lane;
use crate::memory::Space;
use crate::observe::{Copy, Detail, Event};
use crate::program::AtomicOp;
use crate::tensor_map::TilePiece;

use super::seen::Seen;
use super::{Bulk, Few, Flight, Issuer, Notice, Target, Work};
use crate::exec::atomic::combine;
use crate::exec::backing::{Bytes, Sink, Source};
use crate::exec::cluster::ClusterState;
use crate::exec::{InstLocation, Launched, Outcome, Probe, trouble_at};

impl ClusterState {
    pub(super) fn fail<T>(&self, issuer: Issuer, kind: FaultKind) -> Outcome<T> {
        let block = self.members[issuer.rank as usize].block;
        let place = InstLocation { pc: issuer.pc, block, warp: issuer.warp };
        trouble_at(kind, issuer.lanes.trailing_zeros().min(31), place)
    }

    pub(super) fn land<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        index: usize,
    ) -> Outcome<()> {
        let issuer = self.flights[index].issuer;
        match &self.flights[index].work {
            Work::Few(_) => self.land_few(launch, probe, index, issuer.lanes).map(|_| ()),
            Work::Arrival(_) => self.arrive_after_copies(launch, probe, index),
            Work::Bulk(_) => {
                self.read_ahead(launch, index);
                let flight = self.flights.remove(index);
                let Work::Bulk(bulk) = flight.work else { return Ok(()) };
                self.land_bulk(launch, issuer, &bulk)?;
                if P::ENABLED {
                    let seen = bulk.event(flight.id, issuer);
                    self.tell_landing(launch, probe, issuer, &seen, bulk.pieces());
                }
                Ok(())
            }
        }
    }

    /// Reads the source of a bulk copy, unless it has been read.
    pub(super) fn read_ahead(&mut self, launch: &Launched<'_>, index: usize) {
        let flight = &mut self.flights[index];
        let rank = flight.issuer.rank as usize;
        let Work::Bulk(bulk) = &mut flight.work else { return };
        let (None, Some((space, address))) = (&bulk.data, bulk.from) else { return };
        let shared = &self.members[rank].shared;
        let data = match &bulk.tile {
            None => {
                let mut data = vec![0; bulk.bytes as usize];
                read(launch, shared, (space, address), &mut data);
                data
            }
            Some(tile) => {
                let mut data = tile.filled(bulk.bytes);
                let mut rest = data.as_mut_slice();
                for piece in &tile.pieces {
                    let (part, after) = rest.split_at_mut(piece.bytes as usize);
                    rest = after;
                    if space == Space::Shared {
                        read(launch, shared, (space, piece.shared), part);
                    } else if let Some(global) = piece.global {
                        read(launch, shared, (space, global), part);
                        tile.convert(part);
                    }
                }
                data
            }
        };
        bulk.data = Some(data);
    }

    fn land_bulk(&mut self, launch: &Launched<'_>, issuer: Issuer, bulk: &Bulk) -> Outcome<()> {
        let data = bulk.data.as_deref().unwrap_or_default();
        match bulk.to {
            Target::Global(address) => match &bulk.tile {
                None => put_global(launch, address, data, bulk.change, true),
                Some(tile) => {
                    for (piece, part) in tile.parts(data) {
                        if let Some(global) = piece.global {
                            put_global(launch, global, part, bulk.change, tile.flushes_sums());
                        }
                    }
                }
            },
            Target::Shared(rank, address) => {
                let member = &mut self.members[rank as usize];
                if member.exited {
                    return self.fail(issuer, FaultKind::ExitedBlock { access: "copy", address, rank });
                }
                match &bulk.tile {
                    None => put(&mut member.shared, address, data, bulk.change),
                    Some(tile) => {
                        for (piece, part) in tile.parts(data) {
                            put(&mut member.shared, piece.shared, part, None);
                        }
                    }
                }
            }
        }
        if let Notice::Mbarrier(rank, address) = bulk.notice {
            let bytes = i64::from(bulk.bytes);
            if let Err(problem) = self.mbarrier(rank, address, |barrier| barrier.transact(-bytes)) {
                return self.fail(issuer, FaultKind::Mbarrier { address, problem });
            }
        }
        Ok(())
    }

    /// Completes the copies of some lanes; returns `true` if none remains in flight.
    pub(super) fn land_few<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        index: usize,
        lanes: u32,
    ) -> Outcome<bool> {
        let Flight { id, issuer, work } = &mut self.flights[index];
        let Work::Few(few) = work else { return Ok(false) };
        if lanes == 0 {
            return Ok(false);
        }
        issuer.lanes &= !lanes;
        let (id, issuer) = (*id, *issuer);
        let shared = &mut self.members[issuer.rank as usize].shared;
        for_each_lane(lanes, |lane| {
            let mut data = [0; 16];
            let (address, read) = (few.sources[lane], usize::from(few.read[lane]));
            if let Some(memory) = launch.view.find(address, read as u64, &mut 0) {
                memory.read(address - memory.base(), &mut data[..read]);
            }
            put(shared, few.targets[lane], &data[..few.bytes as usize], None);
        });
        if P::ENABLED {
            let few = Few { ..**few };
            self.tell_landing(launch, probe, issuer, &few.event(id, issuer.rank, lanes), &[]);
        }
        let gone = issuer.lanes == 0;
        if gone {
            self.flights.remove(index);
        }
        Ok(gone)
    }

    /// Executes the arrivals of `cp.async.mbarrier.arrive`, after completing the earlier copies.
    fn arrive_after_copies<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        index: usize,
    ) -> Outcome<()> {
        let flight = self.flights.remove(index);
        let issuer = flight.issuer;
        let Work::Arrival(addresses) = flight.work else { return Ok(()) };
        let (mut before, mut end) = (0, index);
        while before < end {
            let of_warp = self.flights[before].is_of(issuer.rank, issuer.warp);
            let lanes = if of_warp { self.flights[before].issuer.lanes & issuer.lanes } else { 0 };
            match self.land_few(launch, probe, before, lanes)? {
                true => end -= 1,
                false => before += 1,
            }
        }
        let mut failed = None;
        for_each_lane(issuer.lanes, |lane| {
            let arrived =
                self.mbarrier(issuer.rank, addresses[lane], |barrier| barrier.arrive(1, false, true));
            if let Err(problem) = arrived {
                failed.get_or_insert((addresses[lane], problem));
            }
        });
        match failed {
            None => Ok(()),
            Some((address, problem)) => self.fail(issuer, FaultKind::Mbarrier { address, problem }),
        }
    }

    fn tell_landing<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        issuer: Issuer,
        (copy, sources, targets): &Seen,
        pieces: &[TilePiece],
    ) {
        let member = &mut self.members[issuer.rank as usize];
        let event = Event {
            index: issuer.pc,
            instruction: &launch.entry.program.info[issuer.pc as usize],
            block: member.block,
            warp: issuer.warp,
            active: issuer.active,
            executed: copy.lanes,
            part: 0,
            detail: Detail::Copy(Copy { sources, targets, pieces, ..*copy }),
        };
        probe.landed(&mut member.probe, &event);
    }
}

fn each_element(ty: Type, data: &[u8], mut visit: impl FnMut(u64, u64)) {
    let width = ty.bytes() as usize;
    for (index, bytes) in data.chunks_exact(width).enumerate() {
        let mut element = [0; 8];
        element[..width].copy_from_slice(bytes);
        visit((index * width) as u64, u64::from_le_bytes(element));
    }
}

/// Reads global memory, or the shared memory of the issuing block. The bounds of both were checked when
/// the copy was issued.
fn read(launch: &Launched<'_>, shared: &[u8], (space, address): (Space, u64), data: &mut [u8]) {
    if space == Space::Shared {
        let found = shared.get(address as usize..).and_then(|shared| shared.get(..data.len()));
        if let Some(from) = found {
            data.copy_from_slice(from);
        }
    } else if let Some(memory) = launch.view.find(address, data.len() as u64, &mut 0) {
        memory.read(address - memory.base(), data);
    }
}

fn put_global(
    launch: &Launched<'_>,
    address: u64,
    data: &[u8],
    change: Option<(AtomicOp, Type)>,
    flushes: bool,
) {
    let Some(memory) = launch.view.find(address, data.len() as u64, &mut 0) else { return };
    let at = address - memory.base();
    match change {
        None => memory.write(at, data),
        Some((operation, ty)) => each_element(ty, data, |offset, operand| {
            let change = |old| combine(operation, ty, flushes, old, operand, 0);
            memory.update(at + offset, ty.bytes(), change);
        }),
    }
}

fn put(shared: &mut [u8], address: u64, data: &[u8], change: Option<(AtomicOp, Type)>) {
    let Some(to) = shared.get_mut(address as usize..).and_then(|rest| rest.get_mut(..data.len())) else {
        return;
    };
    let Some((operation, ty)) = change else { return to.copy_from_slice(data) };
    let mut memory = Bytes(to);
    each_element(ty, data, |offset, operand| {
        if let Some(place) = memory.locate(offset, ty.bytes(), 0) {
            let change = |old| combine(operation, ty, false, old, operand, 0);
            memory.update(place, ty.bytes(), change);
        }
    });
}
