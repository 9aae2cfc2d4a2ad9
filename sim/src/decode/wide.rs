//! 128-bit registers, each a pair of 64-bit registers: moves, loads, stores and atomics.

use crate::ast::{Operand, Type};
use crate::lanes::commit;
use crate::program::{Op, Operands, Slot};

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Decodes `mov.b128` between 128-bit registers, or between one of them and two 64-bit registers.
pub(super) fn mov(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let [a, b] = halves(cx, cx.operand(1)?, false)?;
    let [d, e] = halves(cx, cx.operand(0)?, true)?;
    let o = Operands { d, e, a, b, ..Operands::default() };
    Ok(Op::Alu {
        f: |r, o, m| {
            let [low, high] = [o.a, o.b].map(|row| r.doubles[usize::from(row)]);
            commit(&mut r.doubles[usize::from(o.d)], &low, m);
            commit(&mut r.doubles[usize::from(o.e)], &high, m);
        },
        o,
    })
}

/// Returns the registers of the lower and the upper half of an operand: a 128-bit register, or two
/// 64-bit registers in braces.
pub(super) fn halves<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    write: bool,
) -> Result<[u16; 2]> {
    match operand {
        Operand::List(parts) => {
            let [low, high] = parts.as_slice() else {
                return Err(format!("a vector of {} parts cannot make 128 bits", parts.len()));
            };
            let mut row = |part| match write {
                true => cx.destination_of(part, Type::B64),
                false => cx.source_of(part, Type::B64),
            };
            Ok([row(low)?, row(high)?])
        }
        _ => cx.wide_register(operand, write),
    }
}

pub(super) fn slots<'s>(
    cx: &mut Cx<'_, '_, 's>,
    operand: &Operand<'s>,
    write: bool,
) -> Result<[Slot; 2]> {
    if write && *operand == Operand::Sink {
        return Ok([Slot::Sink; 2]);
    }
    Ok(cx.wide_register(operand, write)?.map(Slot::Double))
}
