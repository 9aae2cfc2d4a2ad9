//! Copies of boxes of tensors, and tensor maps that kernels make.

use std::sync::Arc;

use crate::ast::Type;
use crate::error::{FaultKind, TensorMapProblem};
use crate::lanes::lanes_of;
use crate::memory::{Space, classify, window};
use crate::program::{AtomicOp, Place, Signal, Slot, TensorOp};
use crate::tensor_map::{CHUNK, MapField, TensorElement, TensorMap, Tile};

use super::flight::{Bulk, Target};
use super::reach::aligned;
use super::warp::Warp;
use super::{ExecContext, Outcome, Probe, trouble};

/// Alignment of a box in shared memory.
const TILE_ALIGN: u64 = 128;

impl Warp {
    pub(super) fn copy_tensor<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &TensorOp,
        mask: u32,
    ) -> Outcome<()> {
        let mut part = 0;
        for lane in lanes_of(mask) {
            part = self.copy_tile(context, op, mask, lane, part)?;
        }
        Ok(())
    }

    /// Issues the copy of one lane, as `Warp::copy_bulk` does.
    fn copy_tile<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &TensorOp,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<u32> {
        let (map, change) = self.tensor_map(context, op, lane)?;
        let address = self.addresses(&op.shared)[lane];
        let (rank, shared) = context.shared_place(&op.shared, address, "copy", lane)?;
        aligned("copy", Space::Shared, shared, TILE_ALIGN, lane)?;
        let bytes = u32::try_from(map.tile_bytes()).unwrap_or(u32::MAX);
        context.check_shared("copy", shared, bytes, lane)?;
        let coordinates = op.coordinates.map(|slot| self.value(slot, lane) as i32);
        check_coordinates(op, &map, &coordinates, lane)?;
        let loads = matches!(op.signal, Signal::Mbarrier(_));
        // An H200 writes each chunk of 16 bytes that begins within a row of the tensor as a whole.
        let tile = Tile::new(&map, coordinates, shared, if loads { 1 } else { CHUNK });
        for piece in &tile.pieces {
            context.check_shared("copy", piece.shared, piece.bytes, lane)?;
            if let Some(global) = piece.global {
                context.check_global("copy", global, piece.bytes, lane)?;
            }
        }
        let notice = self.notice(context, op.signal, rank, lane)?;
        let (from, to) = match loads {
            true => ((Space::Global, map.address), Target::Shared(rank, shared)),
            false => ((Space::Shared, shared), Target::Global(map.address)),
        };
        let tile = Some(Arc::new(tile));
        let bulk = Bulk { from: Some(from), data: None, to, tile, bytes, change, notice };
        self.depart_to_all(context, bulk, op.multicast, mask, lane, part)
    }

    /// Reads the tensor map of a lane. Also returns the reduction with the type of its elements.
    fn tensor_map<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        op: &TensorOp,
        lane: usize,
    ) -> Outcome<(TensorMap, Option<(AtomicOp, Type)>)> {
        let (space, address) = self.map_place(&op.map, lane)?;
        let fault = |problem| map_fault((space, address), problem, lane);
        let held = match space {
            Space::Shared => None,
            _ => context.map_bytes((space, address), lane)?,
        };
        let Some(map) = held.and_then(|bytes| TensorMap::decode(&bytes)) else {
            return fault(TensorMapProblem::Foreign);
        };
        if let Err(error) = map.check() {
            return fault(TensorMapProblem::Invalid(error));
        }
        if map.rank != op.rank {
            return fault(TensorMapProblem::Rank { rank: map.rank, needed: op.rank });
        }
        let Some(operation) = op.change else { return Ok((map, None)) };
        if !reduces(operation, map.element) {
            return fault(TensorMapProblem::Element { element: map.element });
        }
        Ok((map, Some((operation, map.element.ty()))))
    }

    /// Returns the space and the address within it of a lane's tensor map.
    fn map_place(&self, place: &Place, lane: usize) -> Outcome<(Space, u64)> {
        let (mut space, mut address) = (place.space, self.addresses(place)[lane]);
        if space == Space::Generic {
            space = classify(address);
            address -= window(space);
        }
        aligned("tensor map", space, address, TensorMap::ALIGN, lane)?;
        Ok((space, address))
    }

    pub(super) fn replace_in_map<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        place: &Place,
        (field, value): (MapField, Slot),
        mask: u32,
    ) -> Outcome<()> {
        for lane in lanes_of(mask) {
            let at = self.map_place(place, lane)?;
            if !matches!(at.0, Space::Global | Space::Shared) {
                return trouble(FaultKind::ReadOnly { access: "store", space: at.0 }, lane as u32);
            }
            let map = match context.map_bytes(at, lane)? {
                Some(bytes) if bytes == [0; TensorMap::BYTES] => TensorMap::BLANK,
                held => match held.and_then(|bytes| TensorMap::decode(&bytes)) {
                    Some(map) => map,
                    None => return map_fault(at, TensorMapProblem::Foreign, lane),
                },
            };
            let map = map.replaced(field, self.value(value, lane));
            context.put_map_bytes(at, &map.pack());
        }
        Ok(())
    }

    pub(super) fn copy_map<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        [to, from]: &[Place; 2],
        mask: u32,
    ) -> Outcome<()> {
        for lane in lanes_of(mask) {
            let (to, from) = (self.map_place(to, lane)?, self.map_place(from, lane)?);
            context.map_bytes(to, lane)?;
            if let Some(bytes) = context.map_bytes(from, lane)? {
                context.put_map_bytes(to, &bytes);
            }
        }
        Ok(())
    }
}

impl<P: Probe> ExecContext<'_, P> {
    /// Reads a tensor map; returns `None` in spaces that hold none. Global and shared addresses out of
    /// bounds are faults.
    fn map_bytes(
        &mut self,
        (space, address): (Space, u64),
        lane: usize,
    ) -> Outcome<Option<[u8; TensorMap::BYTES]>> {
        const BYTES: u32 = TensorMap::BYTES as u32;
        let launch = self.launch;
        let held = |memory: &[u8]| memory.get(address as usize..)?.first_chunk().copied();
        Ok(match space {
            Space::Global => {
                self.check_global("tensor map", address, BYTES, lane)?;
                let mut bytes = [0; TensorMap::BYTES];
                if let Some(memory) = launch.view.find(address, BYTES.into(), &mut self.hint) {
                    memory.read(address - memory.base(), &mut bytes);
                }
                Some(bytes)
            }
            Space::Shared => {
                self.check_shared("tensor map", address, BYTES, lane)?;
                held(&self.own().shared)
            }
            Space::Const => held(launch.constants),
            Space::Param => held(launch.params),
            _ => None,
        })
    }

    /// Writes a tensor map where [`map_bytes`](Self::map_bytes) has read one.
    fn put_map_bytes(&mut self, (space, address): (Space, u64), bytes: &[u8; TensorMap::BYTES]) {
        let launch = self.launch;
        if space == Space::Shared {
            self.own().shared[address as usize..][..bytes.len()].copy_from_slice(bytes);
        } else if let Some(memory) = launch.view.find(address, bytes.len() as u64, &mut self.hint) {
            memory.write(address - memory.base(), bytes);
        }
    }
}

/// Checks coordinates as an H200 does, whose stores reject negative ones even if the box is outside.
fn check_coordinates(
    op: &TensorOp,
    map: &TensorMap,
    coordinates: &[i32; 5],
    lane: usize,
) -> Outcome<()> {
    let coordinate = coordinates[0];
    let byte = i64::from(coordinate) * i64::from(map.element.bytes());
    if byte % CHUNK as i64 != 0 {
        return trouble(FaultKind::InnerCoordinate { coordinate, byte }, lane as u32);
    }
    let access = match (op.signal, op.change) {
        (Signal::Mbarrier(_), _) => return Ok(()),
        (_, None) => "store",
        (_, Some(_)) => "reduction",
    };
    for (axis, &coordinate) in (0..map.rank).zip(coordinates) {
        if coordinate < 0 {
            return trouble(FaultKind::NegativeCoordinate { access, axis, coordinate }, lane as u32);
        }
    }
    Ok(())
}

/// Returns whether an H200 reduces elements by an operation.
fn reduces(operation: AtomicOp, element: TensorElement) -> bool {
    use TensorElement::{Bf16, F16, S32, S64, U8, U16, U32, U64};
    match operation {
        AtomicOp::Add => !matches!(element, U8 | U16 | S64),
        AtomicOp::Min | AtomicOp::Max => matches!(element, U32 | S32 | U64 | S64 | F16 | Bf16),
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => matches!(element, U32 | S32 | U64),
        AtomicOp::Inc | AtomicOp::Dec => element == U32,
        _ => false,
    }
}

fn map_fault<T>((space, address): (Space, u64), problem: TensorMapProblem, lane: usize) -> Outcome<T> {
    trouble(FaultKind::TensorMap { space, address, problem }, lane as u32)
}
