//! Comparisons and selections.

use crate::ast::{Operand, Type};
use crate::lanes::float::{flush, flush_half, widen};
use crate::lanes::soft::{BRAIN, HALF};
use crate::lanes::{AluFn, CompareFn, alu, compare, each};
use crate::program::{Join, Op, Operands};

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// A comparison. Variants that end in `U` also hold if an operand is a NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    EqU,
    NeU,
    LtU,
    LeU,
    GtU,
    GeU,
    Number,
    Nan,
    /// The comparisons `lo`, `ls`, `hi` and `hs` are unsigned, regardless of the type.
    Below,
    BelowEqual,
    Above,
    AboveEqual,
}

const RELATIONS: [(&str, Relation); 18] = [
    ("eq", Relation::Eq),
    ("ne", Relation::Ne),
    ("lt", Relation::Lt),
    ("le", Relation::Le),
    ("gt", Relation::Gt),
    ("ge", Relation::Ge),
    ("equ", Relation::EqU),
    ("neu", Relation::NeU),
    ("ltu", Relation::LtU),
    ("leu", Relation::LeU),
    ("gtu", Relation::GtU),
    ("geu", Relation::GeU),
    ("num", Relation::Number),
    ("nan", Relation::Nan),
    ("lo", Relation::Below),
    ("ls", Relation::BelowEqual),
    ("hi", Relation::Above),
    ("hs", Relation::AboveEqual),
];

/// Selects a comparison of integers that depends on their sign.
macro_rules! ordered {
    ($view:ident, $relation:expr) => {
        match $relation {
            Relation::Lt | Relation::Below => Some(compare!($view: |a, b| a < b)),
            Relation::Le | Relation::BelowEqual => Some(compare!($view: |a, b| a <= b)),
            _ => None,
        }
    };
}

macro_rules! integers {
    ($view:ident, $relation:expr) => {
        match $relation {
            Relation::Eq => Some(compare!($view: |a, b| a == b)),
            Relation::Ne => Some(compare!($view: |a, b| a != b)),
            relation => ordered!($view, relation),
        }
    };
}

/// Selects the comparison of two floating-point operands after `$f` has been applied to each.
macro_rules! floats {
    ($view:ident, $relation:expr, $f:expr) => {
        match $relation {
            Relation::Eq => Some(compare!($view: |a, b| $f(a) == $f(b))),
            Relation::Ne => Some(compare!($view: |a, b| ($f(a) < $f(b)) | ($f(a) > $f(b)))),
            Relation::Lt => Some(compare!($view: |a, b| $f(a) < $f(b))),
            Relation::Le => Some(compare!($view: |a, b| $f(a) <= $f(b))),
            Relation::EqU => {
                Some(compare!($view: |a, b| ($f(a) == $f(b)) | $f(a).is_nan() | $f(b).is_nan()))
            }
            Relation::NeU => Some(compare!($view: |a, b| $f(a) != $f(b))),
            Relation::LtU => {
                Some(compare!($view: |a, b| ($f(a) < $f(b)) | $f(a).is_nan() | $f(b).is_nan()))
            }
            Relation::LeU => {
                Some(compare!($view: |a, b| ($f(a) <= $f(b)) | $f(a).is_nan() | $f(b).is_nan()))
            }
            Relation::Number => Some(compare!($view: |a, b| !$f(a).is_nan() & !$f(b).is_nan())),
            Relation::Nan => Some(compare!($view: |a, b| $f(a).is_nan() | $f(b).is_nan())),
            _ => None,
        }
    };
}

/// Returns the function of a comparison that is not one of [`Relation::exchanged`].
fn comparison(cx: &mut Cx<'_, '_, '_>, relation: Relation, ftz: bool, ty: Type) -> Result<CompareFn> {
    let by_sign = matches!(relation, Relation::Lt | Relation::Le);
    let found = match ty {
        Type::S16 if by_sign => ordered!(I16, relation),
        Type::S32 if by_sign => ordered!(I32, relation),
        Type::S64 if by_sign => ordered!(I64, relation),
        Type::B16 | Type::U16 | Type::S16 => integers!(U16, relation),
        Type::B32 | Type::U32 | Type::S32 => integers!(U32, relation),
        Type::B64 | Type::U64 | Type::S64 => integers!(U64, relation),
        Type::F32 if ftz => floats!(F32, relation, flush),
        Type::F32 => floats!(F32, relation, std::convert::identity::<f32>),
        Type::F64 if !ftz => floats!(F64, relation, std::convert::identity::<f64>),
        Type::F16 if ftz => floats!(U16, relation, |a| widen(HALF, flush_half(a))),
        Type::F16 => floats!(U16, relation, |a| widen(HALF, a)),
        Type::Bf16 if !ftz => floats!(U16, relation, |a| widen(BRAIN, a)),
        _ => None,
    };
    match found {
        Some(f) => Ok(f),
        None => cx.wrong_type(ty),
    }
}

/// Decodes a comparison and its sources `a` and `b`. `a > b` is decoded as `b < a`, so that each pair of
/// relations has one function.
fn compared(
    cx: &mut Cx<'_, '_, '_>,
    relation: Relation,
    ftz: bool,
    ty: Type,
    sources: usize,
) -> Result<(CompareFn, u16, u16)> {
    let exchanged = relation.exchanged();
    let f = comparison(cx, exchanged.unwrap_or(relation), ftz, ty)?;
    cx.arity(sources + 1..=sources + 1)?;
    let (a, b) = (cx.source(1, ty)?, cx.source(2, ty)?);
    Ok(if exchanged.is_some() { (f, b, a) } else { (f, a, b) })
}

fn join(cx: &mut Cx<'_, '_, '_>) -> Option<&'static str> {
    cx.choose(&[("and", "and"), ("or", "or"), ("xor", "xor")])
}

fn joined(operator: Option<&str>, negate: bool) -> Join {
    match operator {
        Some("and") => Join::And { negate },
        Some("or") => Join::Or { negate },
        Some(_) => Join::Xor { negate },
        None => Join::None,
    }
}

pub(super) fn setp(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let relation = cx.require("a comparison", &RELATIONS)?;
    let operator = join(cx);
    let (ftz, ty) = (cx.take("ftz"), cx.ty()?);
    let sources = if operator.is_some() { 3 } else { 2 };
    let (f, a, b) = compared(cx, relation, ftz, ty, sources)?;
    let (c, negate) = if operator.is_some() { cx.predicate(3)? } else { (0, false) };
    let (d, e) = match cx.operand(0)? {
        Operand::Pair(first, second) => {
            let d = predicate_target(cx, first)?;
            (d, Some(predicate_target(cx, second)?))
        }
        single => (predicate_target(cx, single)?, None),
    };
    // Predicate 0 is true in every lane and never written, so as a destination it stands for none.
    let o = Operands { d, e: e.unwrap_or(0), a, b, c, imm: 0 };
    Ok(Op::Compare { f, o, join: joined(operator, negate) })
}

/// Returns the register-file row of a predicate destination, or 0 for the sink `_`.
fn predicate_target<'s>(cx: &mut Cx<'_, '_, 's>, operand: &Operand<'s>) -> Result<u16> {
    match operand {
        Operand::Sink => Ok(0),
        _ => cx.destination_of(operand, Type::Pred),
    }
}

/// Decodes `set`, which gives all ones or 1.0 where the comparison holds, else 0.
pub(super) fn set(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let relation = cx.require("a comparison", &RELATIONS)?;
    let operator = join(cx);
    let (ftz, to) = (cx.take("ftz"), cx.ty()?);
    let ty = cx.ty()?;
    if matches!(ty, Type::F16x2 | Type::Bf16x2) && operator.is_none() {
        return set_pair(cx, relation, ftz, (to, ty));
    }
    let truth = match to {
        Type::U32 | Type::S32 => u32::MAX,
        Type::U16 | Type::S16 => 0xffff,
        Type::F32 => 1.0_f32.to_bits(),
        Type::F16 => F16_ONE,
        Type::Bf16 => BF16_ONE,
        _ => return cx.wrong_type(to),
    };
    let sources = if operator.is_some() { 3 } else { 2 };
    let (f, a, b) = compared(cx, relation, ftz, ty, sources)?;
    let (c, negate) = if operator.is_some() { cx.predicate(3)? } else { (0, false) };
    let d = cx.destination(0, to)?;
    Ok(Op::Set { f, o: Operands { d, e: 0, a, b, c, imm: truth }, join: joined(operator, negate) })
}

const F16_ONE: u32 = 0x3c00;
const BF16_ONE: u32 = 0x3f80;

/// Decodes `set` for a pair of 16-bit floats: all ones or 1.0 in each half. `imm` encodes the relation,
/// the flushing of subnormals, and the value for true.
fn set_pair(
    cx: &mut Cx<'_, '_, '_>,
    relation: Relation,
    ftz: bool,
    (to, ty): (Type, Type),
) -> Result<Op> {
    let brain = ty == Type::Bf16x2;
    let truth = match to {
        Type::U32 | Type::S32 => 0xffff,
        Type::F16x2 if !brain => F16_ONE,
        Type::Bf16x2 if brain => BF16_ONE,
        _ => return cx.wrong_type(to),
    };
    if ftz && brain || relation >= Relation::Below {
        return cx.wrong_type(ty);
    }
    let imm = truth | (relation as u32) << 16 | u32::from(ftz) << 24;
    let f = if brain { each!(U32 <- U32, U32: brains) } else { each!(U32 <- U32, U32: halves) };
    cx.alu_with(f, &[to, ty, ty], imm)
}

fn halves(imm: u32, a: u32, b: u32) -> u32 {
    let ftz = imm >> 24 & 1 == 1;
    pair(imm, a, b, |half| widen(HALF, if ftz { flush_half(half) } else { half }))
}

fn brains(imm: u32, a: u32, b: u32) -> u32 {
    pair(imm, a, b, |half| widen(BRAIN, half))
}

fn pair(imm: u32, a: u32, b: u32, value: impl Fn(u16) -> f32) -> u32 {
    let one = |shift: u32| {
        let (a, b) = (value((a >> shift) as u16), value((b >> shift) as u16));
        let holds = RELATIONS[(imm >> 16 & 0xff) as usize].1.holds(a, b);
        if holds { (imm & 0xffff) << shift } else { 0 }
    };
    one(0) | one(16)
}

impl Relation {
    /// Returns the relation with exchanged operands of one that holds if the first operand is greater.
    fn exchanged(self) -> Option<Self> {
        Some(match self {
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            Self::GtU => Self::LtU,
            Self::GeU => Self::LeU,
            Self::Above => Self::Below,
            Self::AboveEqual => Self::BelowEqual,
            _ => return None,
        })
    }

    fn holds(self, a: f32, b: f32) -> bool {
        let unordered = a.is_nan() || b.is_nan();
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b && !unordered,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
            Self::EqU => a == b || unordered,
            Self::NeU => a != b,
            Self::LtU => a < b || unordered,
            Self::LeU => a <= b || unordered,
            Self::GtU => a > b || unordered,
            Self::GeU => a >= b || unordered,
            Self::Number => !unordered,
            Self::Nan => unordered,
            Self::Below | Self::BelowEqual | Self::Above | Self::AboveEqual => false,
        }
    }
}

pub(super) fn selp(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ty = cx.ty()?;
    cx.arity(4..=4)?;
    let f: AluFn = match ty.bits() {
        16 | 32 => alu!(U32 <- U32, U32, Pred: |a, b, p| if p { a } else { b }),
        64 => alu!(U64 <- U64, U64, Pred: |a, b, p| if p { a } else { b }),
        _ => return cx.wrong_type(ty),
    };
    let (a, b) = (cx.source(1, ty)?, cx.source(2, ty)?);
    let (c, negate) = cx.predicate(3)?;
    let d = cx.destination(0, ty)?;
    let (a, b) = if negate { (b, a) } else { (a, b) };
    Ok(Op::Alu { f, o: Operands { d, a, b, c, ..Operands::default() } })
}

/// Decodes `slct`, which selects the first source where the third is not negative, else the second.
pub(super) fn slct(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ftz = cx.take("ftz");
    let ty = cx.ty()?;
    let by = cx.ty()?;
    let f = match (ty.bits(), by) {
        (16, Type::S32) => alu!(U16 <- U16, U16, I32: |a, b, c| if c >= 0 { a } else { b }),
        (32, Type::S32) => alu!(U32 <- U32, U32, I32: |a, b, c| if c >= 0 { a } else { b }),
        (64, Type::S32) => alu!(U64 <- U64, U64, I32: |a, b, c| if c >= 0 { a } else { b }),
        (16, Type::F32) if ftz => {
            alu!(U16 <- U16, U16, F32: |a, b, c| if flush(c) >= 0.0 { a } else { b })
        }
        (32, Type::F32) if ftz => {
            alu!(U32 <- U32, U32, F32: |a, b, c| if flush(c) >= 0.0 { a } else { b })
        }
        (64, Type::F32) if ftz => {
            alu!(U64 <- U64, U64, F32: |a, b, c| if flush(c) >= 0.0 { a } else { b })
        }
        (16, Type::F32) => alu!(U16 <- U16, U16, F32: |a, b, c| if c >= 0.0 { a } else { b }),
        (32, Type::F32) => alu!(U32 <- U32, U32, F32: |a, b, c| if c >= 0.0 { a } else { b }),
        (64, Type::F32) => alu!(U64 <- U64, U64, F32: |a, b, c| if c >= 0.0 { a } else { b }),
        _ => return cx.wrong_type(ty),
    };
    cx.alu(f, &[ty, ty, ty, by])
}
