//! Integer arithmetic.

use crate::ast::Type;
use crate::lanes::bits::{
    bit_mask, dot2, dot4, extend, extract, find_high, insert, low24, nth_set, pack,
};
use crate::lanes::{AluFn, Regs, alu, each, for_each_lane};
use crate::program::{CARRY, Op, Operands};

use super::context::{Context, Result};
use super::float;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: [(&str, Part); 3] = [("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// Selects an operation by width alone: modular arithmetic is the same for signed and unsigned types.
macro_rules! modular {
    ($name:ident, $method:ident) => {
        fn $name(ty: Type) -> Option<AluFn> {
            Some(match ty.bits() {
                16 => alu!(U16 <- U16, U16: u16::$method),
                32 => alu!(U32 <- U32, U32: u32::$method),
                64 => alu!(U64 <- U64, U64: u64::$method),
                _ => return None,
            })
        }
    };
}

modular!(add_modular, wrapping_add);
modular!(sub_modular, wrapping_sub);
modular!(mul_modular, wrapping_mul);

fn is_integer(ty: Type) -> bool {
    !ty.is_float() && ty != Type::Pred
}

#[inline(always)]
fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let low = f(a as u16, b as u16);
    u32::from(low) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

pub(super) fn add(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::add(cx);
    }
    if cx.take("cc") {
        return carry(cx, CARRY_OUT);
    }
    let (sat, ty) = (cx.take("sat"), cx.ty()?);
    let f = match (ty, sat) {
        (Type::S32, true) => Some(alu!(I32 <- I32, I32: i32::saturating_add)),
        (_, true) => None,
        (Type::B32 | Type::B64 | Type::B16 | Type::Pred, false) => None,
        (Type::U16x2 | Type::S16x2, false) => {
            Some(alu!(U32 <- U32, U32: |a, b| halves(a, b, u16::wrapping_add)))
        }
        (_, false) => add_modular(ty),
    };
    match f {
        Some(f) => cx.alu(f, &[ty; 3]),
        None => cx.wrong_type(ty),
    }
}

pub(super) fn sub(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::sub(cx);
    }
    if cx.take("cc") {
        return carry(cx, CARRY_OUT | SUBTRACT);
    }
    let (sat, ty) = (cx.take("sat"), cx.ty()?);
    let f = match (ty, sat) {
        (Type::S32, true) => Some(alu!(I32 <- I32, I32: i32::saturating_sub)),
        (_, true) => None,
        (Type::B32 | Type::B64 | Type::B16 | Type::Pred, false) => None,
        (Type::U16x2 | Type::S16x2, false) => None,
        (_, false) => sub_modular(ty),
    };
    match f {
        Some(f) => cx.alu(f, &[ty; 3]),
        None => cx.wrong_type(ty),
    }
}

const CARRY_IN: u32 = 1;
const CARRY_OUT: u32 = 2;
const SUBTRACT: u32 = 4;
const MULTIPLY: u32 = 8;
const HIGH: u32 = 16;
const SIGNED: u32 = 32;

pub(super) fn addc(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let out = if cx.take("cc") { CARRY_OUT } else { 0 };
    carry(cx, CARRY_IN | out)
}

pub(super) fn subc(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let out = if cx.take("cc") { CARRY_OUT } else { 0 };
    carry(cx, CARRY_IN | SUBTRACT | out)
}

pub(super) fn madc(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let part = cx.require("a part", &PARTS[..2])?;
    let out = if cx.take("cc") { CARRY_OUT } else { 0 };
    let high = if part == Part::High { HIGH } else { 0 };
    carry(cx, CARRY_IN | MULTIPLY | high | out)
}

fn carry(cx: &mut Cx<'_, '_, '_>, flags: u32) -> Result<Op> {
    let ty = cx.ty()?;
    let flags = if ty.is_signed() { flags | SIGNED } else { flags };
    let f: AluFn = match ty {
        Type::U32 | Type::S32 => carry_words,
        Type::U64 | Type::S64 => carry_doubles,
        _ => return cx.wrong_type(ty),
    };
    let count = if flags & MULTIPLY == 0 { 3 } else { 4 };
    cx.alu_with(f, &[ty; 4][..count], flags)
}

/// Returns `a ± b`, or with `MULTIPLY` `a * b ± c`, in `bits` bits, and the carry-out.
fn with_carry(flags: u32, bits: u32, [a, b, c]: [u64; 3], carry: bool) -> (u64, bool) {
    let (x, y) = if flags & MULTIPLY != 0 {
        (u128::from(product(flags, bits, a, b)), u128::from(c))
    } else {
        (u128::from(a), u128::from(b))
    };
    let carry = u128::from(carry && flags & CARRY_IN != 0);
    let sum = if flags & SUBTRACT != 0 { x.wrapping_sub(y).wrapping_sub(carry) } else { x + y + carry };
    (sum as u64 & (u64::MAX >> (64 - bits)), sum >> bits & 1 == 1)
}

fn product(flags: u32, bits: u32, a: u64, b: u64) -> u64 {
    let sign = |value: u64| ((value << (64 - bits)) as i64 >> (64 - bits)) as i128;
    let full =
        if flags & SIGNED != 0 { (sign(a) * sign(b)) as u128 } else { u128::from(a) * u128::from(b) };
    let part = if flags & HIGH != 0 { full >> bits } else { full };
    part as u64 & (u64::MAX >> (64 - bits))
}

fn carry_words(regs: &mut Regs, o: &Operands, mask: u32) {
    let flags = regs.predicates[usize::from(CARRY)];
    let mut carries = flags;
    for_each_lane(mask, |lane| {
        let operands = [o.a, o.b, o.c].map(|row| u64::from(regs.words[usize::from(row)][lane]));
        let (sum, carry) = with_carry(o.imm, 32, operands, flags >> lane & 1 == 1);
        regs.words[usize::from(o.d)][lane] = sum as u32;
        carries = carries & !(1 << lane) | u32::from(carry) << lane;
    });
    if o.imm & CARRY_OUT != 0 {
        regs.predicates[usize::from(CARRY)] = carries;
    }
}

fn carry_doubles(regs: &mut Regs, o: &Operands, mask: u32) {
    let flags = regs.predicates[usize::from(CARRY)];
    let mut carries = flags;
    for_each_lane(mask, |lane| {
        let operands = [o.a, o.b, o.c].map(|row| regs.doubles[usize::from(row)][lane]);
        let (sum, carry) = with_carry(o.imm, 64, operands, flags >> lane & 1 == 1);
        regs.doubles[usize::from(o.d)][lane] = sum;
        carries = carries & !(1 << lane) | u32::from(carry) << lane;
    });
    if o.imm & CARRY_OUT != 0 {
        regs.predicates[usize::from(CARRY)] = carries;
    }
}

fn widened(ty: Type) -> Option<Type> {
    Some(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return None,
    })
}

pub(super) fn mul(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::mul(cx);
    }
    let part = cx.require("a part", &PARTS)?;
    let ty = cx.ty()?;
    let f = match (part, ty) {
        (Part::Low, Type::U16x2 | Type::S16x2) => None,
        (Part::Low, _) if is_integer(ty) => mul_modular(ty),
        (Part::High, Type::U16) => {
            Some(alu!(U16 <- U16, U16: |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16))
        }
        (Part::High, Type::S16) => {
            Some(alu!(I16 <- I16, I16: |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16))
        }
        (Part::High, Type::U32) => {
            Some(alu!(U32 <- U32, U32: |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32))
        }
        (Part::High, Type::S32) => {
            Some(alu!(I32 <- I32, I32: |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32))
        }
        (Part::High, Type::U64) => {
            Some(alu!(U64 <- U64, U64: |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64))
        }
        (Part::High, Type::S64) => {
            Some(alu!(I64 <- I64, I64: |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64))
        }
        (Part::Wide, Type::U16) => Some(alu!(U32 <- U16, U16: |a, b| u32::from(a) * u32::from(b))),
        (Part::Wide, Type::S16) => Some(alu!(I32 <- I16, I16: |a, b| i32::from(a) * i32::from(b))),
        (Part::Wide, Type::U32) => Some(alu!(U64 <- U32, U32: |a, b| u64::from(a) * u64::from(b))),
        (Part::Wide, Type::S32) => Some(alu!(I64 <- I32, I32: |a, b| i64::from(a) * i64::from(b))),
        _ => None,
    };
    let Some(f) = f else { return cx.wrong_type(ty) };
    let result = if part == Part::Wide { widened(ty).unwrap_or(ty) } else { ty };
    cx.alu(f, &[result, ty, ty])
}

pub(super) fn mad(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::fma(cx);
    }
    let part = cx.require("a part", &PARTS)?;
    if cx.take("cc") {
        let high = if part == Part::High { HIGH } else { 0 };
        return carry(cx, CARRY_OUT | MULTIPLY | high);
    }
    let (sat, ty) = (cx.take("sat"), cx.ty()?);
    let f = match (part, ty, sat) {
        (Part::Low, Type::U16 | Type::S16, false) => {
            Some(alu!(U16 <- U16, U16, U16: |a, b, c| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Part::Low, Type::U32 | Type::S32, false) => {
            Some(alu!(U32 <- U32, U32, U32: |a, b, c| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Part::Low, Type::U64 | Type::S64, false) => {
            Some(alu!(U64 <- U64, U64, U64: |a, b, c| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Part::High, Type::S32, true) => Some(alu!(I32 <- I32, I32, I32: |a, b, c| {
            (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c)
        })),
        (Part::High, _, false) => return mad_high(cx, ty),
        (Part::Wide, Type::U16, false) => {
            Some(alu!(U32 <- U16, U16, U32: |a, b, c| (u32::from(a) * u32::from(b)).wrapping_add(c)))
        }
        (Part::Wide, Type::S16, false) => {
            Some(alu!(I32 <- I16, I16, I32: |a, b, c| (i32::from(a) * i32::from(b)).wrapping_add(c)))
        }
        (Part::Wide, Type::U32, false) => {
            Some(alu!(U64 <- U32, U32, U64: |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c)))
        }
        (Part::Wide, Type::S32, false) => {
            Some(alu!(I64 <- I32, I32, I64: |a, b, c| (i64::from(a) * i64::from(b)).wrapping_add(c)))
        }
        _ => None,
    };
    let Some(f) = f else { return cx.wrong_type(ty) };
    let result = if part == Part::Wide { widened(ty).unwrap_or(ty) } else { ty };
    cx.alu(f, &[result, ty, ty, result])
}

/// Decodes `mad.hi`, with the same `product` as `mad.hi.cc`.
fn mad_high(cx: &mut Cx<'_, '_, '_>, ty: Type) -> Result<Op> {
    let flags = HIGH | if ty.is_signed() { SIGNED } else { 0 };
    let f = match ty {
        Type::U16 | Type::S16 => each!(U16 <- U16, U16, U16: |imm, a, b, c: u16| {
            (product(imm, 16, u64::from(a), u64::from(b)) as u16).wrapping_add(c)
        }),
        Type::U32 | Type::S32 => each!(U32 <- U32, U32, U32: |imm, a, b, c: u32| {
            (product(imm, 32, u64::from(a), u64::from(b)) as u32).wrapping_add(c)
        }),
        Type::U64 | Type::S64 => each!(U64 <- U64, U64, U64: |imm, a, b, c: u64| {
            product(imm, 64, a, b).wrapping_add(c)
        }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu_with(f, &[ty; 4], flags)
}

pub(super) fn mul24(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let part = cx.require("a part", &PARTS[..2])?;
    let ty = cx.ty()?;
    let f = match (part, ty) {
        (Part::Low, Type::U32) => {
            alu!(U32 <- U32, U32: |a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff))
        }
        (Part::Low, Type::S32) => alu!(I32 <- I32, I32: |a, b| (low24(a) * low24(b)) as i32),
        (_, Type::U32) => alu!(U32 <- U32, U32: |a, b| {
            ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32
        }),
        (_, Type::S32) => alu!(I32 <- I32, I32: |a, b| ((low24(a) * low24(b)) >> 16) as i32),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 3])
}

pub(super) fn mad24(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let part = cx.require("a part", &PARTS[..2])?;
    let (sat, ty) = (cx.take("sat"), cx.ty()?);
    let f = match (part, ty, sat) {
        (Part::Low, Type::U32, false) => alu!(U32 <- U32, U32, U32: |a, b, c| {
            (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)
        }),
        (Part::Low, Type::S32, false) => alu!(I32 <- I32, I32, I32: |a, b, c| {
            ((low24(a) * low24(b)) as i32).wrapping_add(c)
        }),
        (Part::High, Type::U32, false) => alu!(U32 <- U32, U32, U32: |a, b, c| {
            (((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32).wrapping_add(c)
        }),
        (Part::High, Type::S32, false) => alu!(I32 <- I32, I32, I32: |a, b, c| {
            (((low24(a) * low24(b)) >> 16) as i32).wrapping_add(c)
        }),
        (Part::High, Type::S32, true) => alu!(I32 <- I32, I32, I32: |a, b, c| {
            (((low24(a) * low24(b)) >> 16) as i32).saturating_add(c)
        }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 4])
}

pub(super) fn sad(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::U16 => alu!(U16 <- U16, U16, U16: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Type::S16 => alu!(U16 <- I16, I16, U16: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Type::U32 => alu!(U32 <- U32, U32, U32: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Type::S32 => alu!(U32 <- I32, I32, U32: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Type::U64 => alu!(U64 <- U64, U64, U64: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Type::S64 => alu!(U64 <- I64, I64, U64: |a, b, c| c.wrapping_add(a.abs_diff(b))),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 4])
}

/// Decodes `div`. Division by zero gives all ones.
pub(super) fn div(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::div(cx);
    }
    let ty = cx.ty()?;
    let f = match ty {
        Type::U16 => each!(U16 <- U16, U16: |_, a: u16, b| a.checked_div(b).unwrap_or(u16::MAX)),
        Type::S16 => each!(I16 <- I16, I16: |_, a: i16, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        Type::U32 => each!(U32 <- U32, U32: |_, a: u32, b| a.checked_div(b).unwrap_or(u32::MAX)),
        Type::S32 => each!(I32 <- I32, I32: |_, a: i32, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        Type::U64 => each!(U64 <- U64, U64: |_, a: u64, b| a.checked_div(b).unwrap_or(u64::MAX)),
        Type::S64 => each!(I64 <- I64, I64: |_, a: i64, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 3])
}

/// Decodes `rem`. The remainder of a division by zero is all ones.
pub(super) fn rem(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::U16 => each!(U16 <- U16, U16: |_, a: u16, b| a.checked_rem(b).unwrap_or(u16::MAX)),
        Type::S16 => each!(I16 <- I16, I16: |_, a: i16, b| if b == 0 { -1 } else { a.wrapping_rem(b) }),
        Type::U32 => each!(U32 <- U32, U32: |_, a: u32, b| a.checked_rem(b).unwrap_or(u32::MAX)),
        Type::S32 => each!(I32 <- I32, I32: |_, a: i32, b| if b == 0 { -1 } else { a.wrapping_rem(b) }),
        Type::U64 => each!(U64 <- U64, U64: |_, a: u64, b| a.checked_rem(b).unwrap_or(u64::MAX)),
        Type::S64 => each!(I64 <- I64, I64: |_, a: i64, b| if b == 0 { -1 } else { a.wrapping_rem(b) }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 3])
}

pub(super) fn abs(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::abs(cx);
    }
    let ty = cx.ty()?;
    let f = match ty {
        Type::S16 => alu!(I16 <- I16: i16::wrapping_abs),
        Type::S32 => alu!(I32 <- I32: i32::wrapping_abs),
        Type::S64 => alu!(I64 <- I64: i64::wrapping_abs),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn neg(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.peek_type().is_some_and(Type::is_float) {
        return float::neg(cx);
    }
    let ty = cx.ty()?;
    let f = match ty {
        Type::S16 => alu!(I16 <- I16: i16::wrapping_neg),
        Type::S32 => alu!(I32 <- I32: i32::wrapping_neg),
        Type::S64 => alu!(I64 <- I64: i64::wrapping_neg),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

macro_rules! extreme {
    ($name:ident, $method:ident, $max:literal) => {
        pub(super) fn $name(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
            if cx.peek_type().is_some_and(Type::is_float) {
                return float::extreme(cx, $max);
            }
            let (relu, ty) = (cx.take("relu"), cx.ty()?);
            let f = match (ty, relu) {
                (Type::U16, false) => alu!(U16 <- U16, U16: |a, b| a.$method(b)),
                (Type::S16, false) => alu!(I16 <- I16, I16: |a, b| a.$method(b)),
                (Type::U32, false) => alu!(U32 <- U32, U32: |a, b| a.$method(b)),
                (Type::S32, false) => alu!(I32 <- I32, I32: |a, b| a.$method(b)),
                (Type::S32, true) => alu!(I32 <- I32, I32: |a, b| a.$method(b).max(0)),
                (Type::U16x2, false) => {
                    alu!(U32 <- U32, U32: |a, b| halves(a, b, |x, y| x.$method(y)))
                }
                (Type::S16x2, false) => alu!(U32 <- U32, U32: |a, b| {
                    halves(a, b, |x, y| (x as i16).$method(y as i16) as u16)
                }),
                (Type::U64, false) => alu!(U64 <- U64, U64: |a, b| a.$method(b)),
                (Type::S64, false) => alu!(I64 <- I64, I64: |a, b| a.$method(b)),
                _ => return cx.wrong_type(ty),
            };
            cx.alu(f, &[ty; 3])
        }
    };
}

extreme!(min, min, false);
extreme!(max, max, true);

pub(super) fn popc(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::B32 => alu!(U32 <- U32: u32::count_ones),
        Type::B64 => alu!(U32 <- U64: u64::count_ones),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[Type::U32, ty])
}

pub(super) fn clz(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::B32 => alu!(U32 <- U32: u32::leading_zeros),
        Type::B64 => alu!(U32 <- U64: u64::leading_zeros),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[Type::U32, ty])
}

pub(super) fn brev(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::B32 => alu!(U32 <- U32: u32::reverse_bits),
        Type::B64 => alu!(U64 <- U64: u64::reverse_bits),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

/// Decodes `bfind`. Bit 0 of `imm` is set for signed types, and bit 1 for `.shiftamt`.
pub(super) fn bfind(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let shift_amount = cx.take("shiftamt");
    let ty = cx.ty()?;
    let imm = u32::from(ty.is_signed()) | u32::from(shift_amount) << 1;
    let f = match ty {
        Type::U32 | Type::S32 => each!(U32 <- U32: |imm, a| {
            find_high(u64::from(a), 32, imm & 1 == 1, imm & 2 == 2)
        }),
        Type::U64 | Type::S64 => each!(U32 <- U64: |imm, a| {
            find_high(a, 64, imm & 1 == 1, imm & 2 == 2)
        }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu_with(f, &[Type::U32, ty], imm)
}

pub(super) fn fns(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    cx.alu(each!(U32 <- U32, U32, I32: |_, mask, base, offset| nth_set(mask, base, offset)), &[ty; 4])
}

pub(super) fn bfe(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    let f = match ty {
        Type::U32 | Type::S32 => each!(U32 <- U32, U32, U32: |imm, a, b, c| {
            extract(u64::from(a), 32, imm == 1, b, c) as u32
        }),
        Type::U64 | Type::S64 => each!(U64 <- U64, U32, U32: |imm, a, b, c| {
            extract(a, 64, imm == 1, b, c)
        }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu_with(f, &[ty, ty, Type::U32, Type::U32], u32::from(ty.is_signed()))
}

/// Decodes `bfi`. Its position is in `e`, because `Operands` has only `a`, `b` and `c` for sources.
pub(super) fn bfi(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(5..=5)?;
    let f: AluFn = match ty {
        Type::B32 => |regs, o, mask| {
            for_each_lane(mask, |lane| {
                let [a, b, pos, len] =
                    [o.a, o.b, o.e, o.c].map(|row| regs.words[usize::from(row)][lane]);
                let bits = insert(u64::from(a), u64::from(b), 32, pos, len);
                regs.words[usize::from(o.d)][lane] = bits as u32;
            });
        },
        Type::B64 => |regs, o, mask| {
            for_each_lane(mask, |lane| {
                let [a, b] = [o.a, o.b].map(|row| regs.doubles[usize::from(row)][lane]);
                let [pos, len] = [o.e, o.c].map(|row| regs.words[usize::from(row)][lane]);
                regs.doubles[usize::from(o.d)][lane] = insert(a, b, 64, pos, len);
            });
        },
        _ => return cx.wrong_type(ty),
    };
    let (a, b) = (cx.source(1, ty)?, cx.source(2, ty)?);
    let (e, c) = (cx.source(3, Type::U32)?, cx.source(4, Type::U32)?);
    let d = cx.destination(0, ty)?;
    Ok(Op::Alu { f, o: Operands { d, e, a, b, c, imm: 0 } })
}

/// Takes `.clamp` or `.wrap`, for operands past 31; `true` means `.wrap`.
fn wraps(cx: &mut Cx<'_, '_, '_>) -> Result<bool> {
    cx.require("a mode", &[("clamp", false), ("wrap", true)])
}

pub(super) fn bmsk(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let wrap = wraps(cx)?;
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    let f = each!(U32 <- U32, U32: |imm, a, b| bit_mask(a, b, imm == 1));
    cx.alu_with(f, &[ty; 3], u32::from(wrap))
}

pub(super) fn szext(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let wrap = wraps(cx)?;
    let ty = cx.ty()?;
    if !matches!(ty, Type::U32 | Type::S32) {
        return cx.wrong_type(ty);
    }
    let f = each!(U32 <- U32, U32: |imm, a, b| extend(a, b, imm & 1 == 1, imm & 2 == 2));
    cx.alu_with(f, &[ty, ty, Type::U32], u32::from(ty.is_signed()) | u32::from(wrap) << 1)
}

/// Reads the types of the factors of `dp2a` and `dp4a`. Bits 0 and 1 of the number say which are signed.
fn factors(cx: &mut Cx<'_, '_, '_>) -> Result<(Type, Type, u32)> {
    let (a, b) = (cx.ty()?, cx.ty()?);
    if ![a, b].iter().all(|ty| matches!(ty, Type::U32 | Type::S32)) {
        return cx.wrong_type(a);
    }
    Ok((a, b, u32::from(a.is_signed()) | u32::from(b.is_signed()) << 1))
}

/// Decodes `dp2a`: products of two 16-bit numbers with the lower or the upper two bytes of a word.
pub(super) fn dp2a(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let upper = cx.require("a half", &[("lo", false), ("hi", true)])?;
    let (a, b, signs) = factors(cx)?;
    let f = each!(U32 <- U32, U32, U32: |imm, a, b, c: u32| {
        let b = if imm & 4 == 4 { b >> 16 } else { b };
        c.wrapping_add(dot2(a, b, imm & 1 == 1, imm & 2 == 2))
    });
    cx.alu_with(f, &[Type::U32, a, b, Type::U32], signs | u32::from(upper) << 2)
}

/// Decodes `cvt.pack`: two numbers, limited to a narrow type, below the lower bits of a third operand if
/// there is room.
pub(super) fn cvt_pack(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.take("pack");
    if !cx.take("sat") {
        return Err("`cvt.pack` needs `.sat`".to_owned());
    }
    let narrow = [
        ("u16", (16, false)),
        ("s16", (16, true)),
        ("u8", (8, false)),
        ("s8", (8, true)),
        ("u4", (4, false)),
        ("s4", (4, true)),
        ("u2", (2, false)),
        ("s2", (2, true)),
    ];
    let (bits, is_signed) = cx.require("a narrow type", &narrow)?;
    let ty = cx.ty()?;
    if ty != Type::S32 {
        return cx.wrong_type(ty);
    }
    let imm = bits | u32::from(is_signed) << 8;
    if bits == 16 {
        let f = each!(U32 <- U32, U32: |imm, a, b| pack(a, b, 0, imm & 0xff, imm >> 8 == 1));
        return cx.alu_with(f, &[Type::U32, ty, ty], imm);
    }
    let rest = cx.ty()?;
    if rest != Type::B32 {
        return cx.wrong_type(rest);
    }
    let f = each!(U32 <- U32, U32, U32: |imm, a, b, c: u32| pack(a, b, c, imm & 0xff, imm >> 8 == 1));
    cx.alu_with(f, &[Type::U32, ty, ty, rest], imm)
}

pub(super) fn dp4a(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (a, b, signs) = factors(cx)?;
    let f = each!(U32 <- U32, U32, U32: |imm, a, b, c: u32| {
        c.wrapping_add(dot4(a, b, imm & 1 == 1, imm & 2 == 2))
    });
    cx.alu_with(f, &[Type::U32, a, b, Type::U32], signs)
}
