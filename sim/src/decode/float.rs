//! Floating-point arithmetic.
//!
//! Round-to-nearest forms in single and double precision use the host's arithmetic; all others use
//! `lanes::soft`.

use crate::ast::Type;
use crate::lanes::float::{
    self, Arithmetic, Extreme, Function, Mode, Property, canonical, flush, flush_half, flush_halves,
    flush_rounded, propagate, signed_half, signed_halves, signed64, soft_constant, soft_doubles,
    soft_words,
};
use crate::lanes::soft::{BRAIN, DOUBLE, HALF, Round, SINGLE};
use crate::lanes::{AluFn, alu, each, for_each_lane, fused};
use crate::program::Op;

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

pub(super) const ROUNDS: [(&str, Round); 4] =
    [("rn", Round::Nearest), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];

fn mode(cx: &mut Cx<'_, '_, '_>) -> Mode {
    Mode {
        round: cx.choose(&ROUNDS).unwrap_or(Round::Nearest),
        ftz: cx.take("ftz"),
        sat: cx.take("sat"),
        relu: cx.take("relu"),
        xorsign: false,
    }
}

/// Returns whether the host's arithmetic gives the right result, apart from flushing by `.ftz`.
fn is_native(mode: Mode) -> bool {
    mode.round == Round::Nearest && !mode.sat && !mode.relu
}

/// Decodes an operation for the software implementation; `arity` is the number of sources.
fn soft(
    cx: &mut Cx<'_, '_, '_>,
    operation: Arithmetic,
    mode: Mode,
    ty: Type,
    arity: usize,
) -> Result<Op> {
    let f = match (ty, arity) {
        (Type::F64, _) if mode.ftz || mode.sat || mode.relu => return cx.wrong_type(ty),
        (Type::F64, 1) => each!(U64 <- U64: |imm, a| soft_doubles(imm, [a, 0, 0])),
        (Type::F64, 2) => each!(U64 <- U64, U64: |imm, a, b| soft_doubles(imm, [a, b, 0])),
        (Type::F64, _) => each!(U64 <- U64, U64, U64: |imm, a, b, c| soft_doubles(imm, [a, b, c])),
        (_, 1) => each!(U32 <- U32: |imm, a| soft_words(imm, [a, 0, 0])),
        (_, 2) => each!(U32 <- U32, U32: |imm, a, b| soft_words(imm, [a, b, 0])),
        _ => each!(U32 <- U32, U32, U32: |imm, a, b, c| soft_words(imm, [a, b, c])),
    };
    cx.alu_with(f, &[ty; 4][..=arity], soft_constant(operation, mode, ty))
}

/// Creates the host's forms of a two-operand operation: single precision, single precision with
/// flushing, double precision. `$first` orders the operands of doubles: the first NaN is propagated.
macro_rules! native2 {
    ($f:expr, $g:expr, $first:expr) => {
        [
            alu!(F32 <- F32, F32: |a: f32, b: f32| canonical($f(a, b))),
            alu!(F32 <- F32, F32: |a: f32, b: f32| {
                let (a, b) = (flush(a), flush(b));
                flush_rounded(canonical($f(a, b)), $g(f64::from(a), f64::from(b)))
            }),
            alu!(F64 <- F64, F64: |a: f64, b: f64| propagate($g(a, b), $first(a, b))),
        ]
    };
}

/// Returns the operands in the order in which divisions (instruction sequences) propagate NaNs.
#[inline(always)]
fn first_first(a: f64, b: f64) -> [f64; 3] {
    [a, b, 0.0]
}

/// Returns the operands in the order in which single hardware instructions propagate NaNs.
#[inline(always)]
fn second_first(a: f64, b: f64) -> [f64; 3] {
    [b, a, 0.0]
}

fn binary(cx: &mut Cx<'_, '_, '_>, operation: Arithmetic, native: [AluFn; 3]) -> Result<Op> {
    let mode = mode(cx);
    let ty = cx.ty()?;
    match ty {
        Type::F32 if is_native(mode) => cx.alu(native[usize::from(mode.ftz)], &[ty; 3]),
        Type::F64 if is_native(mode) && !mode.ftz => cx.alu(native[2], &[ty; 3]),
        _ => soft(cx, operation, mode, ty, 2),
    }
}

pub(super) fn add(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    binary(cx, Arithmetic::Add, native2!(|a: f32, b: f32| a + b, |a: f64, b: f64| a + b, second_first))
}

pub(super) fn sub(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    binary(cx, Arithmetic::Sub, native2!(|a: f32, b: f32| a - b, |a: f64, b: f64| a - b, second_first))
}

pub(super) fn mul(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    binary(cx, Arithmetic::Mul, native2!(|a: f32, b: f32| a * b, |a: f64, b: f64| a * b, second_first))
}

/// Decodes `div`. The approximate forms give the quotient rounded to nearest.
pub(super) fn div(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    if cx.take("approx") {
        let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
        let f = match (ty, ftz) {
            (Type::F32, false) => alu!(F32 <- F32, F32: float::quotient),
            (Type::F32, true) => {
                alu!(F32 <- F32, F32: |a, b| flush(float::quotient(flush(a), flush(b))))
            }
            _ => return cx.wrong_type(ty),
        };
        return cx.alu(f, &[ty; 3]);
    }
    let _approximate = cx.take("full");
    let native = native2!(|a: f32, b: f32| a / b, |a: f64, b: f64| a / b, first_first);
    binary(cx, Arithmetic::Div, native)
}

pub(super) fn fma(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let mode = mode(cx);
    let ty = cx.ty()?;
    let f = match ty {
        Type::F32 if is_native(mode) && mode.ftz => alu!(F32 <- F32, F32, F32: |a, b, c| {
            let wide = float::fma_to_odd(flush(a), flush(b), flush(c));
            flush_rounded(canonical(wide as f32), wide)
        }),
        Type::F32 if is_native(mode) => {
            fused!(F32 <- F32, F32, F32: |fused, a, b, c| canonical(float::fma(fused, a, b, c)))
        }
        Type::F64 if is_native(mode) && !mode.ftz => {
            alu!(F64 <- F64, F64, F64: |a: f64, b, c| propagate(a.mul_add(b, c), [b, c, a]))
        }
        _ => return soft(cx, Arithmetic::Fma, mode, ty, 3),
    };
    cx.alu(f, &[ty; 4])
}

macro_rules! halves_signed {
    ($cx:expr, $ty:expr, $ftz:expr, $f:expr) => {{
        let f = match ($ty, $ftz) {
            (Type::F16, false) => alu!(U16 <- U16: |a: u16| signed_half(HALF, a, $f)),
            (Type::Bf16, false) => alu!(U16 <- U16: |a: u16| signed_half(BRAIN, a, $f)),
            (Type::F16x2, false) => alu!(U32 <- U32: |a: u32| signed_halves(HALF, a, $f)),
            (Type::Bf16x2, false) => alu!(U32 <- U32: |a: u32| signed_halves(BRAIN, a, $f)),
            (Type::F16, true) => alu!(U16 <- U16: |a: u16| signed_half(HALF, flush_half(a), $f)),
            (Type::F16x2, true) => {
                alu!(U32 <- U32: |a: u32| signed_halves(HALF, flush_halves(a), $f))
            }
            _ => return $cx.wrong_type($ty),
        };
        $cx.alu(f, &[$ty; 2])
    }};
}

pub(super) fn abs(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
    let f = match (ty, ftz) {
        (Type::F32, false) => alu!(F32 <- F32: |a: f32| canonical(a.abs())),
        (Type::F32, true) => alu!(F32 <- F32: |a: f32| canonical(flush(a).abs())),
        (Type::F64, false) => alu!(U64 <- U64: |a: u64| signed64(a, |a| a & (u64::MAX >> 1))),
        _ => return halves_signed!(cx, ty, ftz, |a: u16| a & 0x7fff),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn neg(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
    let f = match (ty, ftz) {
        (Type::F32, false) => alu!(F32 <- F32: |a: f32| canonical(-a)),
        (Type::F32, true) => alu!(F32 <- F32: |a: f32| canonical(-flush(a))),
        (Type::F64, false) => alu!(U64 <- U64: |a: u64| signed64(a, |a| a ^ (1 << 63))),
        _ => return halves_signed!(cx, ty, ftz, |a: u16| a ^ 0x8000),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn extreme(cx: &mut Cx<'_, '_, '_>, max: bool) -> Result<Op> {
    let (ftz, nan) = (cx.take("ftz"), cx.take("NaN"));
    let xorsign = cx.take("xorsign");
    if xorsign && !cx.take("abs") {
        return Err("`.xorsign` needs `.abs`".to_owned());
    }
    let ty = cx.ty()?;
    let three = cx.arity(3..=4)? == 4;
    let f = match (ty, max) {
        (Type::F32, _) if ftz || xorsign || three => {
            return extreme_modified(cx, Extreme { max, nan, xorsign, ftz }, three);
        }
        (Type::F32, false) if nan => alu!(F32 <- F32, F32: float::min_nan),
        (Type::F32, true) if nan => alu!(F32 <- F32, F32: float::max_nan),
        (Type::F32, false) => alu!(F32 <- F32, F32: float::min),
        (Type::F32, true) => alu!(F32 <- F32, F32: float::max),
        (Type::F64, _) if ftz || nan || xorsign || three => return cx.wrong_type(ty),
        (Type::F64, false) => alu!(F64 <- F64, F64: float::min64),
        (Type::F64, true) => alu!(F64 <- F64, F64: float::max64),
        _ if three => return cx.wrong_type(ty),
        _ => {
            let operation = match (max, nan) {
                (false, false) => Arithmetic::Min,
                (false, true) => Arithmetic::MinNan,
                (true, false) => Arithmetic::Max,
                (true, true) => Arithmetic::MaxNan,
            };
            return soft(cx, operation, Mode { ftz, xorsign, ..Mode::NEAREST }, ty, 2);
        }
    };
    cx.alu(f, &[ty; 3])
}

fn extreme_modified(cx: &mut Cx<'_, '_, '_>, how: Extreme, three: bool) -> Result<Op> {
    fn decoded(imm: u32) -> Extreme {
        let bit = |index: u32| imm >> index & 1 == 1;
        Extreme { max: bit(0), nan: bit(1), xorsign: bit(2), ftz: bit(3) }
    }
    let imm = u32::from(how.max)
        | u32::from(how.nan) << 1
        | u32::from(how.xorsign) << 2
        | u32::from(how.ftz) << 3;
    if three {
        let f = each!(F32 <- F32, F32, F32: |imm, a, b, c| {
            let how = decoded(imm);
            float::extreme(how, float::extreme(how, a, b), c)
        });
        return cx.alu_with(f, &[Type::F32; 4], imm);
    }
    let f = each!(F32 <- F32, F32: |imm, a, b| float::extreme(decoded(imm), a, b));
    cx.alu_with(f, &[Type::F32; 3], imm)
}

pub(super) fn rcp(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let approximate = cx.take("approx");
    let mode = mode(cx);
    let ty = cx.ty()?;
    let f = match ty {
        Type::F32 if is_native(mode) && mode.ftz => {
            alu!(F32 <- F32: |a: f32| {
                let a = flush(a);
                flush_rounded(canonical(1.0 / a), 1.0 / f64::from(a))
            })
        }
        Type::F32 if is_native(mode) => alu!(F32 <- F32: |a: f32| canonical(1.0 / a)),
        Type::F64 if approximate => each!(F64 <- F64: |_, a| upper_half(a, |a| 1.0 / a)),
        Type::F64 if is_native(mode) && !mode.ftz => {
            alu!(F64 <- F64: |a: f64| propagate(1.0 / a, [a, 0.0, 0.0]))
        }
        Type::F32 => {
            each!(U32 <- U32: |imm, a| soft_words(imm, [1.0_f32.to_bits(), a, 0]))
        }
        Type::F64 if !mode.ftz => {
            each!(U64 <- U64: |imm, a| soft_doubles(imm, [1.0_f64.to_bits(), a, 0]))
        }
        _ => return cx.wrong_type(ty),
    };
    cx.alu_with(f, &[ty; 2], soft_constant(Arithmetic::Div, mode, ty))
}

/// Computes an approximate double-precision form from the upper words alone: the operand's lower word is
/// ignored, and the result's lower word is zero. So a NaN with a payload only in the lower word counts
/// as an infinity. The resulting NaN has the upper word of the single-precision NaN.
fn upper_half(operand: f64, f: impl Fn(f64) -> f64) -> f64 {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    let flushed = |x: f64| DOUBLE.flush(x.to_bits() & UPPER);
    let result = f(f64::from_bits(flushed(operand)));
    f64::from_bits(if result.is_nan() { SINGLE.nan() << 32 } else { flushed(result) })
}

pub(super) fn sqrt(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let _approximate = cx.take("approx");
    let mode = mode(cx);
    let ty = cx.ty()?;
    let f = match ty {
        Type::F32 if is_native(mode) && mode.ftz => {
            alu!(F32 <- F32: |a: f32| flush(canonical(flush(a).sqrt())))
        }
        Type::F32 if is_native(mode) => alu!(F32 <- F32: |a: f32| canonical(a.sqrt())),
        Type::F64 if is_native(mode) && !mode.ftz => {
            alu!(F64 <- F64: |a: f64| propagate(a.sqrt(), [a, 0.0, 0.0]))
        }
        Type::F32 | Type::F64 => return soft(cx, Arithmetic::Sqrt, mode, ty, 1),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 2])
}

pub(super) fn rsqrt(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    cx.require("a precision", &[("approx", ())])?;
    let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
    if ty == Type::F64 {
        let f = if ftz {
            each!(F64 <- F64: |_, a| upper_half(a, |a| 1.0 / a.sqrt()))
        } else {
            each!(F64 <- F64: |_, a: f64| propagate(1.0 / a.sqrt(), [a, 0.0, 0.0]))
        };
        return cx.alu(f, &[ty; 2]);
    }
    approximate(cx, Function::ReciprocalRoot, ftz, ty)
}

fn approximate(cx: &mut Cx<'_, '_, '_>, function: Function, ftz: bool, ty: Type) -> Result<Op> {
    if ty != Type::F32 {
        return cx.wrong_type(ty);
    }
    let f = if ftz {
        each!(F32 <- F32: |imm, a| flush(Function::decode(imm).of_single(flush(a))))
    } else {
        each!(F32 <- F32: |imm, a| Function::decode(imm).of_single(a))
    };
    cx.alu_with(f, &[ty; 2], function as u32)
}

fn transcendental(
    cx: &mut Cx<'_, '_, '_>,
    function: Function,
    narrow: Option<Arithmetic>,
) -> Result<Op> {
    cx.require("a precision", &[("approx", ())])?;
    let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
    match (ty, narrow) {
        (Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2, Some(operation)) => {
            soft(cx, operation, Mode { ftz, ..Mode::NEAREST }, ty, 1)
        }
        _ => approximate(cx, function, ftz, ty),
    }
}

pub(super) fn sin(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transcendental(cx, Function::Sine, None)
}

pub(super) fn cos(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transcendental(cx, Function::Cosine, None)
}

pub(super) fn lg2(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transcendental(cx, Function::Logarithm, None)
}

pub(super) fn ex2(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transcendental(cx, Function::Power, Some(Arithmetic::Exp2))
}

pub(super) fn tanh(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    transcendental(cx, Function::HyperbolicTangent, Some(Arithmetic::Tanh))
}

/// Decodes `copysign`: the magnitude of the second source with the sign of the first.
pub(super) fn copysign(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    const TOP: u64 = 1 << 63;
    let f = match ty {
        Type::F32 => alu!(U32 <- U32, U32: |a, b| a & 0x8000_0000 | b & 0x7fff_ffff),
        Type::F64 => alu!(U64 <- U64, U64: |a, b| a & TOP | b & !TOP),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty; 3])
}

pub(super) fn testp(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    const PROPERTIES: [(&str, Property); 6] = [
        ("finite", Property::Finite),
        ("infinite", Property::Infinite),
        ("number", Property::Number),
        ("notanumber", Property::NotANumber),
        ("normal", Property::Normal),
        ("subnormal", Property::Subnormal),
    ];
    let property = cx.require("a property", &PROPERTIES)?;
    let ty = cx.ty()?;
    let f: AluFn = match ty {
        Type::F32 => |r, o, m| {
            let mut holds = 0;
            for_each_lane(m, |lane| {
                let bits = u64::from(r.words[usize::from(o.a)][lane]);
                holds |= u32::from(Property::decode(o.imm).holds(SINGLE, bits)) << lane;
            });
            let d = &mut r.predicates[usize::from(o.d)];
            *d = *d & !m | holds;
        },
        Type::F64 => |r, o, m| {
            let mut holds = 0;
            for_each_lane(m, |lane| {
                let bits = r.doubles[usize::from(o.a)][lane];
                holds |= u32::from(Property::decode(o.imm).holds(DOUBLE, bits)) << lane;
            });
            let d = &mut r.predicates[usize::from(o.d)];
            *d = *d & !m | holds;
        },
        _ => return cx.wrong_type(ty),
    };
    cx.alu_with(f, &[Type::Pred, ty], property as u32)
}
