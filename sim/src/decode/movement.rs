//! Moves, conversions and addresses.

use crate::ast::{Operand, Type};
use crate::lanes::convert::{Conversion, convert, pack_halves};
use crate::lanes::float::Mode;
use crate::lanes::soft::{DOUBLE, Round, SINGLE};
use crate::lanes::{AluFn, alu, commit, each, uniform};
use crate::memory::{Space, classify, region, window};
use crate::program::{Init, LANES, Op, Operands};

use super::context::{Context, Result};
use super::rows::File;
use super::symbols::Symbol;
use super::{integer, narrow, special, wide};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

pub(super) fn mov(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(2..=2)?;
    if let Operand::Name(name, None) = cx.operand(1)?
        && let Some((kind, wide)) = special::timer(name)
    {
        if ty.bits() != if wide { 64 } else { 32 } {
            return Err(format!("special register `{name}` does not have {} bits", ty.bits()));
        }
        let d = cx.destination(0, ty)?;
        return Ok(Op::Timer { kind, wide, d });
    }
    if let Some(offset) = in_activation(cx)? {
        return address_in_activation(cx, ty, offset);
    }
    if ty == Type::B128 {
        return wide::mov(cx);
    }
    match (cx.operand(0)?, cx.operand(1)?) {
        (Operand::List(parts), _) => unpack(cx, ty, parts),
        (_, Operand::List(parts)) => pack(cx, ty, parts),
        (_, Operand::Int(value)) if ty == Type::Pred => {
            let value = *value != 0;
            let d = cx.destination(0, ty)?;
            let f: AluFn = if value { set_predicate } else { clear_predicate };
            Ok(Op::Alu { f, o: Operands { d, ..Operands::default() } })
        }
        _ => {
            let f = match File::of(ty) {
                File::Word => alu!(U32 <- U32: |a| a),
                File::Double => alu!(U64 <- U64: |a| a),
                File::Predicate => copy_predicate,
            };
            cx.alu(f, &[ty; 2])
        }
    }
}

/// Returns the offset of the variable whose address a `mov` takes, if the variable is in a stack frame.
fn in_activation(cx: &mut Cx<'_, '_, '_>) -> Result<Option<u32>> {
    let (name, offset) = match cx.operand(1)? {
        Operand::Name(name, None) if special::find(name, None).is_none() => (name, 0),
        Operand::Offset(name, offset) => (name, *offset),
        _ => return Ok(None),
    };
    Ok(match cx.symbol(name) {
        Ok(Symbol::Frame(start, _)) => Some((i64::from(start) + offset) as u32),
        _ => None,
    })
}

/// Decodes a `mov` of the address of a variable at `offset` in the stack frame.
fn address_in_activation(cx: &mut Cx<'_, '_, '_>, ty: Type, offset: u32) -> Result<Op> {
    let a = cx.rows.constant(Init::Frame);
    let d = cx.destination(0, ty)?;
    let f: AluFn = match ty.bits() {
        32 => uniform!(U32 <- U32: |imm, a| a.wrapping_add(imm)),
        64 => uniform!(U64 <- U32: |imm, a| u64::from(a.wrapping_add(imm))),
        _ => return cx.wrong_type(ty),
    };
    Ok(Op::Alu { f, o: Operands { d, a, imm: offset, ..Operands::default() } })
}

fn copy_predicate(r: &mut crate::lanes::Regs, o: &Operands, m: u32) {
    let value = r.predicates[usize::from(o.a)];
    let d = &mut r.predicates[usize::from(o.d)];
    *d = *d & !m | value & m;
}

fn set_predicate(r: &mut crate::lanes::Regs, o: &Operands, m: u32) {
    r.predicates[usize::from(o.d)] |= m;
}

fn clear_predicate(r: &mut crate::lanes::Regs, o: &Operands, m: u32) {
    r.predicates[usize::from(o.d)] &= !m;
}

fn bits_type(bits: u32) -> Option<Type> {
    Some(match bits {
        8 => Type::B8,
        16 => Type::B16,
        32 => Type::B32,
        64 => Type::B64,
        _ => return None,
    })
}

fn part_bits(ty: Type, parts: usize) -> Result<u32> {
    let bits = ty.bits() / parts.max(1) as u32;
    match (ty.bits(), parts) {
        (16 | 32 | 64, 2) | (32 | 64, 4) => Ok(bits),
        _ => Err(format!("a vector of {parts} parts cannot make {} bits", ty.bits())),
    }
}

/// Decodes `mov.b64 d, {a, b}` and the like.
fn pack<'s>(cx: &mut Cx<'_, '_, 's>, ty: Type, parts: &[Operand<'s>]) -> Result<Op> {
    let bits = part_bits(ty, parts.len())?;
    let Some(part) = bits_type(bits) else { return cx.wrong_type(ty) };
    let mut rows = [0; 4];
    for (row, operand) in rows.iter_mut().zip(parts) {
        *row = cx.source_of(operand, part)?;
    }
    let [a, b, c, e] = rows;
    let d = cx.destination(0, ty)?;
    let f: AluFn = match (ty.bits(), parts.len()) {
        (16, _) => alu!(U32 <- U32, U32: |a, b| a & 0xff | (b & 0xff) << 8),
        (32, 4) => |r, o, m| {
            let mut values = [0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                let part = |row: u16| r.words[usize::from(row)][lane] & 0xff;
                *value = part(o.a) | part(o.b) << 8 | part(o.c) << 16 | part(o.e) << 24;
            }
            commit(&mut r.words[usize::from(o.d)], &values, m);
        },
        (32, _) => alu!(U32 <- U32, U32: |a, b| a | b << 16),
        (_, 2) => alu!(U64 <- U32, U32: |a, b| u64::from(a) | u64::from(b) << 32),
        _ => |r, o, m| {
            let mut values = [0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                let part = |row: u16| u64::from(r.words[usize::from(row)][lane]);
                *value = part(o.a) | part(o.b) << 16 | part(o.c) << 32 | part(o.e) << 48;
            }
            commit(&mut r.doubles[usize::from(o.d)], &values, m);
        },
    };
    Ok(Op::Alu { f, o: Operands { d, e, a, b, c, imm: 0 } })
}

/// Decodes `mov.b64 {a, b}, d` and the like. The destinations are in the fields `d`, `e`, `b` and `c` of
/// [`Operands`]. Bit `i` of `imm` is set unless part `i` is discarded (`_`).
fn unpack<'s>(cx: &mut Cx<'_, '_, 's>, ty: Type, parts: &[Operand<'s>]) -> Result<Op> {
    let bits = part_bits(ty, parts.len())?;
    let Some(part) = bits_type(bits) else { return cx.wrong_type(ty) };
    let a = cx.source(1, ty)?;
    let (mut rows, mut kept) = ([0; 4], 0);
    for (index, (row, operand)) in rows.iter_mut().zip(parts).enumerate() {
        if *operand != Operand::Sink {
            *row = cx.destination_of(operand, part)?;
            kept |= 1 << index;
        }
    }
    let f: AluFn = match ty.bits() {
        16 | 32 if bits == 8 => |r, o, m| {
            let source = r.words[usize::from(o.a)];
            split(r, o, m, |lane, index| source[lane] >> (8 * index) & 0xff);
        },
        32 => |r, o, m| {
            let source = r.words[usize::from(o.a)];
            split(r, o, m, |lane, index| source[lane] >> (16 * index) & 0xffff);
        },
        _ if bits == 32 => |r, o, m| {
            let source = r.doubles[usize::from(o.a)];
            split(r, o, m, |lane, index| (source[lane] >> (32 * index)) as u32);
        },
        _ => |r, o, m| {
            let source = r.doubles[usize::from(o.a)];
            split(r, o, m, |lane, index| (source[lane] >> (16 * index)) as u32 & 0xffff);
        },
    };
    let [d, e, b, c] = rows;
    Ok(Op::Alu { f, o: Operands { d, e, a, b, c, imm: kept } })
}

#[inline(always)]
fn split(r: &mut crate::lanes::Regs, o: &Operands, mask: u32, part: impl Fn(usize, usize) -> u32) {
    for (index, row) in [o.d, o.e, o.b, o.c].into_iter().enumerate() {
        if o.imm >> index & 1 == 1 {
            let values = std::array::from_fn(|lane| part(lane, index));
            commit(&mut r.words[usize::from(row)], &values, mask);
        }
    }
}

pub(super) fn cvta(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let to_space = cx.take("to");
    let space = space(cx)?;
    let ty = cx.ty()?;
    let base = window(space);
    let f = match (ty, to_space) {
        (Type::U64, false) => each!(U64 <- U64: |imm, a: u64| a.wrapping_add(base_of(imm))),
        (Type::U64, true) => each!(U64 <- U64: |imm, a: u64| a.wrapping_sub(base_of(imm))),
        _ => return cx.wrong_type(ty),
    };
    if space == Space::Global {
        return cx.alu(alu!(U64 <- U64: |a| a), &[ty; 2]);
    }
    // A window's base is a multiple of 2^28.
    cx.alu_with(f, &[ty; 2], (base >> 28) as u32)
}

fn base_of(imm: u32) -> u64 {
    u64::from(imm) << 28
}

fn space(cx: &mut Cx<'_, '_, '_>) -> Result<Space> {
    cx.require(
        "a state space",
        &[
            ("global", Space::Global),
            ("shared", Space::Shared),
            ("shared::cta", Space::Shared),
            ("shared::cluster", Space::Shared),
            ("local", Space::Local),
            ("const", Space::Const),
            ("param", Space::Param),
            ("param::entry", Space::Param),
        ],
    )
}

pub(super) fn isspacep(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let own = cx.take("shared") || cx.take("shared::cta");
    let space = if own { Space::Shared } else { space(cx)? };
    if own {
        // In the shared window, the memory of the cluster's other blocks follows the block's own.
        let f: AluFn =
            |r, o, m| holds(r, o, m, |address| region(address) == region(window(Space::Shared)));
        return cx.alu(f, &[Type::Pred, Type::U64]);
    }
    let f: AluFn = |r, o, m| holds(r, o, m, |address| classify(address) as u32 == o.imm);
    cx.alu_with(f, &[Type::Pred, Type::U64], space as u32)
}

/// Sets predicate `d` to the result of `test` for each lane's address.
fn holds(r: &mut crate::lanes::Regs, o: &Operands, mask: u32, test: impl Fn(u64) -> bool) {
    let mut holds = 0;
    for (lane, &address) in r.doubles[usize::from(o.a)].iter().enumerate() {
        holds |= u32::from(test(address)) << lane;
    }
    let d = &mut r.predicates[usize::from(o.d)];
    *d = *d & !mask | holds & mask;
}

/// Decodes `createpolicy`, which returns 0, since cache policies have no effect on results.
pub(super) fn createpolicy(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.ignore(|name| {
        matches!(name, "fractional" | "range" | "cvt" | "L2" | "global") || name.starts_with("L2::")
    });
    let ty = cx.ty()?;
    let d = cx.destination(0, ty)?;
    let f = match ty {
        Type::B64 => alu!(U64 <- U64: |_a| 0),
        _ => return cx.wrong_type(ty),
    };
    Ok(Op::Alu { f, o: Operands { d, ..Operands::default() } })
}

/// Rounding modifiers of `cvt`; `true` rounds to an integral value.
const ROUNDINGS: [(&str, (Round, bool)); 9] = [
    ("rn", (Round::Nearest, false)),
    ("rz", (Round::Zero, false)),
    ("rm", (Round::Down, false)),
    ("rp", (Round::Up, false)),
    ("rna", (Round::Away, false)),
    ("rni", (Round::Nearest, true)),
    ("rzi", (Round::Zero, true)),
    ("rmi", (Round::Down, true)),
    ("rpi", (Round::Up, true)),
];

pub(super) fn cvt(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.has("pack") {
        return integer::cvt_pack(cx);
    }
    if ["e4m3x2", "e5m2x2", "tf32"].iter().any(|narrow| cx.has(narrow)) {
        return narrow::cvt(cx);
    }
    let rounding = cx.choose(&ROUNDINGS);
    let (ftz, sat, relu) = (cx.take("ftz"), cx.take("sat"), cx.take("relu"));
    let (to, from) = (cx.ty()?, cx.ty()?);
    let (round, integral) = rounding.unwrap_or((Round::Nearest, false));
    let mode = Mode { round, ftz, sat, relu, xorsign: false };
    if let Type::F16x2 | Type::Bf16x2 = to {
        return cvt_packed(cx, to, from, mode);
    }
    if !Conversion::supports(to, from) {
        return cx.wrong_type(if Conversion::supports(to, Type::U32) { from } else { to });
    }
    if from.is_float() && !to.is_float() && !integral {
        return Err("`cvt` from a float to an integer needs `.rni`, `.rzi`, `.rmi` or `.rpi`".to_owned());
    }
    cx.arity(2..=2)?;
    // Registers may be wider than the types that the instruction names.
    let target = cx.declared_type(cx.operand(0)?)?;
    let source = match cx.operand(1)? {
        operand @ Operand::Name(_, None) if special_or_register(cx, operand) => {
            cx.declared_type(operand)?
        }
        _ => from,
    };
    if target.bits() < to.bits() || source.bits() < from.bits() {
        return Err("a register of `cvt` is narrower than its type".to_owned());
    }
    let plain = !sat && !ftz && !relu;
    let same_files = to.bits() == target.bits() && File::of(from) == File::of(source);
    let native = if plain && same_files { native(to, from, rounding) } else { None };
    if let Some(f) = native {
        return cx.alu(f, &[target, source]);
    }
    let imm = Conversion { to, from, mode, integral, width: target.bits() }.encode();
    let f = match (File::of(target), File::of(source)) {
        (File::Word, File::Word) => each!(U32 <- U32: |imm, a| convert(imm, u64::from(a)) as u32),
        (File::Word, _) => each!(U32 <- U64: |imm, a| convert(imm, a) as u32),
        (_, File::Word) => each!(U64 <- U32: |imm, a| convert(imm, u64::from(a))),
        (_, _) => each!(U64 <- U64: convert),
    };
    cx.alu_with(f, &[target, source], imm)
}

fn special_or_register<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>) -> bool {
    let Operand::Name(name, None) = operand else { return false };
    special::find(name, None).is_none() && matches!(cx.symbol(name), Ok(Symbol::Register(..)))
}

/// Rounds a double to single precision, and keeps the payload of a NaN.
#[inline(always)]
fn narrow(a: f64) -> f32 {
    let nan = SINGLE.carry_nan(DOUBLE, a.to_bits()) as u32;
    if a.is_nan() { f32::from_bits(nan) } else { a as f32 }
}

/// Returns the conversion in host arithmetic, if there is one.
fn native(to: Type, from: Type, rounding: Option<(Round, bool)>) -> Option<AluFn> {
    use Type::{F32, F64, S16, S32, S64, U8, U16, U32, U64};
    let nearest = rounding == Some((Round::Nearest, false));
    let to_zero = rounding == Some((Round::Zero, true));
    Some(match (to, from) {
        (U32 | S32, U32 | S32) => alu!(U32 <- U32: |a| a),
        (U64 | S64, U64 | S64) => alu!(U64 <- U64: |a| a),
        (U64 | S64, U32) => alu!(U64 <- U32: u64::from),
        (U64 | S64, S32) => alu!(I64 <- I32: i64::from),
        (U32 | S32, U64 | S64) => alu!(U32 <- U64: |a| a as u32),
        (U32 | S32, U16) => alu!(U32 <- U16: u32::from),
        (U32 | S32, S16) => alu!(I32 <- I16: i32::from),
        (U32 | S32, U8) => uniform!(U32 <- U32: |_imm, a| a & 0xff),
        (U16 | S16, U32 | S32) => alu!(U16 <- U32: |a| a as u16),
        (U64 | S64, U16) => alu!(U64 <- U16: u64::from),
        (F64, F32) => alu!(F64 <- F32: f64::from),
        (F32, F64) if nearest => alu!(F32 <- F64: narrow),
        (F32, U32) if nearest => alu!(F32 <- U32: |a| a as f32),
        (F32, S32) if nearest => alu!(F32 <- I32: |a| a as f32),
        (F32, U64) if nearest => alu!(F32 <- U64: |a| a as f32),
        (F32, S64) if nearest => alu!(F32 <- I64: |a| a as f32),
        (F64, U32) if nearest => alu!(F64 <- U32: f64::from),
        (F64, S32) if nearest => alu!(F64 <- I32: f64::from),
        (F64, U64) if nearest => alu!(F64 <- U64: |a| a as f64),
        (F64, S64) if nearest => alu!(F64 <- I64: |a| a as f64),
        (U32, F32) if to_zero => alu!(U32 <- F32: |a| a as u32),
        (S32, F32) if to_zero => alu!(I32 <- F32: |a| a as i32),
        (U32, F64) if to_zero => alu!(U32 <- F64: |a: f64| if a.is_nan() { 1 << 31 } else { a as u32 }),
        (S32, F64) if to_zero => alu!(I32 <- F64: |a: f64| if a.is_nan() { i32::MIN } else { a as i32 }),
        (U64, F64) if to_zero => alu!(U64 <- F64: |a: f64| if a.is_nan() { 1 << 63 } else { a as u64 }),
        (S64, F64) if to_zero => alu!(I64 <- F64: |a: f64| if a.is_nan() { i64::MIN } else { a as i64 }),
        _ => return None,
    })
}

/// Decodes `cvt.rn.f16x2.f32 d, a, b`, which puts `a` into the upper half and `b` into the lower one.
fn cvt_packed(cx: &mut Cx<'_, '_, '_>, to: Type, from: Type, mode: Mode) -> Result<Op> {
    if from != Type::F32 {
        return cx.wrong_type(from);
    }
    let half = if to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
    let imm = Conversion { to: half, from, mode, integral: false, width: 16 }.encode();
    cx.alu_with(each!(U32 <- U32, U32: pack_halves), &[to, from, from], imm)
}
