//! Asynchronous copies: `cp.async`, its bulk and tensor forms, `st.async` and `red.async`.

use crate::ast::{Operand, Type};
use crate::memory::Space;
use crate::program::{
    AsyncOp, AtomicOp, Bytes, CopyOp, GroupOp, MbarrierKind, MbarrierOp, Op, Place, Signal, Slot,
    SlotOrRow, TensorOp,
};
use crate::tensor_map::{MapField, Swizzle, TensorElement, TensorMap};

use super::context::{Context, Result, immediate};
use super::mbarrier::{at, push};
use super::memory;
use super::symbols::Symbol;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Completion mechanism of copies that signal an mbarrier.
const COMPLETE_TX: &str = "mbarrier::complete_tx::bytes";
const OWN: (Space, bool) = (Space::Shared, false);
const ANY: (Space, bool) = (Space::Shared, true);
const GLOBAL: (Space, bool) = (Space::Global, false);

pub(super) fn cp(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let reduces = cx.take("reduce");
    cx.require("a modifier", &[("async", ())])?;
    let bulk = cx.take("bulk");
    if let Some(wait) = cx.choose(&[("commit_group", 0), ("wait_group", 1), ("wait_all", 2)]) {
        return group(cx, bulk, wait);
    }
    match (bulk, reduces) {
        (true, _) if cx.take("tensor") => tensor(cx, reduces),
        (true, false) if cx.take("prefetch") => prefetch(cx),
        (true, _) => bulk_copy(cx, reduces),
        (false, true) => Err("`cp.reduce.async` needs `.bulk`".to_owned()),
        (false, false) if cx.take("mbarrier") => after_copies(cx),
        (false, false) => few(cx),
    }
}

fn group(cx: &mut Cx<'_, '_, '_>, bulk: bool, kind: u8) -> Result<Op> {
    let op = match kind {
        0 => GroupOp::Commit { bulk },
        1 => {
            let read = bulk && cx.take("read");
            cx.arity(1..=1)?;
            let Operand::Int(pending @ 0..=0xffff_ffff) = cx.operand(0)? else {
                return Err("the number of groups that may stay pending must be a constant".to_owned());
            };
            let pending = *pending as u32;
            return Ok(push(cx, AsyncOp::Group(GroupOp::Wait { bulk, pending, read })));
        }
        _ if bulk => return Err("`cp.async.bulk` has no `.wait_all`".to_owned()),
        _ => GroupOp::WaitAll,
    };
    cx.arity(0..=0)?;
    Ok(push(cx, AsyncOp::Group(op)))
}

fn after_copies(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.require("an operation", &[("arrive", ())])?;
    let counted = cx.take("noinc");
    let space = memory::space(cx).unwrap_or((Space::Generic, false));
    let ty = cx.ty()?;
    if ty != Type::B64 {
        return cx.wrong_type(ty);
    }
    cx.arity(1..=1)?;
    let at = at(cx, 0, space)?;
    let kind = MbarrierKind::AfterCopies { counted };
    let op = MbarrierOp { kind, at, operand: None, result: SlotOrRow::None };
    Ok(push(cx, AsyncOp::Mbarrier(op)))
}

/// Takes destination and source space, which must be one of the allowed pairs.
fn spaces(cx: &mut Cx<'_, '_, '_>, allowed: &[[(Space, bool); 2]]) -> Result<[(Space, bool); 2]> {
    match [memory::space(cx), memory::space(cx)] {
        [Some(to), Some(from)] if allowed.contains(&[to, from]) => Ok([to, from]),
        _ => Err(format!("`{}` does not copy between these state spaces", cx.instruction.opcode)),
    }
}

fn hints(cx: &mut Cx<'_, '_, '_>) -> bool {
    let policy = cx.take("L2::cache_hint");
    cx.ignore(|name| matches!(name, "ca" | "cg") || name.starts_with("L2::"));
    policy
}

/// Decodes `cp.async.ca` and `.cg`, which copy 4, 8 or 16 bytes per thread.
fn few(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let whole_sectors = cx.require("a cache operator", &[("ca", false), ("cg", true)])?;
    let [to, from] = spaces(cx, &[[OWN, GLOBAL]])?;
    let policy = usize::from(hints(cx));
    let count = cx.arity(3 + policy..=4 + policy)?;
    let bytes = match immediate(cx.operand(2)?, Type::U32) {
        Some(16) => 16,
        Some(bytes @ (4 | 8)) if !whole_sectors => bytes as u32,
        _ if whole_sectors => return Err("`cp.async.cg` copies 16 bytes".to_owned()),
        _ => return Err("`cp.async.ca` copies 4, 8 or 16 bytes".to_owned()),
    };
    let to = memory::place(cx, cx.operand(0)?, to)?;
    let from = memory::place(cx, cx.operand(1)?, from)?;
    let (mut read, mut ignore) = (None, None);
    if count == 4 + policy {
        let operand = cx.operand(3)?;
        if is_predicate(cx, operand) {
            ignore = Some(cx.predicate(3)?);
        } else {
            read = Some(memory::slot(cx, operand, Type::U32, false)?);
        }
    }
    if policy == 1 {
        memory::policy(cx, count - 1)?;
    }
    let bytes = Bytes::Few { from, bytes, read, ignore };
    Ok(copy(cx, to, bytes, Signal::Group, None, None))
}

fn is_predicate<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>) -> bool {
    match operand {
        Operand::Not(_) => true,
        Operand::Name(name, None) => {
            matches!(cx.symbol(name), Ok(Symbol::Register(Type::Pred, _)))
        }
        _ => false,
    }
}

/// Modifiers that all bulk copies have.
struct Route {
    to: (Space, bool),
    from: (Space, bool),
    by_group: bool,
    multicast: bool,
    policy: bool,
}

fn route(cx: &mut Cx<'_, '_, '_>, allowed: &[[(Space, bool); 2]]) -> Result<Route> {
    let [to, from] = spaces(cx, allowed)?;
    let by_group = cx.take("bulk_group");
    if !by_group && !cx.take(COMPLETE_TX) {
        return Err(format!("a bulk copy needs `.{COMPLETE_TX}` or `.bulk_group`"));
    }
    if by_group != (to == GLOBAL) {
        return Err(
            "bulk copies to global memory complete through groups, all others through an mbarrier"
                .to_owned(),
        );
    }
    let multicast = cx.take("multicast::cluster");
    if multicast && (to, from) != (ANY, GLOBAL) {
        return Err("only copies from global to `.shared::cluster` memory can be multicast".to_owned());
    }
    let policy = hints(cx);
    Ok(Route { to, from, by_group, multicast, policy })
}

fn bulk_copy(cx: &mut Cx<'_, '_, '_>, reduces: bool) -> Result<Op> {
    let allowed = [[ANY, GLOBAL], [OWN, GLOBAL], [GLOBAL, OWN], [ANY, OWN]];
    let Route { to, from, by_group, multicast, policy } = route(cx, &allowed)?;
    let change = if reduces { Some(change(cx, to)?) } else { None };
    let operands = 3 + usize::from(!by_group) + usize::from(multicast) + usize::from(policy);
    cx.arity(operands..=operands)?;
    let target = memory::place(cx, cx.operand(0)?, to)?;
    let from = memory::place(cx, cx.operand(1)?, from)?;
    let bytes = Bytes::Bulk { from, bytes: memory::slot(cx, cx.operand(2)?, Type::U32, false)? };
    let signal = if by_group { Signal::BulkGroup } else { Signal::Mbarrier(at(cx, 3, to)?) };
    let multicast = multicast.then(|| memory::slot(cx, cx.operand(4)?, Type::B16, false)).transpose()?;
    if policy {
        memory::policy(cx, operands - 1)?;
    }
    Ok(copy(cx, target, bytes, signal, multicast, change))
}

/// Decodes `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor` and `cp.async.bulk.prefetch.tensor`.
fn tensor(cx: &mut Cx<'_, '_, '_>, reduces: bool) -> Result<Op> {
    const MODES: [&str; 6] =
        ["im2col", "im2col::w", "im2col::w::128", "im2col_no_offs", "tile::gather4", "tile::scatter4"];
    const RANKS: [(&str, u32); 5] = [("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];
    let prefetches = !reduces && cx.take("prefetch");
    let rank = cx.require("a number of dimensions", &RANKS)?;
    if let Some(mode) = MODES.into_iter().find(|mode| cx.take(mode)) {
        return Err(format!("copies of tensors by `.{mode}` are not supported; `.tile` is"));
    }
    let _default = cx.take("tile");
    if prefetches {
        cx.require("a cache level", &[("L2", ())])?;
        cx.require("a state space", &[("global", ())])?;
        let operands = 1 + usize::from(hints(cx));
        cx.arity(operands..=operands)?;
        box_in_tensor(cx, 0, rank)?;
        return Ok(Op::Nop);
    }
    let allowed: &[_] =
        if reduces { &[[GLOBAL, OWN]] } else { &[[ANY, GLOBAL], [OWN, GLOBAL], [GLOBAL, OWN]] };
    let Route { to, from, by_group, multicast, policy } = route(cx, allowed)?;
    let change = reduces.then(|| memory::operation(cx)).transpose()?;
    if let Some(AtomicOp::Exchange | AtomicOp::CompareSwap) = change {
        return Err("tensors are reduced by operations other than `.exch` and `.cas`".to_owned());
    }
    let operands = 2 + usize::from(!by_group) + usize::from(multicast) + usize::from(policy);
    cx.arity(operands..=operands)?;
    let (map, coordinates) = box_in_tensor(cx, usize::from(!by_group), rank)?;
    let shared = at(cx, usize::from(by_group), if by_group { from } else { to })?;
    let signal = if by_group { Signal::BulkGroup } else { Signal::Mbarrier(at(cx, 2, to)?) };
    let multicast = multicast.then(|| memory::slot(cx, cx.operand(3)?, Type::B16, false)).transpose()?;
    if policy {
        memory::policy(cx, operands - 1)?;
    }
    let op = TensorOp { map, coordinates, rank, shared, signal, multicast, change };
    Ok(push(cx, AsyncOp::Tensor(op)))
}

/// Decodes `tensormap.replace` and `tensormap.cp_fenceproxy`.
pub(super) fn tensormap(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.take("cp_fenceproxy") {
        let [to, from] = spaces(cx, &[[GLOBAL, OWN]])?;
        cx.ignore(|name| memory::is_scope(name) || matches!(name, "tensormap::generic" | "release"));
        cx.require("a modifier", &[("sync", ())])?;
        cx.require("a modifier", &[("aligned", ())])?;
        cx.arity(3..=3)?;
        if immediate(cx.operand(2)?, Type::U32) != Some(TensorMap::BYTES as u64) {
            return Err(format!("`tensormap.cp_fenceproxy` copies {} bytes", TensorMap::BYTES));
        }
        let places = [memory::place(cx, cx.operand(0)?, to)?, memory::place(cx, cx.operand(1)?, from)?];
        return Ok(push(cx, AsyncOp::CopyMap(places)));
    }
    cx.require("an operation", &[("replace", ())])?;
    cx.require("a mode", &[("tile", ())])?;
    let Some((name, operands, ty)) = MAP_FIELDS.into_iter().find(|(name, ..)| cx.take(name)) else {
        return Err("`tensormap.replace` needs a field, such as `.global_address`".to_owned());
    };
    let space = memory::space(cx).unwrap_or((Space::Generic, false));
    cx.require("a modifier", &[("b1024", ())])?;
    let given = cx.ty()?;
    if given != ty {
        return cx.wrong_type(given);
    }
    cx.arity(operands..=operands)?;
    let map = memory::place(cx, cx.operand(0)?, space)?;
    let field = map_field(cx, name)?;
    let value = memory::slot(cx, cx.operand(operands - 1)?, ty, false)?;
    Ok(push(cx, AsyncOp::ReplaceMap(map, field, value)))
}

/// Name, number of operands and type of each field that `tensormap.replace` sets.
const MAP_FIELDS: [(&str, usize, Type); 11] = [
    ("global_address", 2, Type::B64),
    ("rank", 2, Type::B32),
    ("box_dim", 3, Type::B32),
    ("global_dim", 3, Type::B32),
    ("global_stride", 3, Type::B64),
    ("element_stride", 3, Type::B32),
    ("elemtype", 2, Type::B32),
    ("interleave_layout", 2, Type::B32),
    ("swizzle_mode", 2, Type::B32),
    ("swizzle_atomicity", 2, Type::B32),
    ("fill_mode", 2, Type::B32),
];

/// Elements by their number in `tensormap.replace`, which differs from that of CUDA's driver.
const MAP_ELEMENTS: [TensorElement; 13] = [
    TensorElement::U8,
    TensorElement::U16,
    TensorElement::U32,
    TensorElement::S32,
    TensorElement::U64,
    TensorElement::S64,
    TensorElement::F16,
    TensorElement::F32,
    TensorElement::F32Ftz,
    TensorElement::F64,
    TensorElement::Bf16,
    TensorElement::Tf32,
    TensorElement::Tf32Ftz,
];

/// Returns a field of [`MAP_FIELDS`], with the dimension or the constant in operand 2.
fn map_field(cx: &Cx<'_, '_, '_>, name: &str) -> Result<MapField> {
    let constant = |below: u64| match immediate(cx.operand(1)?, Type::U32) {
        Some(value) if value < below => Ok(value as usize),
        _ if below == 1 => Err(format!("operand 2 of `.{name}` must be the constant 0")),
        _ => Err(format!("operand 2 of `.{name}` must be a constant from 0 to {}", below - 1)),
    };
    Ok(match name {
        "global_address" => MapField::Address,
        "rank" => MapField::Rank,
        "box_dim" => MapField::BoxExtent(constant(5)?),
        "global_dim" => MapField::Extent(constant(5)?),
        "global_stride" => MapField::Stride(constant(4)?),
        "element_stride" => MapField::ElementStride(constant(5)?),
        "elemtype" => MapField::Element(MAP_ELEMENTS[constant(MAP_ELEMENTS.len() as u64)?]),
        "swizzle_mode" => MapField::Swizzle(Swizzle::ALL[constant(4)?]),
        "fill_mode" => MapField::Fill { nan: constant(2)? == 1 },
        _ => constant(1).map(|_| MapField::Default)?,
    })
}

/// Decodes an operand `[map, {x, y}]`.
fn box_in_tensor(cx: &mut Cx<'_, '_, '_>, index: usize, rank: u32) -> Result<(Place, [Slot; 5])> {
    let Operand::Located { base, at } = cx.operand(index)? else {
        return Err("a copy of a tensor needs a tensor map and coordinates in brackets".to_owned());
    };
    let given = match at.as_slice() {
        [Operand::List(parts)] => parts.as_slice(),
        parts => parts,
    };
    if given.len() != rank as usize {
        let given = given.len();
        return Err(format!("{given} coordinates are given, but {rank} are needed for `.{rank}d`"));
    }
    let map = Operand::Address { base: Some(*base), offset: 0 };
    let map = memory::place(cx, &map, (Space::Generic, false))?;
    let mut coordinates = [Slot::Sink; 5];
    for (slot, part) in coordinates.iter_mut().zip(given) {
        *slot = memory::slot(cx, part, Type::S32, false)?;
    }
    Ok((map, coordinates))
}

fn change(cx: &mut Cx<'_, '_, '_>, to: (Space, bool)) -> Result<(AtomicOp, Type)> {
    let operation = memory::operation(cx)?;
    let _ftz = cx.take("noftz");
    let ty = cx.ty()?;
    let exchanges = matches!(operation, AtomicOp::Exchange | AtomicOp::CompareSwap);
    let packed = matches!(ty, Type::F16x2 | Type::Bf16x2);
    let remote_float = ty.is_float() && to != GLOBAL;
    if !operation.allows(ty) || exchanges || packed || remote_float {
        return cx.wrong_type(ty);
    }
    Ok((operation, ty))
}

fn prefetch(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.require("a cache level", &[("L2", ())])?;
    cx.require("a state space", &[("global", ())])?;
    let operands = 2 + usize::from(hints(cx));
    cx.arity(operands..=operands)?;
    memory::place(cx, cx.operand(0)?, GLOBAL)?;
    memory::slot(cx, cx.operand(1)?, Type::U32, false)?;
    Ok(Op::Nop)
}

/// Decodes the operands of `st.async` and `red.async`: `[to], values, [mbarrier]`.
fn remote(cx: &mut Cx<'_, '_, '_>, ty: Type, count: u8, change: Option<(AtomicOp, Type)>) -> Result<Op> {
    cx.arity(3..=3)?;
    let to = memory::place(cx, cx.operand(0)?, ANY)?;
    let data = memory::slots(cx, cx.operand(1)?, ty, count, false)?;
    let signal = Signal::Mbarrier(at(cx, 2, ANY)?);
    Ok(copy(cx, to, Bytes::Values { ty, count, data }, signal, None, change))
}

fn remote_modifiers(cx: &mut Cx<'_, '_, '_>) -> Result<()> {
    cx.ignore(|name| memory::is_scope(name) || matches!(name, "weak" | "relaxed"));
    cx.require("a completion mechanism", &[(COMPLETE_TX, ())])?;
    match memory::space(cx) {
        None | Some(ANY) => Ok(()),
        Some((space, _)) => Err(format!(
            "asynchronous stores must be to `.shared::cluster` memory, not to {space} memory"
        )),
    }
}

pub(super) fn store(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    remote_modifiers(cx)?;
    let count = memory::vector(cx);
    let ty = cx.ty()?;
    if !matches!(ty.bits(), 32 | 64) || matches!(ty, Type::F16x2 | Type::Bf16x2) {
        return cx.wrong_type(ty);
    }
    remote(cx, ty, count, None)
}

pub(super) fn reduction(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    remote_modifiers(cx)?;
    let (operation, ty) = change(cx, ANY)?;
    remote(cx, ty, 1, Some((operation, ty)))
}

fn copy(
    cx: &mut Cx<'_, '_, '_>,
    to: Place,
    bytes: Bytes,
    signal: Signal,
    multicast: Option<Slot>,
    change: Option<(AtomicOp, Type)>,
) -> Op {
    push(cx, AsyncOp::Copy(CopyOp { to, bytes, signal, multicast, change }))
}
