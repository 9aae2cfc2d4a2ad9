//! Loads, stores, atomics, fences and cache hints.

use crate::ast::{Operand, Type};
use crate::explore::Order;
use crate::memory::Space;
use crate::program::{Access, AtomicOp, Base, Init, Op, Place, Slot, Strength};

use super::context::{Context, Result};
use super::rows::File;
use super::symbols::Symbol;
use super::{copy, wide};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// State spaces; `true` for the shared memory of all blocks of the cluster.
const SPACES: [(&str, (Space, bool)); 9] = [
    ("global", (Space::Global, false)),
    ("shared", (Space::Shared, false)),
    ("shared::cta", (Space::Shared, false)),
    ("shared::cluster", (Space::Shared, true)),
    ("local", (Space::Local, false)),
    ("const", (Space::Const, false)),
    ("param", (Space::Param, false)),
    ("param::entry", (Space::Param, false)),
    ("param::func", (Space::Param, false)),
];

const STRENGTHS: [(&str, Strength); 7] = [
    ("weak", Strength::Weak),
    ("volatile", Strength::Relaxed),
    ("relaxed", Strength::Relaxed),
    ("mmio", Strength::Relaxed),
    ("acquire", Strength::Acquire),
    ("release", Strength::Release),
    ("acq_rel", Strength::Release),
];

/// Cache operators, eviction priorities and prefetch sizes have no effect on results.
fn is_cache_hint(name: &str) -> bool {
    matches!(name, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc")
        || name.starts_with("L1::")
        || name.starts_with("L2::")
}

/// Returns whether a modifier is a scope. Outside [`order`] scopes have no effect: every access is
/// visible to all threads.
pub(super) fn is_scope(name: &str) -> bool {
    matches!(name, "cta" | "cluster" | "gpu" | "sys")
}

#[derive(Clone, Copy)]
struct ClusterState {
    space: Space,
    cluster: bool,
    strength: Strength,
    order: Order,
    policy: bool,
}

/// Returns the ordering that the modifiers state, without consuming them. An access with the scope
/// `.cta` or `.cluster` counts as weak.
fn order(cx: &Cx<'_, '_, '_>) -> Order {
    let has = |names: &[&str]| names.iter().any(|name| cx.has(name));
    let wide = !has(&["cta", "cluster"]);
    Order {
        strong: wide && has(&["volatile", "relaxed", "mmio", "acquire", "release", "acq_rel"]),
        acquire: wide && has(&["acquire", "acq_rel"]),
        release: wide && has(&["release", "acq_rel"]),
    }
}

fn common(cx: &mut Cx<'_, '_, '_>) -> ClusterState {
    let order = order(cx);
    let strength = cx.choose(&STRENGTHS).unwrap_or(Strength::Weak);
    // Of `.mmio.relaxed`, only `.mmio` has been taken.
    cx.ignore(|name| name == "relaxed" || is_scope(name));
    let (space, cluster) = space(cx).unwrap_or((Space::Generic, true));
    let policy = cx.take("L2::cache_hint");
    cx.ignore(is_cache_hint);
    cx.ignore(|name| name == "unified");
    ClusterState { space, cluster, strength, order, policy }
}

/// Takes the next state space, and returns whether it includes other blocks of the cluster.
pub(super) fn space(cx: &mut Cx<'_, '_, '_>) -> Option<(Space, bool)> {
    cx.choose(&SPACES)
}

pub(super) fn vector(cx: &mut Cx<'_, '_, '_>) -> u8 {
    cx.choose(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
}

/// Resolves `[base+offset]`. If `base` names a variable, the result has the variable's state space.
pub(super) fn place<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    (space, cluster): (Space, bool),
) -> Result<Place> {
    let at = |space, base, offset| Place { space, cluster, base, offset };
    let Operand::Address { base, offset } = operand else {
        return Err("the address must be in brackets".to_owned());
    };
    let Some(name) = base else { return Ok(at(space, Base::Absolute, *offset)) };
    match cx.symbol(name)? {
        Symbol::Register(ty, register) => {
            let row = cx.rows.read(register);
            match File::of(ty) {
                File::Word if ty.bits() == 32 => Ok(at(space, Base::Word(row), *offset)),
                File::Double => Ok(at(space, Base::Double(row), *offset)),
                _ => Err(format!("address register `{name}` must have 32 or 64 bits")),
            }
        }
        Symbol::Global(index) => match space {
            Space::Global | Space::Generic => {
                let row = cx.rows.constant(Init::Global(index, 0));
                Ok(at(Space::Global, Base::Double(row), *offset))
            }
            _ => Err(format!("`{name}` is in global memory, not in {space} memory")),
        },
        Symbol::Frame(start, _) if matches!(space, Space::Local | Space::Param | Space::Generic) => {
            let row = cx.rows.constant(Init::Frame);
            Ok(at(Space::Local, Base::Word(row), i64::from(start).wrapping_add(*offset)))
        }
        symbol => {
            let Some((found, address)) = cx.place(symbol) else {
                return Err(format!("`{name}` is neither a register nor a variable"));
            };
            // The parameters of a call are stored in local memory.
            let fits = found == space
                || space == Space::Generic
                || (space == Space::Param && found == Space::Local);
            if !fits {
                return Err(format!("`{name}` is in {found} memory, not in {space} memory"));
            }
            Ok(at(found, Base::Absolute, (address as i64).wrapping_add(*offset)))
        }
    }
}

/// Returns the register-file row of a data register, which may be wider than the access.
pub(super) fn slot<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    ty: Type,
    write: bool,
) -> Result<Slot> {
    if *operand == Operand::Sink && write {
        return Ok(Slot::Sink);
    }
    let declared = match operand {
        Operand::Name(name, None) if matches!(cx.symbol(name), Ok(Symbol::Register(..))) => {
            cx.declared_type(operand)?
        }
        _ if write => return Err("a load's destination must be a register".to_owned()),
        _ if ty.bits() == 8 => Type::B16,
        _ => ty,
    };
    if declared.bits() < ty.bits() {
        let (has, needs) = (declared.bits(), ty.bits());
        return Err(format!("a register of {has} bits cannot hold {needs} bits"));
    }
    if declared == Type::B128 {
        return Err("a register of 128 bits can be loaded and stored only by `.b128`".to_owned());
    }
    let row =
        if write { cx.destination_of(operand, declared)? } else { cx.source_of(operand, declared)? };
    Ok(match declared.bits() {
        64 => Slot::Double(row),
        32 => Slot::Word(row),
        1 => return Err("a predicate cannot be loaded or stored".to_owned()),
        _ => Slot::Half(row),
    })
}

pub(super) fn slots<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    ty: Type,
    count: u8,
    write: bool,
) -> Result<[Slot; 4]> {
    let mut slots = [Slot::Sink; 4];
    match operand {
        Operand::List(parts) => {
            if parts.len() != usize::from(count) {
                return Err(format!("{} registers are given for a vector of {count}", parts.len()));
            }
            for (place, part) in slots.iter_mut().zip(parts) {
                *place = slot(cx, part, ty, write)?;
            }
        }
        _ if count == 1 => slots[0] = slot(cx, operand, ty, write)?,
        _ => return Err(format!("a vector of {count} needs registers in braces")),
    }
    Ok(slots)
}

fn memory_type(cx: &mut Cx<'_, '_, '_>) -> Result<Type> {
    let ty = cx.ty()?;
    if ty == Type::Pred { cx.wrong_type(ty) } else { Ok(ty) }
}

/// Checks the cache policy operand, which has no effect.
pub(super) fn policy(cx: &mut Cx<'_, '_, '_>, index: usize) -> Result<()> {
    cx.source(index, Type::B64).map(|_| ())
}

pub(super) fn ld(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transfer(cx, true).map(Op::Load)
}

pub(super) fn st(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.take("async") {
        return copy::store(cx);
    }
    transfer(cx, false).map(Op::Store)
}

/// Decodes a load or store. The register operand comes first in a load, and second in a store.
fn transfer(cx: &mut Cx<'_, '_, '_>, load: bool) -> Result<u32> {
    let common = common(cx);
    let count = vector(cx);
    let ty = memory_type(cx)?;
    let operands = 2 + usize::from(common.policy);
    cx.arity(operands..=operands)?;
    let at = place(cx, cx.operand(usize::from(load))?, (common.space, common.cluster))?;
    if !load && matches!(at.space, Space::Const | Space::Param) {
        return Err(format!("{} memory is read-only", at.space));
    }
    if common.policy {
        policy(cx, 2)?;
    }
    let operand = cx.operand(usize::from(!load))?;
    let (ty, count, data) = match ty {
        Type::B128 if count > 1 => return cx.wrong_type(ty),
        Type::B128 => {
            let [low, high] = wide::slots(cx, operand, load)?;
            (Type::B64, 2, [low, high, Slot::Sink, Slot::Sink])
        }
        _ => (ty, count, slots(cx, operand, ty, count, load)?),
    };
    let ClusterState { strength, order, .. } = common;
    let swap = Slot::Sink;
    Ok(push(cx, Access { at, ty, count, data, strength, order, atomic: None, results: None, swap }))
}

fn push(cx: &mut Cx<'_, '_, '_>, access: Access) -> u32 {
    cx.accesses.push(access);
    cx.accesses.len() as u32 - 1
}

const OPERATIONS: [(&str, AtomicOp); 10] = [
    ("add", AtomicOp::Add),
    ("min", AtomicOp::Min),
    ("max", AtomicOp::Max),
    ("inc", AtomicOp::Inc),
    ("dec", AtomicOp::Dec),
    ("and", AtomicOp::And),
    ("or", AtomicOp::Or),
    ("xor", AtomicOp::Xor),
    ("exch", AtomicOp::Exchange),
    ("cas", AtomicOp::CompareSwap),
];

pub(super) fn operation(cx: &mut Cx<'_, '_, '_>) -> Result<AtomicOp> {
    cx.require("an operation", &OPERATIONS)
}

pub(super) fn atom(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    atomic(cx, true)
}

pub(super) fn red(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.take("async") {
        return copy::reduction(cx);
    }
    atomic(cx, false)
}

fn atomic(cx: &mut Cx<'_, '_, '_>, returns: bool) -> Result<Op> {
    let operation = operation(cx)?;
    let _ftz = cx.take("noftz");
    let common = common(cx);
    let count = vector_of_atomics(cx)?;
    let ty = cx.ty()?;
    if ty == Type::B128 && returns && count == 1 {
        return wide_atomic(cx, operation, common);
    }
    if !operation.allows(ty) || (operation == AtomicOp::CompareSwap && !returns) {
        return cx.wrong_type(ty);
    }
    if count > 1 {
        fits_vector(cx, operation, common.space, ty, count)?;
    }
    if matches!(common.space, Space::Local | Space::Const | Space::Param) {
        return Err(format!(
            "atomics are allowed on global and shared memory, not on {} memory",
            common.space
        ));
    }
    let first = usize::from(returns);
    let sources = if operation == AtomicOp::CompareSwap { 2 } else { 1 };
    let operands = first + 1 + sources + usize::from(common.policy);
    cx.arity(operands..=operands)?;
    let at = place(cx, cx.operand(first)?, (common.space, common.cluster))?;
    let data = slots(cx, cx.operand(first + 1)?, ty, count, false)?;
    let swap = match sources {
        2 => slot(cx, cx.operand(first + 2)?, ty, false)?,
        _ => Slot::Sink,
    };
    if common.policy {
        policy(cx, operands - 1)?;
    }
    let results = match returns {
        true => Some(slots(cx, cx.operand(0)?, ty, count, true)?),
        false => None,
    };
    let (strength, atomic) = (common.strength, Some(operation));
    // Atomics are strong, at the scope of the GPU unless they name another one.
    let wide = !cx.has("cta") && !cx.has("cluster");
    let order = Order { strong: wide, ..common.order };
    Ok(Op::Atomic(push(cx, Access { at, ty, count, data, strength, order, atomic, results, swap })))
}

fn wide_atomic(cx: &mut Cx<'_, '_, '_>, operation: AtomicOp, common: ClusterState) -> Result<Op> {
    let operation = match operation {
        AtomicOp::Exchange => AtomicOp::WideExchange,
        AtomicOp::CompareSwap => AtomicOp::WideCompareSwap,
        _ => return cx.wrong_type(Type::B128),
    };
    let sources = if operation == AtomicOp::WideExchange { 1 } else { 2 };
    let operands = 2 + sources + usize::from(common.policy);
    cx.arity(operands..=operands)?;
    let at = place(cx, cx.operand(1)?, (common.space, common.cluster))?;
    if matches!(at.space, Space::Local | Space::Const | Space::Param) {
        return Err(format!(
            "atomics are allowed on global and shared memory, not on {} memory",
            at.space
        ));
    }
    let mut data = [Slot::Sink; 4];
    for source in 0..sources {
        let halves = wide::slots(cx, cx.operand(2 + source)?, false)?;
        data[2 * source..2 * source + 2].copy_from_slice(&halves);
    }
    if common.policy {
        policy(cx, operands - 1)?;
    }
    let [low, high] = wide::slots(cx, cx.operand(0)?, true)?;
    let order = Order { strong: !cx.has("cta") && !cx.has("cluster"), ..common.order };
    Ok(Op::Atomic(push(
        cx,
        Access {
            at,
            ty: Type::B64,
            count: 2,
            data,
            strength: common.strength,
            order,
            atomic: Some(operation),
            results: Some([low, high, Slot::Sink, Slot::Sink]),
            swap: Slot::Sink,
        },
    )))
}

fn vector_of_atomics(cx: &mut Cx<'_, '_, '_>) -> Result<u8> {
    if cx.take("v8") {
        return Err("vector atomics of 8 elements (`.v8`) are not supported".to_owned());
    }
    Ok(vector(cx))
}

/// Fails unless PTX has this vector atomic: there are only sums of floats in global memory.
fn fits_vector(
    cx: &Cx<'_, '_, '_>,
    operation: AtomicOp,
    space: Space,
    ty: Type,
    count: u8,
) -> Result<()> {
    use Type::{Bf16, Bf16x2, F16, F16x2, F32};
    if operation != AtomicOp::Add || !matches!(space, Space::Global | Space::Generic) {
        return Err(format!(
            "vector atomics (`.v{count}`) are allowed only for `.add` in global memory"
        ));
    }
    if matches!(ty, F32 | F16 | Bf16 | F16x2 | Bf16x2) { Ok(()) } else { cx.wrong_type(ty) }
}

pub(super) fn fence(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let has = |name| cx.has(name);
    // `membar` and a `fence` without an ordering are `fence.sc`; the level of `membar` is its scope.
    let wide = !has("cta") && !has("cluster") && !has("proxy");
    let (acquire, release) = (has("acquire"), has("release"));
    let sc = wide && !acquire && !release && !has("acq_rel");
    let order = Order { strong: wide, acquire: wide && !release, release: wide && !acquire };
    cx.ignore(|name| {
        is_scope(name)
            || matches!(name, "sc" | "acq_rel" | "acquire" | "release" | "gl" | "level")
            || matches!(name, "proxy" | "alias" | "async" | "generic" | "global")
            || name.starts_with("shared::")
            || name.starts_with("tensormap")
            || name.starts_with("sync_restrict")
            || name.starts_with("async::")
            || name.starts_with("mbarrier_init")
    });
    Ok(Op::Fence { order, sc })
}

pub(super) fn hint(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.ignore(|_| true);
    Ok(Op::Nop)
}
