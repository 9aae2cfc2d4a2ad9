//! Expected results, computed with `rustc_apfloat`. No code is shared with the simulator.
//!
//! The host computes two things: a first approximation of `sqrt`, whose square is then compared exactly
//! with the operand, and the transcendental functions, in double precision.

mod arithmetic;
mod convert;

use arithmetic::arithmetic;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};

use super::cases::accuracy::Accuracy;
use super::cases::instruction::{Instruction, Mode, Operation, Round, Shape, Ty};

impl From<Round> for rustc_apfloat::Round {
    fn from(round: Round) -> Self {
        match round {
            Round::Nearest => Self::NearestTiesToEven,
            Round::Zero => Self::TowardZero,
            Round::Down => Self::TowardNegative,
            Round::Up => Self::TowardPositive,
        }
    }
}

macro_rules! with_format {
    ($ty:expr, $function:ident($($argument:expr),*)) => {
        match $ty {
            Ty::F16 => $function::<Half>($($argument),*),
            Ty::Bf16 => $function::<BFloat>($($argument),*),
            Ty::F32 => $function::<Single>($($argument),*),
            _ => $function::<Double>($($argument),*),
        }
    };
}

use with_format;

pub(crate) fn expected(instruction: &Instruction, operands: [u64; 3]) -> u64 {
    let &Instruction { operation, from, to, mode, .. } = instruction;
    if let (Operation::Pack, Some(half)) = (operation, to.half()) {
        let [upper, lower, _] = operands.map(|bits| convert::convert(mode, half, from, bits));
        return upper << 16 | lower;
    }
    if operation == Operation::Convert {
        return convert::convert(mode, to, from, operands[0]);
    }
    match from.half() {
        None => one(instruction, from, operands),
        Some(half) => [0, 16].into_iter().fold(0, |word, at| {
            word | one(instruction, half, operands.map(|bits| bits >> at & 0xffff)) << at
        }),
    }
}

fn one(instruction: &Instruction, ty: Ty, operands: [u64; 3]) -> u64 {
    let Instruction { operation, to, mode, .. } = instruction;
    let shape = ty.shape().expect("a float");
    let flushed = operands.map(|bits| if mode.ftz { flush(shape, bits) } else { bits });
    match operation {
        Operation::CopySign => operands[0] & shape.sign() | operands[1] & (shape.sign() - 1),
        Operation::Select => {
            let chosen = with_format!(ty, compare("ge", flushed[2], 0));
            operands[usize::from(!chosen)]
        }
        Operation::Abs | Operation::Neg if shape.is_nan(flushed[0]) => {
            nan(instruction, ty, shape, flushed)
        }
        Operation::Abs => flushed[0] & (shape.sign() - 1),
        Operation::Neg => flushed[0] ^ shape.sign(),
        Operation::Compare(relation) => {
            let [a, b, _] = flushed;
            truth(*to, with_format!(ty, compare(relation, a, b)))
        }
        Operation::Property(name) => u64::from(with_format!(ty, property(name, operands[0]))),
        _ => {
            let result = with_format!(ty, arithmetic(instruction, shape, flushed));
            finish(*mode, shape, result.unwrap_or_else(|()| nan(instruction, ty, shape, flushed)))
        }
    }
}

fn truth(to: Ty, holds: bool) -> u64 {
    match to {
        _ if !holds => 0,
        Ty::Pred => 1,
        Ty::F32 => 1.0_f32.to_bits().into(),
        _ => u32::MAX.into(),
    }
}

fn flush(shape: Shape, bits: u64) -> u64 {
    if bits & shape.infinity() == 0 { bits & shape.sign() } else { bits }
}

/// Returns the NaN that arithmetic gives. Only double precision keeps a payload with its sign, even if
/// the instruction changes the sign. A division keeps the payload of its first NaN operand. Other
/// operations prefer the second operand to the third, and the third to the first.
fn nan(instruction: &Instruction, ty: Ty, shape: Shape, [a, b, c]: [u64; 3]) -> u64 {
    if instruction.accuracy == Accuracy::Upper {
        return 0x7fff_ffff << 32;
    }
    if ty != Ty::F64 {
        return shape.sign() - 1;
    }
    let order = if instruction.operation == Operation::Div { [a, b, c] } else { [b, c, a] };
    let kept = order.into_iter().find(|&bits| shape.is_nan(bits));
    kept.unwrap_or(shape.sign() | shape.infinity()) | 1 << (shape.fraction - 1)
}

fn finish(mode: Mode, shape: Shape, bits: u64) -> u64 {
    if shape.is_nan(bits) {
        return if mode.sat { 0 } else { bits };
    }
    let bits = if mode.ftz { flush(shape, bits) } else { bits };
    let one = (shape.bias() as u64) << shape.fraction;
    match bits & shape.sign() != 0 {
        true if mode.sat || mode.relu => 0,
        _ if mode.sat => bits.min(one),
        _ => bits,
    }
}

/// Returns whether a comparison holds. Relations that end in `u` also hold if an operand is a NaN.
fn compare<F: Float>(relation: &str, a: u64, b: u64) -> bool {
    let (a, b) = (F::from_bits(a.into()), F::from_bits(b.into()));
    let Some(order) = a.partial_cmp(&b) else {
        return relation == "nan" || relation.len() == 3 && relation.ends_with('u');
    };
    match &relation[..2] {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        _ => relation == "num",
    }
}

fn property<F: Float>(name: &str, bits: u64) -> bool {
    let value = F::from_bits(bits.into());
    match name {
        "finite" => value.is_finite(),
        "infinite" => value.is_infinite(),
        "number" => !value.is_nan(),
        "notanumber" => value.is_nan(),
        // The manual counts zeros as normal.
        "normal" => value.is_normal() || value.is_zero(),
        "subnormal" => value.is_denormal(),
        _ => panic!("no property {name}"),
    }
}
