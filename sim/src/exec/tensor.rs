//! Copies of boxes of tensors.

use std::sync::Arc;

use crate::ast::Type;
use crate::error::{FaultKind, TensorMapProblem};
use crate::lanes::lanes_of;
use crate::memory::{Space, classify, window};
use crate::program::{AtomicOp, Signal, TensorOp};
use crate::tensor_map::{TensorMap, Tile};

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
        let tile = Tile::new(&map, coordinates, shared);
        for piece in &tile.pieces {
            context.check_shared("copy", piece.shared, piece.bytes, lane)?;
            if let Some(global) = piece.global {
                context.check_global(global, piece.bytes, lane)?;
            }
        }
        let notice = self.notice(context, op.signal, rank, lane)?;
        let (from, to) = match op.signal {
            Signal::Mbarrier(_) => ((Space::Global, map.address), Target::Shared(rank, shared)),
            _ => ((Space::Shared, shared), Target::Global(map.address)),
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
        let (mut space, mut address) = (op.map.space, self.addresses(&op.map)[lane]);
        if space == Space::Generic {
            space = classify(address);
            address -= window(space);
        }
        aligned("tensor map", space, address, TensorMap::ALIGN, lane)?;
        let fault = |problem| trouble(FaultKind::TensorMap { space, address, problem }, lane as u32);
        let mut bytes = [0; TensorMap::BYTES];
        let launch = context.launch;
        let held = match space {
            Space::Global => {
                context.check_global(address, TensorMap::BYTES as u32, lane)?;
                if let Some(memory) = launch.view.find(address, TensorMap::BYTES as u64, &mut 0) {
                    memory.read(address - memory.base(), &mut bytes);
                }
                Some(bytes)
            }
            Space::Const => held_at(launch.constants, address),
            Space::Param => held_at(launch.params, address),
            _ => None,
        };
        let Some(map) = held.and_then(|bytes| TensorMap::decode(&bytes)) else {
            return fault(TensorMapProblem::Foreign);
        };
        if map.rank != op.rank {
            return fault(TensorMapProblem::Rank { rank: map.rank, needed: op.rank });
        }
        let Some(operation) = op.change else { return Ok((map, None)) };
        // Bitwise operations are defined for untyped bits.
        let bits = if map.element.bytes() == 4 { Type::B32 } else { Type::B64 };
        let types = [map.element.ty(), bits];
        let wide = map.element.bytes() >= 4 && !map.element.is_float();
        let allowed = types.into_iter().find(|&ty| operation.allows(ty) && (ty != bits || wide));
        match allowed {
            Some(ty) => Ok((map, Some((operation, ty)))),
            None => fault(TensorMapProblem::Element { element: map.element }),
        }
    }
}

fn held_at(memory: &[u8], address: u64) -> Option<[u8; TensorMap::BYTES]> {
    memory.get(address as usize..)?.first_chunk().copied()
}
