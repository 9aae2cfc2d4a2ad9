//! What a reduction must give, computed on the CPU by code that shares nothing with the kernels.
//!
//! Integers are exact, with the GPU's wrap-around. Floats are summed in double precision with
//! Neumaier's compensation, far more exact than any kernel. A float sum on the GPU may differ from
//! it by rounding alone, and by how much is known beforehand: if an element takes part in at most d
//! additions, the error is at most d·u / (1 - d·u) · Σ|x| with u the unit roundoff of the type
//! (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, section 4.2); a square may
//! underflow as well. When all elements are integers and Σ|x| fits the significand, every order of
//! additions is exact and the allowed error is 0.
//!
//! All processors work on it. The elements are cut in the same places on every machine, and the pieces'
//! results combined in their order, so that the same elements have the same answer everywhere.

use num_traits::{AsPrimitive, WrappingAdd, WrappingMul, Zero};
use rayon::prelude::*;

use crate::{Data, Error, Op, Result, Scalar, Value};

/// The right answer, and what is needed to say how far off a float may land.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The right answer in the type of [`Op::result`], for sums of floats rounded once.
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
    /// What all squares together may have lost by underflow.
    underflow: f64,
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
    /// [`Error::NoValue`] for the minimum or maximum of nothing, or its index.
    pub fn of(op: Op, data: &Data) -> Result<Self> {
        Self::of_first(op, data, data.len())
    }

    /// The answer for the first `n` of these elements.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    ///
    /// # Panics
    /// When there are not so many.
    pub fn of_first(op: Op, data: &Data, n: usize) -> Result<Self> {
        if n == 0 && !op.has_empty_value() {
            return Err(Error::NoValue { statistic: op.into() });
        }
        let wanted = match op {
            Op::Sum | Op::SumSq => return Ok(sum(op, data, n)),
            Op::Min | Op::ArgMin => Wanted::Least,
            Op::Max | Op::ArgMax => Wanted::Greatest,
        };
        Ok(with_data!(data, values => {
            let index = first_extreme(wanted, &values[..n]);
            Self::exactly(match op {
                Op::ArgMin | Op::ArgMax => Value::U64(index as u64),
                _ => values[index].value(),
            })
        }))
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
        let lost = self.absolute_sum + self.underflow;
        if growth >= 1.0 { f64::INFINITY } else { growth / (1.0 - growth) * lost + self.underflow }
    }
}

/// What is known of the type that floats are accumulated in.
#[derive(Debug, Clone, Copy)]
struct Precision {
    /// Unit roundoff.
    roundoff: f64,
    /// The smallest number above 0: a product that underflows is off by less.
    smallest: f64,
}

/// Single precision, in which half-precision types are accumulated too.
const SINGLE: Precision =
    Precision { roundoff: f32::EPSILON as f64 / 2.0, smallest: f32::from_bits(1) as f64 };
/// Double precision.
const DOUBLE: Precision = Precision { roundoff: f64::EPSILON / 2.0, smallest: f64::from_bits(1) };

/// Elements of a piece: enough to make threads worth their while, few enough for many pieces.
const PIECE: usize = 1 << 16;

fn is_nan(value: Value) -> bool {
    value.to_f64().is_nan()
}

/// The sum of the first `n` elements or of their squares.
fn sum(op: Op, data: &Data, n: usize) -> Expected {
    let single = |x: f64| Value::F32(x as f32);
    match data {
        Data::I8(v) => Expected::exactly(Value::I64(integer_sum(op, &v[..n]))),
        Data::U8(v) => Expected::exactly(Value::U64(integer_sum(op, &v[..n]))),
        Data::I32(v) => Expected::exactly(Value::I32(integer_sum(op, &v[..n]))),
        Data::U32(v) => Expected::exactly(Value::U32(integer_sum(op, &v[..n]))),
        Data::I64(v) => Expected::exactly(Value::I64(integer_sum(op, &v[..n]))),
        Data::U64(v) => Expected::exactly(Value::U64(integer_sum(op, &v[..n]))),
        Data::F16(v) => float_sum(op, &v[..n], SINGLE, single),
        Data::Bf16(v) => float_sum(op, &v[..n], SINGLE, single),
        Data::F32(v) => float_sum(op, &v[..n], SINGLE, single),
        Data::F64(v) => float_sum(op, &v[..n], DOUBLE, Value::F64),
    }
}

/// Adds in the result's type, which wraps around.
fn integer_sum<T, W>(op: Op, values: &[T]) -> W
where
    T: AsPrimitive<W> + Sync,
    W: Copy + Zero + WrappingAdd + WrappingMul + Send + 'static,
{
    let term = |x: &T| {
        let wide: W = x.as_();
        if op == Op::SumSq { wide.wrapping_mul(&wide) } else { wide }
    };
    let piece = |piece: &[T]| piece.iter().map(term).fold(W::zero(), |sum, x| sum.wrapping_add(&x));
    values.par_chunks(PIECE).map(piece).reduce(W::zero, |a, b| a.wrapping_add(&b))
}

/// Which extreme is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Least,
    Greatest,
}

/// The index of the first extreme element as in numpy, where NaN is more extreme than any number and the
/// zeros are equal. There must be an element.
fn first_extreme<T: Scalar + PartialOrd>(wanted: Wanted, values: &[T]) -> usize {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    let beats = |x: T, held: T| match wanted {
        _ if is_nan(held) => false,
        Wanted::Least => x < held || is_nan(x),
        Wanted::Greatest => x > held || is_nan(x),
    };
    let piece = |(number, piece): (usize, &[T])| {
        let mut held = (piece[0], 0);
        for (index, &x) in piece.iter().enumerate() {
            if beats(x, held.0) {
                held = (x, index);
            }
        }
        (held.0, number * PIECE + held.1)
    };
    // Of two the left one comes first: it is kept unless the other is more extreme.
    let later = |a: (T, usize), b: (T, usize)| if beats(b.0, a.0) { b } else { a };
    let pieces: Vec<(T, usize)> = values.par_chunks(PIECE).enumerate().map(piece).collect();
    pieces.into_iter().reduce(later).expect("there is an element").1
}

/// A sum with what rounding has taken from it.
#[derive(Debug, Clone, Copy)]
struct Compensated {
    sum: f64,
    lost: f64,
    absolute: f64,
    /// Whether all terms are integers.
    integers: bool,
}

impl Compensated {
    const NOTHING: Self = Self { sum: 0.0, lost: 0.0, absolute: 0.0, integers: true };

    /// Adds terms that have been added up before.
    fn add(self, other: Self) -> Self {
        let (a, b) = (self.sum, other.sum);
        let sum = a + b;
        // What the addition rounded away, taken from the smaller of its operands.
        let rounded = if a.abs() >= b.abs() { (a - sum) + b } else { (b - sum) + a };
        Self {
            sum,
            lost: self.lost + rounded + other.lost,
            absolute: self.absolute + other.absolute,
            integers: self.integers && other.integers,
        }
    }

    fn of(op: Op, x: f64) -> Self {
        // A square's rounding error is exact as a fused multiply-add: x² = square + error.
        let (sum, lost) = if op == Op::SumSq { (x * x, x.mul_add(x, -(x * x))) } else { (x, 0.0) };
        Self { sum, lost, absolute: sum.abs(), integers: sum.fract() == 0.0 && lost == 0.0 }
    }
}

fn float_sum<T: Copy + Into<f64> + Sync>(
    op: Op,
    values: &[T],
    precision: Precision,
    round: impl Fn(f64) -> Value,
) -> Expected {
    let add = |sum: Compensated, &x: &T| sum.add(Compensated::of(op, x.into()));
    let piece = |piece: &[T]| piece.iter().fold(Compensated::NOTHING, add);
    let pieces: Vec<Compensated> = values.par_chunks(PIECE).map(piece).collect();
    let Compensated { sum, lost, absolute, integers } =
        pieces.into_iter().fold(Compensated::NOTHING, Compensated::add);
    // An overflow or an infinity leaves NaN in the compensation: then the plain sum is the answer.
    let exact = if sum.is_finite() { sum + lost } else { sum };
    let exact_in_any_order = integers && absolute <= 1.0 / precision.roundoff;
    let underflow = if op == Op::SumSq { values.len() as f64 * precision.smallest } else { 0.0 };
    let (roundoff, underflow) =
        if exact_in_any_order { (0.0, 0.0) } else { (precision.roundoff, underflow) };
    let error_unit = ErrorUnit { roundoff, absolute_sum: absolute, underflow };
    Expected { value: round(exact), exact, error_unit: Some(error_unit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Statistic};

    fn sum(values: Vec<f32>) -> Expected {
        Expected::of(Op::Sum, &Data::F32(values)).unwrap()
    }

    #[test]
    fn integers_wrap_around() {
        let data = Data::I32(vec![i32::MAX, 1, 1]);
        assert_eq!(Expected::of(Op::Sum, &data).unwrap().value, Value::I32(i32::MIN + 1));
    }

    #[test]
    fn the_first_elements_have_an_answer_too() {
        let data = Data::I8(vec![3, -1, 3, -1, 7]);
        let of = |op, n| Expected::of_first(op, &data, n).unwrap().value.to_f64();
        assert_eq!(
            [of(Op::ArgMin, 5), of(Op::ArgMax, 4), of(Op::Sum, 4), of(Op::Max, 1)],
            [1.0, 0.0, 4.0, 3.0]
        );
        assert!(Expected::of_first(Op::Min, &data, 0).is_err());
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

    /// What a loop over the elements as doubles makes of an extreme: its index.
    fn extreme_by_loop(values: &[f64], greatest: bool) -> usize {
        if let Some(first) = values.iter().position(|x| x.is_nan()) {
            return first;
        }
        let beaten =
            |i: &usize| values.iter().any(|&x| if greatest { x > values[*i] } else { x < values[*i] });
        (0..values.len()).find(|i| !beaten(i)).expect("one is not beaten")
    }

    fn doubles(data: &Data) -> Vec<f64> {
        let size = data.dtype().size();
        data.as_bytes().chunks(size).map(|x| Value::from_bytes(data.dtype(), x).to_f64()).collect()
    }

    #[test]
    fn every_operation_of_every_type_is_that_of_a_loop() {
        for &dtype in Dtype::ALL {
            for (n, bound) in [(1, 10), (2, 2), (257, 3), (1000, 10)] {
                // Small integers, so that any type holds them and ties are many.
                let data = Data::random_below(dtype, n, n as u64, bound);
                let elements = doubles(&data);
                let of = |op| Expected::of(op, &data).unwrap();
                for &op in Op::ALL {
                    let expected: f64 = match op {
                        Op::Sum => elements.iter().sum(),
                        Op::SumSq => elements.iter().map(|x| x * x).sum(),
                        Op::Min => elements.iter().copied().fold(f64::INFINITY, f64::min),
                        Op::Max => elements.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        Op::ArgMin => extreme_by_loop(&elements, false) as f64,
                        Op::ArgMax => extreme_by_loop(&elements, true) as f64,
                    };
                    let value = of(op).value;
                    assert_eq!(value.dtype(), op.result(dtype), "{op} {dtype}");
                    assert_eq!(value.to_f64(), expected, "{op} of {n} {dtype}");
                    let check = of(op).check(value, 1 << 10);
                    assert!(check.ok && check.allowed == 0.0, "{op} of {n} {dtype}: {check:?}");
                }
            }
        }
    }

    #[test]
    fn random_elements_are_reduced_as_by_a_loop() {
        // Over several pieces, the last not whole.
        let n = 3 * PIECE + 17;
        for &dtype in Dtype::ALL {
            let data = Data::random(dtype, n, 3);
            let elements = doubles(&data);
            for op in [Op::Sum, Op::SumSq] {
                let expected = Expected::of(op, &data).unwrap();
                if dtype.is_float() {
                    let term = |x: &f64| if op == Op::SumSq { x * x } else { *x };
                    let sum: f64 = elements.iter().map(term).sum();
                    assert!(
                        (expected.exact - sum).abs() < 1e-6,
                        "{op} {dtype}: {}",
                        expected.exact - sum
                    );
                } else if dtype.size() == 1 {
                    let term = |x: &f64| if op == Op::SumSq { x * x } else { *x };
                    assert_eq!(expected.value.to_f64(), elements.iter().map(term).sum::<f64>());
                }
                // The same from any number of threads.
                for threads in [1, 3] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    assert_eq!(pool.install(|| Expected::of(op, &data).unwrap()), expected);
                }
            }
            // 64-bit integers are not all doubles.
            if !matches!(dtype, Dtype::I64 | Dtype::U64) {
                let first = |greatest: bool| {
                    let pick = |a: f64, b: f64| if greatest { a.max(b) } else { a.min(b) };
                    let extreme = elements.iter().copied().reduce(pick).unwrap();
                    elements.iter().position(|&x| x == extreme).unwrap() as u64
                };
                let index = |op| Expected::of(op, &data).unwrap().value;
                assert_eq!(index(Op::ArgMin), Value::U64(first(false)), "{dtype}");
                assert_eq!(index(Op::ArgMax), Value::U64(first(true)), "{dtype}");
            }
        }
    }

    #[test]
    fn integers_of_64_bits_are_compared_as_such() {
        // Equal as doubles.
        let data = Data::U64(vec![u64::MAX - 2, u64::MAX, u64::MAX - 1]);
        let of = |op| Expected::of(op, &data).unwrap().value;
        assert_eq!((of(Op::Min), of(Op::ArgMin)), (Value::U64(u64::MAX - 2), Value::U64(0)));
        assert_eq!((of(Op::Max), of(Op::ArgMax)), (Value::U64(u64::MAX), Value::U64(1)));
        let data = Data::I64(vec![0, i64::MIN + 1, i64::MIN]);
        assert_eq!(Expected::of(Op::ArgMin, &data).unwrap().value, Value::U64(2));
    }

    #[test]
    fn narrow_sums_do_not_wrap_and_wide_ones_do() {
        let of = |op, data: &Data| Expected::of(op, data).unwrap().value;
        let signed = Data::I8(vec![i8::MIN; 300]);
        assert_eq!(of(Op::Sum, &signed), Value::I64(-128 * 300));
        assert_eq!(of(Op::SumSq, &signed), Value::I64(128 * 128 * 300));
        let unsigned = Data::U8(vec![u8::MAX; 300]);
        assert_eq!(of(Op::Sum, &unsigned), Value::U64(255 * 300));
        assert_eq!(of(Op::SumSq, &unsigned), Value::U64(255 * 255 * 300));
        assert_eq!(of(Op::Sum, &Data::U32(vec![u32::MAX, 2])), Value::U32(1));
        assert_eq!(of(Op::SumSq, &Data::U64(vec![1 << 32, 3])), Value::U64(9));
        assert_eq!(of(Op::Sum, &Data::I64(vec![i64::MIN, -1])), Value::I64(i64::MAX));
        assert_eq!(of(Op::SumSq, &Data::I64(vec![i64::MIN, 5])), Value::I64(25));
        for &dtype in Dtype::ALL {
            let none = Data::from_bytes(dtype, &[]);
            for op in [Op::Sum, Op::SumSq] {
                let value = of(op, &none);
                assert_eq!((value.dtype(), value.to_f64()), (op.result(dtype), 0.0));
            }
        }
    }

    #[test]
    fn halves_are_added_in_single_precision() {
        // As an f16 the first sum is infinite, and the second 1.
        let of = |op, data: &Data| Expected::of(op, data).unwrap();
        let large = Data::F16(vec![half::f16::MAX; 3]);
        assert_eq!(of(Op::Sum, &large).value, Value::F32(3.0 * 65504.0));
        assert_eq!(of(Op::Max, &large).value, Value::F16(half::f16::MAX));
        let uneven = of(Op::Sum, &Data::Bf16([1.0, 1e-3].map(half::bf16::from_f32).to_vec()));
        let Value::F32(sum) = uneven.value else { panic!("{uneven:?}") };
        assert!((1.0009..1.0011).contains(&sum), "{sum}");
        // Its bound is that of single precision: far below half's.
        let check = uneven.check(Value::F32(1.0), 2);
        assert!(!check.ok && check.allowed < 1e-6, "{check:?}");
        assert!(uneven.check(Value::F32(sum + f32::EPSILON), 2).ok);
    }

    #[test]
    fn a_square_may_underflow() {
        let expected = |x: f32| Expected::of(Op::SumSq, &Data::F32(vec![x; 1000])).unwrap();
        // In single precision each square is 0.
        let check = expected(1e-30).check(Value::F32(0.0), 20);
        assert!(check.ok && check.allowed < 1e-41, "{check:?}");
        assert!(!expected(1e-10).check(Value::F32(0.0), 20).ok);
        let tiny = Data::Bf16(vec![half::bf16::from_f32(1e-30); 1000]);
        assert!(Expected::of(Op::SumSq, &tiny).unwrap().check(Value::F32(0.0), 20).ok);
        let sum = Expected::of(Op::Sum, &Data::F32(vec![1e-40; 1000])).unwrap();
        assert!(!sum.check(Value::F32(0.0), 20).ok);
    }

    #[test]
    fn squares_that_only_look_whole_may_be_rounded() {
        // A root that is no integer, and whose square rounds to one.
        let root = |k: u32| (f64::from(k), f64::from(k).sqrt());
        let rounded = |(square, x): &(f64, f64)| x * x == *square && x.fract() != 0.0;
        let (square, x) = (2..100).map(root).find(rounded).expect("17 is one");
        let expected = Expected::of(Op::SumSq, &Data::F64(vec![x; 10])).unwrap();
        let check = expected.check(Value::F64(10.0 * square), 10);
        assert!(check.ok && check.allowed > 0.0, "{check:?}");
    }

    #[test]
    fn the_first_extreme_and_the_first_nan_have_the_index() {
        let nan = f32::NAN;
        for (values, least, greatest) in [
            (vec![1.0], 0, 0),
            (vec![2.0, 1.0, 2.0, 1.0], 1, 0),
            (vec![0.0, -0.0, 0.0], 0, 0),
            (vec![-0.0, 0.0], 0, 0),
            (vec![f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY], 1, 0),
            (vec![f32::INFINITY, f32::INFINITY], 0, 0),
            (vec![1.0, nan, f32::NEG_INFINITY, nan], 1, 1),
            (vec![nan, nan], 0, 0),
            (vec![nan, 1.0], 0, 0),
        ] {
            let of = |op, data: &Data| Expected::of(op, data).unwrap();
            let index = |op, data: &Data| of(op, data).value;
            let half = |x: &f32| half::f16::from_f32(*x);
            for data in [
                Data::F16(values.iter().map(half).collect()),
                Data::F64(values.iter().copied().map(f64::from).collect()),
                Data::F32(values.clone()),
            ] {
                let is = (index(Op::ArgMin, &data), index(Op::ArgMax, &data));
                assert_eq!(is, (Value::U64(least), Value::U64(greatest)), "{data:?}");
                for (op, at) in [(Op::Min, least), (Op::Max, greatest)] {
                    let element = with_data!(&data, values => values[at as usize].value());
                    assert!(of(op, &data).check(element, 1).ok, "{op} {data:?}");
                }
            }
        }
        // In another piece than the first.
        let mut values = vec![0.0_f32; 5 * PIECE];
        for index in [2 * PIECE + 5, 4 * PIECE] {
            values[index] = -1.0;
        }
        let index = |op, values: &[f32]| Expected::of(op, &Data::F32(values.to_vec())).unwrap().value;
        assert_eq!(index(Op::ArgMin, &values), Value::U64(2 * PIECE as u64 + 5));
        assert_eq!(index(Op::ArgMax, &values), Value::U64(0));
        values[3 * PIECE + 1] = nan;
        values[4 * PIECE + 1] = nan;
        for op in [Op::ArgMin, Op::ArgMax] {
            assert_eq!(index(op, &values), Value::U64(3 * PIECE as u64 + 1));
        }
    }

    #[test]
    fn an_index_is_equal_or_wrong() {
        let expected = Expected::of(Op::ArgMin, &Data::U8(vec![3, 1, 1])).unwrap();
        assert!(expected.check(Value::U64(1), 10).ok);
        let check = expected.check(Value::U64(2), 10);
        assert!(!check.ok && (check.error, check.allowed) == (1.0, 0.0), "{check:?}");
        for op in [Op::ArgMin, Op::ArgMax] {
            assert!(matches!(Expected::of(op, &Data::U8(vec![])), Err(Error::NoValue { .. })));
        }
    }

    #[test]
    fn pieces_are_compensated_as_one_sum() {
        // 1e16 in one piece and its opposite in another; between them what a double cannot add to it.
        let mut values = vec![0.25; 4 * PIECE];
        (values[0], values[3 * PIECE]) = (1e16, -1e16);
        let expected = Expected::of(Op::Sum, &Data::F64(values)).unwrap();
        assert_eq!(expected.value, Value::F64(0.25 * (4 * PIECE - 2) as f64));
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
