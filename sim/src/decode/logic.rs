//! Logic, shifts and byte permutation.

use crate::ast::{Operand, Type};
use crate::lanes::bits::{PermuteMode, funnel, logic3, permute, permute_mode};
use crate::lanes::{AluFn, Regs, U32, alu, each, lanes_of, map, uniform};
use crate::program::{Op, Operands};

use super::context::{Context, Result, immediate};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

macro_rules! mask_logic {
    ($f:expr) => {{
        fn run(r: &mut crate::lanes::Regs, o: &Operands, m: u32) {
            let f = $f;
            let (a, b) = (r.predicates[usize::from(o.a)], r.predicates[usize::from(o.b)]);
            let value: u32 = f(a, b);
            let d = &mut r.predicates[usize::from(o.d)];
            *d = *d & !m | value & m;
        }
        run as AluFn
    }};
}

macro_rules! logic {
    ($name:ident, $f:expr) => {
        pub(super) fn $name(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
            let ty = cx.ty()?;
            let f = match ty {
                Type::Pred => mask_logic!($f),
                Type::B16 => alu!(U16 <- U16, U16: $f),
                Type::B32 => alu!(U32 <- U32, U32: $f),
                Type::B64 => alu!(U64 <- U64, U64: $f),
                _ => return cx.wrong_type(ty),
            };
            cx.alu(f, &[ty; 3])
        }
    };
}

logic!(and, |a, b| a & b);
logic!(or, |a, b| a | b);
logic!(xor, |a, b| a ^ b);

pub(super) fn not(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::Pred => mask_logic!(|a: u32, _b: u32| !a),
        Type::B16 => alu!(U16 <- U16: |a: u16| !a),
        Type::B32 => alu!(U32 <- U32: |a: u32| !a),
        Type::B64 => alu!(U64 <- U64: |a: u64| !a),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn cnot(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::B16 => alu!(U16 <- U16: |a: u16| u16::from(a == 0)),
        Type::B32 => alu!(U32 <- U32: |a: u32| u32::from(a == 0)),
        Type::B64 => alu!(U64 <- U64: |a: u64| u64::from(a == 0)),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn lop3(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    let join = cx.choose(&[("or", false), ("and", true)]);
    let operands = if join.is_some() { 6 } else { 5 };
    cx.arity(operands..=operands)?;
    let Operand::Int(lut @ 0..=255) = cx.operand(4)? else {
        return Err("the truth table of `lop3` must be a number from 0 to 255".to_owned());
    };
    if let Some(is_and) = join {
        return lop3_joined(cx, *lut as u32, is_and);
    }
    let f: AluFn = |r, o, m| {
        let lut = o.imm;
        map::<true, U32, U32, U32, U32>(r, o, m, |a, b, c| logic3(lut, a, b, c));
    };
    let (a, b, c) = (cx.source(1, ty)?, cx.source(2, ty)?, cx.source(3, ty)?);
    let d = cx.destination(0, ty)?;
    Ok(Op::Alu { f, o: Operands { d, a, b, c, imm: *lut as u32, e: 0 } })
}

/// Decodes the form of `lop3` that also joins whether the result is not 0 with a predicate.
fn lop3_joined(cx: &mut Cx<'_, '_, '_>, lut: u32, is_and: bool) -> Result<Op> {
    fn run<const WRITES: bool>(r: &mut Regs, o: &Operands, m: u32) {
        let (lut, negate, is_and) = (o.imm & 0xff, o.imm >> 8 & 1 == 1, o.imm >> 9 & 1 == 1);
        let mut value = 0;
        for lane in lanes_of(m) {
            let [a, b, c] = [o.a, o.b, o.c].map(|row| r.words[usize::from(row)][lane]);
            let result = logic3(lut, a, b, c);
            value |= u32::from(result != 0) << lane;
            if WRITES {
                r.words[usize::from(o.d)][lane] = result;
            }
        }
        let other = r.predicates[(o.imm >> 16) as usize] ^ if negate { u32::MAX } else { 0 };
        value = if is_and { value & other } else { value | other };
        let p = &mut r.predicates[usize::from(o.e)];
        *p = *p & !m | value & m;
    }
    let (a, b, c) = (cx.source(1, Type::B32)?, cx.source(2, Type::B32)?, cx.source(3, Type::B32)?);
    let (other, negate) = cx.predicate(5)?;
    let Operand::Pair(result, truth) = cx.operand(0)? else {
        return Err("`lop3` with a predicate needs two destinations, `d|p`".to_owned());
    };
    let (f, d): (AluFn, u16) = match &**result {
        Operand::Sink => (run::<false>, 0),
        result => (run::<true>, cx.destination_of(result, Type::B32)?),
    };
    let e = cx.destination_of(truth, Type::Pred)?;
    let imm = lut | u32::from(negate) << 8 | u32::from(is_and) << 9 | u32::from(other) << 16;
    Ok(Op::Alu { f, o: Operands { d, a, b, c, imm, e } })
}

fn constant_amount(cx: &Cx<'_, '_, '_>, limit: u64) -> Result<Option<u32>> {
    let amount = immediate(cx.operand(2)?, Type::U32);
    Ok(amount.map(|amount| amount.min(limit) as u32))
}

/// Decodes `shl`. Shift amounts of at least the width give 0.
pub(super) fn shl(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(3..=3)?;
    if let Some(imm) = constant_amount(cx, u64::from(ty.bits()))? {
        let f = match ty {
            Type::B16 => uniform!(U16 <- U16: |n, a: u16| ((u32::from(a)) << n) as u16),
            Type::B32 if imm < 32 => uniform!(U32 <- U32: |n, a: u32| a << (n & 31)),
            Type::B64 if imm < 64 => uniform!(U64 <- U64: |n, a: u64| a << (n & 63)),
            Type::B32 => alu!(U32 <- U32: |_a| 0),
            Type::B64 => alu!(U64 <- U64: |_a| 0),
            _ => return cx.wrong_type(ty),
        };
        return shift_by_constant(cx, f, ty, imm);
    }
    let f = match ty {
        Type::B16 => alu!(U16 <- U16, U32: |a: u16, n: u32| ((u32::from(a)) << n.min(16)) as u16),
        Type::B32 => alu!(U32 <- U32, U32: |a: u32, n: u32| (u64::from(a) << n.min(32)) as u32),
        Type::B64 => {
            alu!(U64 <- U64, U32: |a: u64, n: u32| if n > 63 { 0 } else { a << (n & 63) })
        }
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty, ty, Type::U32])
}

fn shift_by_constant(cx: &mut Cx<'_, '_, '_>, f: AluFn, ty: Type, imm: u32) -> Result<Op> {
    let a = cx.source(1, ty)?;
    let d = cx.destination(0, ty)?;
    Ok(Op::Alu { f, o: Operands { d, a, imm, ..Operands::default() } })
}

/// Decodes `shr`. Shift amounts of at least the width give 0, or the sign in every bit for signed types.
pub(super) fn shr(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(3..=3)?;
    let limit = if ty.is_signed() { ty.bits() - 1 } else { ty.bits() };
    if let Some(imm) = constant_amount(cx, u64::from(limit))? {
        let f = match ty {
            Type::B16 | Type::U16 => uniform!(U16 <- U16: |n, a: u16| (u32::from(a) >> n) as u16),
            Type::S16 => uniform!(I16 <- I16: |n, a: i16| a >> (n & 15)),
            Type::B32 | Type::U32 if imm < 32 => uniform!(U32 <- U32: |n, a: u32| a >> (n & 31)),
            Type::B64 | Type::U64 if imm < 64 => uniform!(U64 <- U64: |n, a: u64| a >> (n & 63)),
            Type::B32 | Type::U32 => alu!(U32 <- U32: |_a| 0),
            Type::B64 | Type::U64 => alu!(U64 <- U64: |_a| 0),
            Type::S32 => uniform!(I32 <- I32: |n, a: i32| a >> (n & 31)),
            Type::S64 => uniform!(I64 <- I64: |n, a: i64| a >> (n & 63)),
            _ => return cx.wrong_type(ty),
        };
        return shift_by_constant(cx, f, ty, imm);
    }
    let f = match ty {
        Type::B16 | Type::U16 => {
            alu!(U16 <- U16, U32: |a: u16, n: u32| (u32::from(a) >> n.min(16)) as u16)
        }
        Type::S16 => alu!(I16 <- I16, U32: |a: i16, n: u32| a >> n.min(15)),
        Type::B32 | Type::U32 => {
            alu!(U32 <- U32, U32: |a: u32, n: u32| (u64::from(a) >> n.min(32)) as u32)
        }
        Type::S32 => alu!(I32 <- I32, U32: |a: i32, n: u32| a >> n.min(31)),
        Type::B64 | Type::U64 => {
            alu!(U64 <- U64, U32: |a: u64, n: u32| if n > 63 { 0 } else { a >> (n & 63) })
        }
        Type::S64 => alu!(I64 <- I64, U32: |a: i64, n: u32| a >> n.min(63)),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty, ty, Type::U32])
}

/// Decodes `shf`. Bit 0 of `imm` is set for a left shift, and bit 1 for `.wrap`.
pub(super) fn shf(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let left = cx.require("a direction", &[("l", true), ("r", false)])?;
    let wrap = cx.require("a mode", &[("clamp", false), ("wrap", true)])?;
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    let f = each!(U32 <- U32, U32, U32: |imm, a, b, c| funnel(a, b, c, imm & 1 == 1, imm & 2 == 2));
    cx.alu_with(f, &[ty; 4], u32::from(left) | u32::from(wrap) << 1)
}

pub(super) fn prmt(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    const MODES: [(&str, PermuteMode); 6] = [
        ("f4e", PermuteMode::Forward4),
        ("b4e", PermuteMode::Backward4),
        ("rc8", PermuteMode::Replicate8),
        ("ecl", PermuteMode::EdgeLeft),
        ("ecr", PermuteMode::EdgeRight),
        ("rc16", PermuteMode::Replicate16),
    ];
    let Some(mode) = cx.choose(&MODES) else {
        return cx.alu(alu!(U32 <- U32, U32, U32: permute), &[ty; 4]);
    };
    let f = each!(U32 <- U32, U32, U32: |imm, a, b, c| {
        permute(a, b, permute_mode(MODES[imm as usize].1, c))
    });
    let index = MODES.iter().position(|&(_, known)| known == mode).unwrap_or(0);
    cx.alu_with(f, &[ty; 4], index as u32)
}
