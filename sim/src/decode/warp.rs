//! Warp-wide instructions.

use crate::ast::{Operand, Type};
use crate::program::{Collective, Op, ShuffleMode, ShuffleOp, Vote, WarpReduce};

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Takes `.sync`; the forms without it do not exist since sm_70.
fn sync(cx: &mut Cx<'_, '_, '_>) -> Result<()> {
    if cx.take("sync") {
        return Ok(());
    }
    let opcode = cx.instruction.opcode;
    Err(format!("`{opcode}` without `.sync` does not exist on this target"))
}

fn or_sink<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>, ty: Type) -> Result<Option<u16>> {
    match operand {
        Operand::Sink => Ok(None),
        _ => cx.destination_of(operand, ty).map(Some),
    }
}

pub(super) fn shfl(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    sync(cx)?;
    let mode = cx.require(
        "a mode",
        &[
            ("up", ShuffleMode::Up),
            ("down", ShuffleMode::Down),
            ("bfly", ShuffleMode::Butterfly),
            ("idx", ShuffleMode::Index),
        ],
    )?;
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    cx.arity(5..=5)?;
    let (a, b) = (cx.source(1, ty)?, cx.source(2, ty)?);
    let (c, mask) = (cx.source(3, ty)?, cx.source(4, ty)?);
    let (d, p) = match cx.operand(0)? {
        Operand::Pair(d, p) => (or_sink(cx, d, ty)?, or_sink(cx, p, Type::Pred)?),
        d => (or_sink(cx, d, ty)?, None),
    };
    Ok(Op::Collective { kind: Collective::Shuffle(ShuffleOp { mode, d, p, a, b, c }), mask })
}

pub(super) fn vote(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    sync(cx)?;
    let kind = cx.require(
        "a mode",
        &[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)],
    )?;
    let ty = cx.ty()?;
    let wanted = if kind == Vote::Ballot { Type::B32 } else { Type::Pred };
    if ty != wanted {
        return cx.wrong_type(ty);
    }
    cx.arity(3..=3)?;
    let (a, negate) = cx.predicate(1)?;
    let mask = cx.source(2, Type::B32)?;
    let d = cx.destination(0, ty)?;
    Ok(Op::Collective { kind: Collective::Vote { kind, d, a, negate }, mask })
}

pub(super) fn activemask(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    cx.arity(1..=1)?;
    Ok(Op::ActiveMask { d: cx.destination(0, ty)? })
}

pub(super) fn match_(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let all = cx.require("a mode", &[("any", false), ("all", true)])?;
    sync(cx)?;
    let ty = cx.ty()?;
    if !matches!(ty, Type::B32 | Type::B64) {
        return cx.wrong_type(ty);
    }
    cx.arity(3..=3)?;
    let (a, mask) = (cx.source(1, ty)?, cx.source(2, Type::B32)?);
    let (d, p) = match cx.operand(0)? {
        Operand::Pair(d, p) if all => (cx.destination_of(d, Type::B32)?, or_sink(cx, p, Type::Pred)?),
        d => (cx.destination_of(d, Type::B32)?, None),
    };
    let wide = ty == Type::B64;
    Ok(Op::Collective { kind: Collective::Match { all, wide, d, p, a }, mask })
}

pub(super) fn redux(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    sync(cx)?;
    let name = cx.require(
        "an operation",
        &[("add", "add"), ("min", "min"), ("max", "max"), ("and", "and"), ("or", "or"), ("xor", "xor")],
    )?;
    let (abs, nan) = (cx.take("abs"), cx.take("NaN"));
    let ty = cx.ty()?;
    let kind = match (name, ty) {
        ("min" | "max", Type::F32) => WarpReduce::Float { max: name == "max", abs, nan },
        _ if abs || nan => return cx.wrong_type(ty),
        ("add", Type::U32 | Type::S32) => WarpReduce::Add,
        ("min", Type::U32) => WarpReduce::Min,
        ("max", Type::U32) => WarpReduce::Max,
        ("min", Type::S32) => WarpReduce::MinSigned,
        ("max", Type::S32) => WarpReduce::MaxSigned,
        ("and", Type::B32) => WarpReduce::And,
        ("or", Type::B32) => WarpReduce::Or,
        ("xor", Type::B32) => WarpReduce::Xor,
        _ => return cx.wrong_type(ty),
    };
    cx.arity(3..=3)?;
    let (a, mask) = (cx.source(1, ty)?, cx.source(2, Type::B32)?);
    let d = cx.destination(0, ty)?;
    Ok(Op::Collective { kind: Collective::Reduce { kind, d, a }, mask })
}

pub(super) fn elect(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    sync(cx)?;
    cx.arity(2..=2)?;
    let mask = cx.source(1, Type::B32)?;
    let Operand::Pair(d, p) = cx.operand(0)? else {
        return Err("`elect.sync` needs two destinations `d|p`".to_owned());
    };
    let (d, p) = (or_sink(cx, d, Type::B32)?, cx.destination_of(p, Type::Pred)?);
    Ok(Op::Collective { kind: Collective::Elect { d, p }, mask })
}
