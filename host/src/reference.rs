//! What a reduction must give, computed on the CPU by code that shares nothing with the kernels.
//!
//! Integers are exact, with the GPU's wrap-around. Floats are summed in double precision with
//! Neumaier's compensation, far more exact than any kernel. A float sum on the GPU may differ from
//! it by rounding alone, and by how much is known beforehand: if an element takes part in at most d
//! additions, the error is at most d·u / (1 - d·u) · Σ|x| with u the unit roundoff of the type
//! (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, section 4.2). When all
//! elements are integers and Σ|x| fits the significand, every order of additions is exact and the
//! allowed error is 0.

use crate::{Data, Error, Op, Result, Value};

/// The right answer, and what is needed to say how far off a float may land.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The right answer in the element type, for sums of floats rounded once.
    pub value: Value,
    /// For float sums the answer before rounding, else the value as a double.
    exact: f64,
    /// For float sums what one more addition on an element's path may add to the error.
    error_unit: Option<ErrorUnit>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ErrorUnit {
    roundoff: f64,
    absolute_sum: f64,
}

/// Verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Whether the result is right.
    pub ok: bool,
    /// Distance from the right answer; 0 for equal values.
    pub error: f64,
    /// Largest distance allowed.
    pub allowed: f64,
}

impl Expected {
    /// The answer for these elements.
    ///
    /// # Errors
    /// [`Error::NoValue`] for the minimum or maximum of nothing.
    pub fn of(op: Op, data: &Data) -> Result<Self> {
        if data.is_empty() && !op.has_empty_value() {
            return Err(Error::NoValue { statistic: op.into() });
        }
        Ok(match data {
            Data::I32(v) => {
                Self::exactly(Value::I32(integer(op, v, i32::wrapping_add, i32::wrapping_mul)))
            }
            Data::U32(v) => {
                Self::exactly(Value::U32(integer(op, v, u32::wrapping_add, u32::wrapping_mul)))
            }
            Data::I64(v) => {
                Self::exactly(Value::I64(integer(op, v, i64::wrapping_add, i64::wrapping_mul)))
            }
            Data::U64(v) => {
                Self::exactly(Value::U64(integer(op, v, u64::wrapping_add, u64::wrapping_mul)))
            }
            Data::F16(v) => {
                float(op, v.iter().map(|&x| x.into()), SINGLE, |x| Value::F16(half::f16::from_f64(x)))
            }
            Data::Bf16(v) => {
                float(op, v.iter().map(|&x| x.into()), SINGLE, |x| Value::Bf16(half::bf16::from_f64(x)))
            }
            Data::F32(v) => float(op, v.iter().map(|&x| x.into()), SINGLE, |x| Value::F32(x as f32)),
            Data::F64(v) => float(op, v.iter().copied(), DOUBLE, Value::F64),
        })
    }

    fn exactly(value: Value) -> Self {
        Self { value, exact: value.to_f64(), error_unit: None }
    }

    /// Judges a result of a computation in which an element takes part in at most `depth` additions.
    pub fn check(&self, result: Value, depth: u64) -> Check {
        let allowed = self.error_unit.map_or(0.0, |unit| unit.bound(depth));
        let same = result == self.value || (is_nan(result) && is_nan(self.value));
        let error = if same { 0.0 } else { (result.to_f64() - self.exact).abs() };
        // A NaN fails the comparison; an infinity must have come out as itself.
        let close = self.error_unit.is_some() && self.exact.is_finite() && error <= allowed;
        Check { ok: same || close, error, allowed }
    }
}

impl ErrorUnit {
    fn bound(self, depth: u64) -> f64 {
        let growth = depth as f64 * self.roundoff;
        if growth >= 1.0 { f64::INFINITY } else { growth / (1.0 - growth) * self.absolute_sum }
    }
}

/// Unit roundoff of single precision, in which half-precision types are accumulated too.
const SINGLE: f64 = f32::EPSILON as f64 / 2.0;
/// Unit roundoff of double precision.
const DOUBLE: f64 = f64::EPSILON / 2.0;

fn is_nan(value: Value) -> bool {
    value.to_f64().is_nan()
}

fn integer<T: Copy + Ord + Default>(
    op: Op,
    values: &[T],
    add: impl Fn(T, T) -> T,
    multiply: impl Fn(T, T) -> T,
) -> T {
    match op {
        Op::Sum => values.iter().fold(T::default(), |sum, &x| add(sum, x)),
        Op::SumSq => values.iter().fold(T::default(), |sum, &x| add(sum, multiply(x, x))),
        Op::Min => *values.iter().min().expect("checked: not empty"),
        Op::Max => *values.iter().max().expect("checked: not empty"),
    }
}

fn float(
    op: Op,
    values: impl Iterator<Item = f64>,
    roundoff: f64,
    round: impl Fn(f64) -> Value,
) -> Expected {
    match op {
        Op::Sum => float_sum(values.map(|x| (x, 0.0)), roundoff, round),
        // A square's rounding error is exact as a fused multiply-add: x² = square + error.
        Op::SumSq => float_sum(values.map(|x| (x * x, x.mul_add(x, -(x * x)))), roundoff, round),
        Op::Min => Expected::exactly(round(extreme(values, f64::min))),
        Op::Max => Expected::exactly(round(extreme(values, f64::max))),
    }
}

/// Minimum or maximum in which NaN wins, as in numpy.
fn extreme(values: impl Iterator<Item = f64>, pick: impl Fn(f64, f64) -> f64) -> f64 {
    values
        .reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) })
        .expect("checked: not empty")
}

/// Sums numbers that are each given as a double and what it lacks.
fn float_sum(
    values: impl Iterator<Item = (f64, f64)>,
    roundoff: f64,
    round: impl Fn(f64) -> Value,
) -> Expected {
    let (mut sum, mut lost, mut absolute_sum, mut integers) = (0.0_f64, 0.0_f64, 0.0_f64, true);
    for (x, lacks) in values {
        let next = sum + x;
        // What the addition above rounded away, taken from the smaller of its operands.
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        lost += lacks;
        sum = next;
        absolute_sum += x.abs();
        integers &= x.fract() == 0.0;
    }
    // An overflow or an infinity leaves NaN in the compensation: then the plain sum is the answer.
    let exact = if sum.is_finite() { sum + lost } else { sum };
    let exact_in_any_order = integers && absolute_sum <= 1.0 / roundoff;
    let roundoff = if exact_in_any_order { 0.0 } else { roundoff };
    Expected { value: round(exact), exact, error_unit: Some(ErrorUnit { roundoff, absolute_sum }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statistic;

    fn sum(values: Vec<f32>) -> Expected {
        Expected::of(Op::Sum, &Data::F32(values)).unwrap()
    }

    #[test]
    fn integers_wrap_around() {
        let data = Data::I32(vec![i32::MAX, 1, 1]);
        assert_eq!(Expected::of(Op::Sum, &data).unwrap().value, Value::I32(i32::MIN + 1));
    }

    #[test]
    fn squares_are_summed() {
        let of = |data: Data| Expected::of(Op::SumSq, &data).unwrap().value;
        assert_eq!(of(Data::I32(vec![3, -4, 1 << 16])), Value::I32(25));
        assert_eq!(of(Data::F32(vec![0.5, -1.5])), Value::F32(2.5));
        // The squares alone round to 1e200 each; what they lack is what remains.
        let x: f64 = 1e100 + 1e85;
        assert_eq!(of(Data::F64(vec![x])), Value::F64(x * x));
        assert_eq!(of(Data::F32(vec![])), Value::F32(0.0));
    }

    #[test]
    fn compensation_keeps_what_a_plain_sum_loses() {
        let data = Data::F64(vec![1e100, 1.0, -1e100]);
        assert_eq!(Expected::of(Op::Sum, &data).unwrap().value, Value::F64(1.0));
    }

    #[test]
    fn nothing_has_a_sum_but_no_minimum() {
        let none = Data::F32(Vec::new());
        assert_eq!(Expected::of(Op::Sum, &none).unwrap().value, Value::F32(0.0));
        assert!(matches!(
            Expected::of(Op::Min, &none),
            Err(Error::NoValue { statistic: Statistic::Min })
        ));
    }

    #[test]
    fn nan_wins_and_must_come_out() {
        let expected = Expected::of(Op::Min, &Data::F32(vec![1.0, f32::NAN, -1.0])).unwrap();
        assert!(expected.check(Value::F32(f32::NAN), 1).ok);
        assert!(!expected.check(Value::F32(-1.0), 1).ok);
        let expected = Expected::of(Op::Max, &Data::F32(vec![1.0])).unwrap();
        assert!(!expected.check(Value::F32(f32::NAN), 1).ok);
    }

    #[test]
    fn infinity_must_come_out_too() {
        let expected = sum(vec![f32::INFINITY, 1.0]);
        assert!(expected.check(Value::F32(f32::INFINITY), 4).ok);
        assert!(!expected.check(Value::F32(f32::MAX), 4).ok);
        assert!(!expected.check(Value::F32(f32::NAN), 4).ok);
    }

    #[test]
    fn small_integers_leave_no_room_for_error() {
        let expected = sum(vec![3.0; 1000]);
        assert!(expected.check(Value::F32(3000.0), 1000).ok);
        assert!(!expected.check(Value::F32(2999.9998), 1000).ok);
    }

    #[test]
    fn a_float_may_be_off_by_rounding_and_no_more() {
        let expected = sum(vec![0.1; 1024]);
        let check = expected.check(Value::F32(102.4), 10);
        assert!(check.ok && check.allowed > 0.0 && check.allowed < 1e-4, "{check:?}");
        assert!(!expected.check(Value::F32(102.3), 10).ok, "a dropped element is found");
        assert!(!expected.check(Value::F32(f32::NAN), 10).ok);
    }

    #[test]
    fn integers_are_equal_or_wrong() {
        let expected = Expected::of(Op::Sum, &Data::I64(vec![i64::MAX])).unwrap();
        // Equal as doubles, yet another integer.
        assert!(!expected.check(Value::I64(i64::MAX - 1), 1).ok);
    }
}
