//! Loads, stores, atomics and what goes with them.

use crate::ast::{Operand, Type};
use crate::memory::Space;
use crate::program::{Access, AtomicOp, Base, Init, Op, Slot, Strength};

use super::context::{Context, Result};
use super::rows::File;
use super::symbols::Symbol;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

const SPACES: [(&str, Space); 8] = [
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("const", Space::Const),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
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

/// Cache operators, eviction priorities and prefetch sizes change no result.
fn is_cache_hint(name: &str) -> bool {
    matches!(name, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc")
        || name.starts_with("L1::")
        || name.starts_with("L2::")
}

/// Scopes: every thread sees every other one alike.
fn is_scope(name: &str) -> bool {
    matches!(name, "cta" | "cluster" | "gpu" | "sys")
}

/// The modifiers that loads, stores and atomics share; the last result tells
/// whether a cache policy operand follows.
fn common(cx: &mut Cx<'_, '_, '_>) -> (Space, Strength, bool) {
    let strength = cx.choose(&STRENGTHS).unwrap_or(Strength::Weak);
    // `.mmio` stands beside `.relaxed`, `.volatile` may stand beside a space.
    cx.ignore(|name| name == "relaxed" || is_scope(name));
    let space = cx.choose(&SPACES).unwrap_or(Space::Generic);
    let policy = cx.take("L2::cache_hint");
    cx.ignore(is_cache_hint);
    cx.ignore(|name| name == "unified");
    (space, strength, policy)
}

/// Elements of a vector access.
fn vector(cx: &mut Cx<'_, '_, '_>) -> u8 {
    cx.choose(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
}

/// Resolves `[base+offset]`; the space may become that of the variable named.
fn address<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    space: Space,
) -> Result<(Space, Base, i64)> {
    let Operand::Address { base, offset } = operand else {
        return Err("the address must be in brackets".to_owned());
    };
    let Some(name) = base else { return Ok((space, Base::Absolute, *offset)) };
    match cx.symbol(name)? {
        Symbol::Register(ty, register) => {
            let row = cx.rows.read(register);
            match File::of(ty) {
                File::Word if ty.bits() == 32 => Ok((space, Base::Word(row), *offset)),
                File::Double => Ok((space, Base::Double(row), *offset)),
                _ => Err(format!("address register `{name}` must have 32 or 64 bits")),
            }
        }
        Symbol::Global(index) => match space {
            Space::Global | Space::Generic => {
                Ok((Space::Global, Base::Double(cx.rows.constant(Init::Global(index, 0))), *offset))
            }
            _ => Err(format!("`{name}` is in global memory, not in {space} memory")),
        },
        symbol => {
            let Some((place, address)) = cx.place(symbol) else {
                return Err(format!("`{name}` is neither a register nor a variable"));
            };
            // The parameters of a call are local memory here.
            let fits = place == space
                || space == Space::Generic
                || (space == Space::Param && place == Space::Local);
            if !fits {
                return Err(format!("`{name}` is in {place} memory, not in {space} memory"));
            }
            Ok((place, Base::Absolute, address as i64 + offset))
        }
    }
}

/// The row of a data register, which may be wider than the access.
fn slot<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>, ty: Type, write: bool) -> Result<Slot> {
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
    let row =
        if write { cx.destination_of(operand, declared)? } else { cx.source_of(operand, declared)? };
    Ok(match declared.bits() {
        64 => Slot::Double(row),
        32 => Slot::Word(row),
        1 => return Err("a predicate cannot be loaded or stored".to_owned()),
        _ => Slot::Half(row),
    })
}

fn slots<'s>(
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
                return Err(format!("{} registers for a vector of {count}", parts.len()));
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
    if matches!(ty, Type::Pred | Type::B128) { cx.wrong_type(ty) } else { Ok(ty) }
}

/// Checks the cache policy operand, which changes nothing.
fn policy(cx: &mut Cx<'_, '_, '_>, index: usize) -> Result<()> {
    cx.source(index, Type::B64).map(|_| ())
}

/// `ld` and `ldu`
pub(super) fn ld(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (space, strength, has_policy) = common(cx);
    let count = vector(cx);
    let ty = memory_type(cx)?;
    cx.arity(2 + usize::from(has_policy)..=2 + usize::from(has_policy))?;
    let (space, base, offset) = address(cx, cx.operand(1)?, space)?;
    if has_policy {
        policy(cx, 2)?;
    }
    let data = slots(cx, cx.operand(0)?, ty, count, true)?;
    let access = Access {
        space,
        base,
        offset,
        ty,
        count,
        data,
        strength,
        atomic: None,
        result: None,
        swap: Slot::Sink,
    };
    Ok(Op::Load(push(cx, access)))
}

/// `st`
pub(super) fn st(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (space, strength, has_policy) = common(cx);
    let count = vector(cx);
    let ty = memory_type(cx)?;
    cx.arity(2 + usize::from(has_policy)..=2 + usize::from(has_policy))?;
    let (space, base, offset) = address(cx, cx.operand(0)?, space)?;
    if space == Space::Const || space == Space::Param {
        return Err(format!("{space} memory is read-only"));
    }
    if has_policy {
        policy(cx, 2)?;
    }
    let data = slots(cx, cx.operand(1)?, ty, count, false)?;
    let access = Access {
        space,
        base,
        offset,
        ty,
        count,
        data,
        strength,
        atomic: None,
        result: None,
        swap: Slot::Sink,
    };
    Ok(Op::Store(push(cx, access)))
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

/// `atom`
pub(super) fn atom(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    atomic(cx, true)
}

/// `red`
pub(super) fn red(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    atomic(cx, false)
}

fn atomic(cx: &mut Cx<'_, '_, '_>, returns: bool) -> Result<Op> {
    let operation = cx.require("an operation", &OPERATIONS)?;
    let _ftz = cx.take("noftz");
    let (space, strength, has_policy) = common(cx);
    if let Some(vector) = cx.choose(&[("v2", "v2"), ("v4", "v4"), ("v8", "v8")]) {
        return Err(format!("vector atomics (`.{vector}`) are not supported"));
    }
    let ty = cx.ty()?;
    if !allows(operation, ty) || (operation == AtomicOp::CompareSwap && !returns) {
        return cx.wrong_type(ty);
    }
    if matches!(space, Space::Local | Space::Const | Space::Param) {
        return Err(format!("atomics are on global and shared memory, not on {space} memory"));
    }
    let first = usize::from(returns);
    let sources = if operation == AtomicOp::CompareSwap { 2 } else { 1 };
    let count = first + 1 + sources + usize::from(has_policy);
    cx.arity(count..=count)?;
    let (space, base, offset) = address(cx, cx.operand(first)?, space)?;
    let mut data = [Slot::Sink; 4];
    data[0] = slot(cx, cx.operand(first + 1)?, ty, false)?;
    let swap = match sources {
        2 => slot(cx, cx.operand(first + 2)?, ty, false)?,
        _ => Slot::Sink,
    };
    if has_policy {
        policy(cx, count - 1)?;
    }
    let result = match returns {
        true => Some(slot(cx, cx.operand(0)?, ty, true)?),
        false => None,
    };
    let access = Access {
        space,
        base,
        offset,
        ty,
        count: 1,
        data,
        strength,
        atomic: Some(operation),
        result,
        swap,
    };
    Ok(Op::Atomic(push(cx, access)))
}

/// Which types PTX has each atomic for.
fn allows(operation: AtomicOp, ty: Type) -> bool {
    use Type::{B16, B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64, U32, U64};
    match operation {
        AtomicOp::Add => matches!(ty, U32 | S32 | U64 | S64 | F32 | F64 | F16 | F16x2 | Bf16 | Bf16x2),
        AtomicOp::Min | AtomicOp::Max => matches!(ty, U32 | S32 | U64 | S64),
        AtomicOp::Inc | AtomicOp::Dec => ty == U32,
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange => {
            matches!(ty, B32 | B64)
        }
        AtomicOp::CompareSwap => matches!(ty, B16 | B32 | B64),
    }
}

/// `fence` and `membar`
pub(super) fn fence(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.ignore(|name| {
        is_scope(name)
            || matches!(name, "sc" | "acq_rel" | "acquire" | "release" | "gl" | "level")
            || name.starts_with("proxy")
            || matches!(name, "alias" | "async" | "generic" | "async.global")
            || name.starts_with("sync_restrict")
            || name.starts_with("async::")
            || name.starts_with("mbarrier_init")
    });
    Ok(Op::Fence)
}

/// Hints to the cache: `prefetch`, `discard` and their like.
pub(super) fn hint(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.ignore(|_| true);
    Ok(Op::Nop)
}
