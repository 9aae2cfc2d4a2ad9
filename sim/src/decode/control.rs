//! Control flow, block barriers and instructions without effect.

use crate::ast::{Operand, Type};
use crate::program::{
    Assertion, Barrier, BarrierOp, BarrierReduce, Collective, ConditionCall, HeapCall, Init, NOWHERE,
    Op, Print, Scalar, Slot, StackOp,
};

use super::call::CallOperands;
use super::cluster;
use super::context::{Context, Result, immediate};
use super::flatten::Returns;
use super::symbols::Symbol;

/// Steps of `Effort` spent for each target of a `brx.idx`, which takes memory in several tables.
const STEPS_PER_TARGET: u64 = 32;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Decodes `bra`. The reconvergence point is set once all branches are known.
pub(super) fn bra(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let _uniform = cx.take("uni");
    cx.arity(1..=1)?;
    let Operand::Name(name, None) = cx.operand(0)? else {
        return Err("the target of `bra` must be a label".to_owned());
    };
    Ok(Op::Branch { target: cx.label(name)?, join: NOWHERE })
}

pub(super) fn brx(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.require("a modifier", &[("idx", ())])?;
    let _uniform = cx.take("uni");
    cx.arity(2..=2)?;
    let Operand::Name(name, None) = cx.operand(1)? else {
        return Err("the targets of `brx.idx` must be the name of a table".to_owned());
    };
    let Symbol::Targets(table) = cx.symbol(name)? else {
        return Err(format!("`{name}` is not a `.branchtargets` table"));
    };
    let (scope, labels) = cx.flat.tables[table];
    cx.effort.spend(STEPS_PER_TARGET.saturating_mul(labels.len() as u64))?;
    let at = std::mem::replace(&mut cx.scope, scope);
    let targets: Result<Vec<u32>> = labels.iter().map(|label| cx.label(label)).collect();
    cx.scope = at;
    cx.tables.push(targets?);
    let table = cx.tables.len() as u32 - 1;
    Ok(Op::BranchIndex { index: cx.source(0, Type::U32)?, table, join: NOWHERE })
}

/// Decodes `ret`. In a function that is expanded in place, `ret` jumps to the code after the call.
pub(super) fn ret(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let _uniform = cx.take("uni");
    cx.arity(0..=0)?;
    match cx.returns {
        Returns::To(label) => Ok(Op::Branch { target: cx.label_index(label)?, join: NOWHERE }),
        Returns::Exit => Ok(Op::Exit),
        Returns::Caller => Ok(Op::Return),
    }
}

pub(super) fn exit(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.arity(0..=0)?;
    Ok(Op::Exit)
}

pub(super) fn trap(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.arity(0..=0)?;
    Ok(Op::Trap)
}

/// Decodes the call of `__assertfail` after a failed `assert`, which does not return.
pub(super) fn assertion(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let Ok(CallOperands { arguments, .. }) = CallOperands::of(cx.instruction) else {
        return Ok(Op::Assertion(None));
    };
    let places: Result<Vec<_>> = arguments.iter().map(|argument| local(cx, argument)).collect();
    let Ok(&[(message, activated), (file, _), (line, _), (function, _), _]) = places.as_deref() else {
        return Ok(Op::Assertion(None));
    };
    let frame = activated.then(|| cx.rows.constant(Init::Frame));
    cx.assertions.push(Assertion { frame, message, file, line, function });
    Ok(Op::Assertion(Some(cx.assertions.len() as u32 - 1)))
}

pub(super) fn print(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let Ok(CallOperands { results, arguments, .. }) = CallOperands::of(cx.instruction) else {
        return Err("only calls of functions are supported".to_owned());
    };
    // All operands are variables of the calling function.
    let (format, activated) = local(cx, &arguments[0])?;
    let (from, _) = local(cx, &arguments[1])?;
    let result = match results.first() {
        Some(result) => Some(local(cx, result)?.0),
        None => None,
    };
    let frame = activated.then(|| cx.rows.constant(Init::Frame));
    cx.prints.push(Print { frame, format, arguments: from, result });
    Ok(Op::Print(cx.prints.len() as u32 - 1))
}

pub(super) fn condition(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let Ok(CallOperands { arguments, .. }) = CallOperands::of(cx.instruction) else {
        return Err("only calls of functions are supported".to_owned());
    };
    let (handle, activated) = local(cx, &arguments[0])?;
    let (value, _) = local(cx, &arguments[1])?;
    let frame = activated.then(|| cx.rows.constant(Init::Frame));
    cx.condition_calls.push(ConditionCall { frame, handle, value });
    Ok(Op::Condition(cx.condition_calls.len() as u32 - 1))
}

pub(super) fn heap(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let Ok(CallOperands { results, arguments, .. }) = CallOperands::of(cx.instruction) else {
        return Err("only calls of functions are supported".to_owned());
    };
    let (argument, activated) = local(cx, &arguments[0])?;
    let result = match results.first() {
        Some(result) => Some(local(cx, result)?.0),
        None => None,
    };
    let frame = activated.then(|| cx.rows.constant(Init::Frame));
    cx.heap_calls.push(HeapCall { frame, argument, result });
    Ok(Op::Heap(cx.heap_calls.len() as u32 - 1))
}

/// Returns the offset of a `.param` variable in local memory, and whether the offset is relative to the
/// stack frame of the current function.
fn local<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>) -> Result<(u32, bool)> {
    let Operand::Name(name, None) = operand else {
        return Err("the values of a call must be names of `.param` variables".to_owned());
    };
    match cx.symbol(name)? {
        Symbol::Local(offset, _) => Ok((offset, false)),
        Symbol::Frame(offset, _) => Ok((offset, true)),
        _ => Err(format!("`{name}` is not a `.param` variable")),
    }
}

/// Decodes `griddepcontrol`, which does nothing unless an `Exploration` lets launches overlap.
pub(super) fn griddepcontrol(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let wait = cx.require("an operation", &[("wait", true), ("launch_dependents", false)])?;
    cx.arity(0..=0)?;
    Ok(Op::GridDependency { wait })
}

pub(super) fn nop(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.ignore(|_| true);
    Ok(Op::Nop)
}

/// Maximum alignment of `alloca`, in bytes.
const MAX_ALIGN: i64 = 1 << 23;
/// Alignment of `alloca` without an operand for it, and its minimum.
const DEFAULT_ALIGN: u32 = 8;

pub(super) fn alloca(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = pointer_type(cx)?;
    let align = match cx.arity(2..=3)? {
        2 => DEFAULT_ALIGN,
        _ => match *cx.operand(2)? {
            Operand::Int(align @ 1..=MAX_ALIGN) if align.count_ones() == 1 => {
                DEFAULT_ALIGN.max(align as u32)
            }
            _ => return Err(format!("the alignment must be a power of two from 1 to {MAX_ALIGN}")),
        },
    };
    let bytes = pointer(cx.source(1, ty)?, ty);
    let pointer = pointer(cx.destination(0, ty)?, ty);
    Ok(stack(cx, StackOp::Allocate { pointer, bytes, align }))
}

pub(super) fn stacksave(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = pointer_type(cx)?;
    cx.arity(1..=1)?;
    let pointer = pointer(cx.destination(0, ty)?, ty);
    Ok(stack(cx, StackOp::Save(pointer)))
}

pub(super) fn stackrestore(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = pointer_type(cx)?;
    cx.arity(1..=1)?;
    let pointer = pointer(cx.source(0, ty)?, ty);
    Ok(stack(cx, StackOp::Restore(pointer)))
}

fn pointer_type(cx: &mut Cx<'_, '_, '_>) -> Result<Type> {
    match cx.ty()? {
        ty @ (Type::U32 | Type::U64) => Ok(ty),
        ty => cx.wrong_type(ty),
    }
}

fn pointer(row: u16, ty: Type) -> Slot {
    if ty == Type::U64 { Slot::Double(row) } else { Slot::Word(row) }
}

fn stack(cx: &mut Cx<'_, '_, '_>, op: StackOp) -> Op {
    // Marks the entry as one with a stack, also if it has no calls.
    cx.rows.constant(Init::Frame);
    Op::Stack(op)
}

/// Decodes `setmaxnreg`, which changes nothing: warps have all registers that they name.
pub(super) fn setmaxnreg(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.require("a direction", &[("inc", ()), ("dec", ())])?;
    for modifier in ["sync", "aligned"] {
        if !cx.take(modifier) {
            return Err(format!("`setmaxnreg` needs `.{modifier}`"));
        }
    }
    let ty = cx.ty()?;
    if ty != Type::U32 {
        return cx.wrong_type(ty);
    }
    cx.arity(1..=1)?;
    match cx.operand(0)? {
        Operand::Int(count @ 24..=256) if count % 8 == 0 => Ok(Op::Nop),
        _ => Err("the operand of `setmaxnreg` must be a multiple of 8 from 24 to 256".to_owned()),
    }
}

/// Decodes `nanosleep`, which yields to other warps and blocks.
pub(super) fn nanosleep(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(1..=1)?;
    cx.source(0, ty)?;
    Ok(Op::Sleep)
}

fn scalar(cx: &mut Cx<'_, '_, '_>, index: usize) -> Result<Scalar> {
    match immediate(cx.operand(index)?, Type::U32) {
        Some(value) => Ok(Scalar::Constant(value as u32)),
        None => Ok(Scalar::Row(cx.source(index, Type::U32)?)),
    }
}

/// Decodes `bar` and `barrier`. A warp arrives with its last thread. At an aligned barrier its threads
/// arrive together; at `barrier.sync` without `.aligned`, also at different instructions.
pub(super) fn bar(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.take("cluster") {
        return cluster::barrier(cx);
    }
    cx.ignore(|name| name == "cta");
    let aligned = cx.take("aligned") || cx.instruction.opcode == "bar";
    if cx.take("warp") {
        cx.require("an operation", &[("sync", ())])?;
        cx.arity(1..=1)?;
        let mask = cx.source(0, Type::U32)?;
        return Ok(Op::Collective { kind: Collective::Barrier, mask });
    }
    const KINDS: [(&str, u8); 3] = [("sync", 0), ("arrive", 1), ("red", 2)];
    match cx.require("an operation", &KINDS)? {
        0 => {
            let count = cx.arity(1..=2)?;
            let (id, threads) = (scalar(cx, 0)?, optional(cx, 1, count)?);
            Ok(push(cx, Barrier { kind: BarrierOp::Sync, aligned, id, threads }))
        }
        1 => {
            cx.arity(2..=2)?;
            let (id, threads) = (scalar(cx, 0)?, Some(scalar(cx, 1)?));
            Ok(push(cx, Barrier { kind: BarrierOp::Arrive, aligned: true, id, threads }))
        }
        _ => reduce(cx),
    }
}

fn optional(cx: &mut Cx<'_, '_, '_>, index: usize, count: usize) -> Result<Option<Scalar>> {
    if count > index { scalar(cx, index).map(Some) } else { Ok(None) }
}

/// Decodes `bar.red.op.type d, a{, b}, {!}c`.
fn reduce(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let kind = cx.require(
        "an operation",
        &[("popc", BarrierReduce::Count), ("and", BarrierReduce::And), ("or", BarrierReduce::Or)],
    )?;
    let ty = cx.ty()?;
    let wanted = if kind == BarrierReduce::Count { Type::U32 } else { Type::Pred };
    if ty != wanted {
        return cx.wrong_type(ty);
    }
    let count = cx.arity(3..=4)?;
    let id = scalar(cx, 1)?;
    let threads = if count == 4 { Some(scalar(cx, 2)?) } else { None };
    let (p, negate) = cx.predicate(count - 1)?;
    let d = cx.destination(0, ty)?;
    let kind = BarrierOp::Reduce { kind, p, negate, d };
    Ok(push(cx, Barrier { kind, aligned: true, id, threads }))
}

fn push(cx: &mut Cx<'_, '_, '_>, barrier: Barrier) -> Op {
    cx.barriers.push(barrier);
    Op::Barrier(cx.barriers.len() as u32 - 1)
}
