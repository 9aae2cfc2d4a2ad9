//! `mbarrier`: barriers in shared memory that count arrivals and bytes.

use crate::ast::{Operand, Type};
use crate::lanes::alu;
use crate::memory::Space;
use crate::program::{AsyncOp, MbarrierKind, MbarrierOp, Op, Place, SlotOrRow};

use super::context::{Context, Result};
use super::memory;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Bits of an mbarrier's state that hold its pending count.
const PENDING: u64 = 0xf_ffff;

pub(super) fn push(cx: &mut Cx<'_, '_, '_>, op: AsyncOp) -> Op {
    cx.asynchronous.push(op);
    Op::Async(cx.asynchronous.len() as u32 - 1)
}

pub(super) fn mbarrier(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    const OPERATIONS: [(&str, Operation); 9] = [
        ("init", Operation::Init),
        ("inval", Operation::Invalidate),
        ("expect_tx", Operation::Expect),
        ("complete_tx", Operation::Complete),
        ("arrive", Operation::Arrive { drop: false }),
        ("arrive_drop", Operation::Arrive { drop: true }),
        ("test_wait", Operation::Wait { blocks: false }),
        ("try_wait", Operation::Wait { blocks: true }),
        ("pending_count", Operation::PendingCount),
    ];
    // `.arrive.expect_tx` matches two of the `OPERATIONS`; the first match is the operation.
    let operation = cx.require("an operation", &OPERATIONS)?;
    // The stated ordering has no effect, because threads see all writes in program order.
    cx.ignore(|name| memory::is_scope(name) || matches!(name, "acquire" | "release" | "relaxed"));
    match operation {
        Operation::Init => simple(cx, MbarrierKind::Init, true),
        Operation::Invalidate => simple(cx, MbarrierKind::Invalidate, false),
        Operation::Expect => simple(cx, MbarrierKind::Expect, true),
        Operation::Complete => simple(cx, MbarrierKind::Complete, true),
        Operation::Arrive { drop } => arrive(cx, drop),
        Operation::Wait { blocks } => wait(cx, blocks),
        Operation::PendingCount => {
            bits(cx)?;
            cx.alu(alu!(U32 <- U64: |state| (state & PENDING) as u32), &[Type::U32, Type::B64])
        }
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Init,
    Invalidate,
    Expect,
    Complete,
    Arrive { drop: bool },
    Wait { blocks: bool },
    PendingCount,
}

/// Takes the type, which is always `.b64`.
fn bits(cx: &mut Cx<'_, '_, '_>) -> Result<()> {
    let ty = cx.ty()?;
    if ty == Type::B64 { Ok(()) } else { cx.wrong_type(ty) }
}

/// Takes the space, which must be shared memory; the address is generic if none is given.
fn space(cx: &mut Cx<'_, '_, '_>) -> Result<(Space, bool)> {
    match memory::space(cx) {
        None => Ok((Space::Generic, true)),
        Some(found @ (Space::Shared, _)) => Ok(found),
        Some((space, _)) => Err(format!("an mbarrier must be in shared memory, not in {space} memory")),
    }
}

pub(super) fn at(cx: &mut Cx<'_, '_, '_>, index: usize, space: (Space, bool)) -> Result<Place> {
    let operand = cx.operand(index)?;
    memory::place(cx, operand, space)
}

/// Decodes an operation on `[address]`, followed by a 32-bit operand if `counts` is set.
fn simple(cx: &mut Cx<'_, '_, '_>, kind: MbarrierKind, counts: bool) -> Result<Op> {
    let space = space(cx)?;
    bits(cx)?;
    let operands = 1 + usize::from(counts);
    cx.arity(operands..=operands)?;
    let at = at(cx, 0, space)?;
    let operand = match counts {
        true => Some(memory::slot(cx, cx.operand(1)?, Type::U32, false)?),
        false => None,
    };
    let op = MbarrierOp { kind, at, operand, result: SlotOrRow::None };
    Ok(push(cx, AsyncOp::Mbarrier(op)))
}

/// Decodes `mbarrier.arrive` and `.arrive_drop`, with or without `.expect_tx` and `.noComplete`.
fn arrive(cx: &mut Cx<'_, '_, '_>, drop: bool) -> Result<Op> {
    let (expect, completes) = (cx.take("expect_tx"), !cx.take("noComplete"));
    let space = space(cx)?;
    bits(cx)?;
    let count = cx.arity(if expect || !completes { 3..=3 } else { 1..=3 })?;
    // `mbarrier.arrive [address];` discards the state, like `mbarrier.arrive _, [address];`.
    let first = usize::from(!matches!(cx.operand(0)?, Operand::Address { .. }));
    let at = at(cx, first, space)?;
    let operand = match count > first + 1 {
        true => Some(memory::slot(cx, cx.operand(first + 1)?, Type::U32, false)?),
        false => None,
    };
    let result = match cx.operand(0)? {
        Operand::Sink | Operand::Address { .. } => SlotOrRow::None,
        _ if space == (Space::Shared, true) => {
            return Err("an arrival in `.shared::cluster` memory returns no state, only `_`".to_owned());
        }
        state => SlotOrRow::Slot(memory::slot(cx, state, Type::B64, true)?),
    };
    let kind = MbarrierKind::Arrive { drop, expect, completes };
    Ok(push(cx, AsyncOp::Mbarrier(MbarrierOp { kind, at, operand, result })))
}

/// Decodes `mbarrier.test_wait` and `.try_wait`. The suspend-time hint is ignored, because time is not
/// simulated.
fn wait(cx: &mut Cx<'_, '_, '_>, blocks: bool) -> Result<Op> {
    let parity = cx.take("parity");
    let space = space(cx)?;
    if space == (Space::Shared, true) {
        return Err("threads wait for mbarriers of their own block only".to_owned());
    }
    bits(cx)?;
    let count = cx.arity(if blocks { 3..=4 } else { 3..=3 })?;
    let at = at(cx, 1, (space.0, false))?;
    let ty = if parity { Type::U32 } else { Type::B64 };
    let operand = Some(memory::slot(cx, cx.operand(2)?, ty, false)?);
    if count == 4 {
        cx.source(3, Type::U32)?;
    }
    let result = SlotOrRow::Predicate(cx.destination(0, Type::Pred)?);
    let kind = MbarrierKind::Wait { blocks, parity };
    Ok(push(cx, AsyncOp::Mbarrier(MbarrierOp { kind, at, operand, result })))
}
