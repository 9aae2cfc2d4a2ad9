//! Sums and sums of squares.

use num_traits::{AsPrimitive, WrappingAdd, WrappingMul, Zero};
use rayon::prelude::*;

use super::{Answer, Expected, PIECE, rounding::ErrorUnit};
use crate::{Data, Op, Value};

#[derive(Debug, Clone, Copy)]
pub(super) struct Precision {
    pub(super) roundoff: f64,
    /// The smallest positive number, which bounds the error of a product that underflows.
    pub(super) smallest: f64,
    pub(super) round: fn(f64) -> Value,
}

/// Single precision, which also accumulates half-precision elements.
pub(super) const SINGLE: Precision = Precision {
    roundoff: f32::EPSILON as f64 / 2.0,
    smallest: f32::from_bits(1) as f64,
    round: |x| Value::F32(x as f32),
};
pub(super) const DOUBLE: Precision =
    Precision { roundoff: f64::EPSILON / 2.0, smallest: f64::from_bits(1), round: Value::F64 };

pub(super) fn sum(op: Op, data: &Data, n: usize) -> Expected {
    match data {
        Data::I8(v) => integers(op, &v[..n], Value::I64),
        Data::U8(v) => integers(op, &v[..n], Value::U64),
        Data::I16(v) => integers(op, &v[..n], Value::I64),
        Data::U16(v) => integers(op, &v[..n], Value::U64),
        Data::I32(v) => integers(op, &v[..n], Value::I64),
        Data::U32(v) => integers(op, &v[..n], Value::U64),
        Data::I64(v) => integers(op, &v[..n], Value::I64),
        Data::U64(v) => integers(op, &v[..n], Value::U64),
        Data::F16(v) => floats(op, &v[..n], SINGLE),
        Data::Bf16(v) => floats(op, &v[..n], SINGLE),
        Data::F32(v) => floats(op, &v[..n], SINGLE),
        Data::F64(v) => floats(op, &v[..n], DOUBLE),
    }
}

/// Adds in the result's type, with wrap-around.
fn integers<T, W>(op: Op, values: &[T], value: fn(W) -> Value) -> Expected
where
    T: AsPrimitive<W> + Sync,
    W: Copy + Zero + WrappingAdd + WrappingMul + Send + 'static,
{
    let term = |x: &T| {
        let wide: W = x.as_();
        if op == Op::SumOfSquares { wide.wrapping_mul(&wide) } else { wide }
    };
    let Some((last, others)) = values.split_last() else {
        return Expected::exactly(op, 0, value(W::zero()), None);
    };
    let piece = |piece: &[T]| piece.iter().map(term).fold(W::zero(), |sum, x| sum.wrapping_add(&x));
    let rest = others.par_chunks(PIECE).map(piece).reduce(W::zero, |a, b| a.wrapping_add(&b));
    Expected::exactly(op, values.len(), value(rest.wrapping_add(&term(last))), Some(value(rest)))
}

#[derive(Debug, Clone, Copy)]
struct Compensated {
    sum: f64,
    lost: f64,
    absolute: f64,
    integers: bool,
}

impl Compensated {
    const NOTHING: Self = Self { sum: 0.0, lost: 0.0, absolute: 0.0, integers: true };

    fn add(self, other: Self) -> Self {
        let (a, b) = (self.sum, other.sum);
        let sum = a + b;
        // The rounding error of the addition, computed from the smaller operand.
        let rounded = if a.abs() >= b.abs() { (a - sum) + b } else { (b - sum) + a };
        Self {
            sum,
            lost: self.lost + rounded + other.lost,
            absolute: self.absolute + other.absolute,
            integers: self.integers && other.integers,
        }
    }

    fn of(op: Op, x: f64) -> Self {
        // A fused multiply-add gives a square's rounding error exactly: x² = square + error.
        let (sum, lost) =
            if op == Op::SumOfSquares { (x * x, x.mul_add(x, -(x * x))) } else { (x, 0.0) };
        Self { sum, lost, absolute: sum.abs(), integers: sum.fract() == 0.0 && lost == 0.0 }
    }

    /// After an overflow or an infinity the compensation is NaN, and the plain sum is the result.
    fn answer(self, precision: Precision) -> Answer {
        let exact = if self.sum.is_finite() { self.sum + self.lost } else { self.sum };
        Answer { value: (precision.round)(exact), exact }
    }
}

fn floats<T: Copy + Into<f64> + Sync>(op: Op, values: &[T], precision: Precision) -> Expected {
    let add = |sum: Compensated, &x: &T| sum.add(Compensated::of(op, x.into()));
    let piece = |piece: &[T]| piece.iter().fold(Compensated::NOTHING, add);
    let others = values.split_last().map_or(values, |(_, others)| others);
    let pieces: Vec<Compensated> = others.par_chunks(PIECE).map(piece).collect();
    let rest = pieces.into_iter().fold(Compensated::NOTHING, Compensated::add);
    let all = values.last().map_or(rest, |last| add(rest, last));
    let exact_in_any_order = all.integers && all.absolute <= 1.0 / precision.roundoff;
    let underflow = if op == Op::SumOfSquares { values.len() as f64 * precision.smallest } else { 0.0 };
    let (roundoff, underflow) =
        if exact_in_any_order { (0.0, 0.0) } else { (precision.roundoff, underflow) };
    let Answer { value, exact } = all.answer(precision);
    Expected {
        value,
        exact,
        error_unit: Some(ErrorUnit { roundoff, absolute_sum: all.absolute, underflow }),
        rest: (!values.is_empty()).then(|| rest.answer(precision)),
        op,
        n: values.len() as u64,
        drawn: false,
    }
}
