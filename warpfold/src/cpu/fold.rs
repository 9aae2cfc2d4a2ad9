//! The operations on elements, each as a [`Fold`].

use std::{
    convert::identity,
    marker::PhantomData,
    ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub},
};

use bytemuck::Pod;
use warpfold_abi::{
    binned::{Float, Partial, Running},
    moments::MeanAndVariance,
};

use super::{
    item::{Binned, Integer, Item, Number, Real},
    lanes::{Fold, fold, fold_by, fold_pairs, in_lanes},
};
use crate::{
    input::filtered::Ends,
    names::{
        Nan::{self, Propagate, Skip},
        Op, OpKind,
        Order::{Reproducible, RunToRun},
        PairOp, WithinOp,
    },
};

/// The words of a result: a value of up to 16 bytes, an index and its element, or a count and a sum of
/// two words.
pub(super) type Words = [u64; 3];

pub(super) fn words<R: Pod>(result: R) -> Words {
    let mut words = Words::default();
    bytemuck::bytes_of_mut(&mut words)[..size_of::<R>()].copy_from_slice(bytemuck::bytes_of(&result));
    words
}

fn moments(MeanAndVariance { mean, variance }: MeanAndVariance) -> Words {
    words([mean, variance])
}

/// Reduces a nonempty slice of integers.
pub(super) fn reduce_integers<T: Integer>(op: Op, values: &[T]) -> Words {
    match op.kind {
        OpKind::Sum if op.wide => words(fold::<T, WideSum>(values)),
        OpKind::Sum => words(fold::<T, WrappingSum<Identity>>(values)),
        OpKind::SumOfSquares => words(fold::<T, WrappingSum<Square>>(values)),
        OpKind::SumOfMagnitudes => words(fold::<T, WrappingSum<Magnitude>>(values)),
        OpKind::Product => words(fold::<T, WrappingProduct>(values)),
        OpKind::BitAnd => words(fold::<T, And>(values)),
        OpKind::BitOr => words(fold::<T, Or>(values)),
        OpKind::BitXor => words(fold::<T, Xor>(values)),
        OpKind::MeanAndVariance => moments(exact_moments(values)),
        OpKind::Mean => words(exact_moments(values).mean),
        OpKind::L1Norm => words(fold::<T, WideMagnitudes>(values) as f64),
        OpKind::HarmonicMean => {
            words(harmonic_mean(values, |value| Some(value.widest().cast_signed() as f64)))
        }
        OpKind::L2Norm => {
            let (_, lower, upper) = fold::<T, ExactSums>(values);
            // With a count of 1 and a sum of 0 the variance is the sum of the squares.
            words(MeanAndVariance::of_integers(1, 0, lower, upper).variance.sqrt())
        }
        _ => reduce_any::<T, false>(op, values),
    }
}

fn exact_moments<T: Integer>(values: &[T]) -> MeanAndVariance {
    let (sum, lower, upper) = fold::<T, ExactSums>(values);
    MeanAndVariance::of_integers(values.len() as u64, sum, lower, upper)
}

/// Reduces a nonempty slice of floats.
pub(super) fn reduce_floats<T: Real>(op: Op, values: &[T]) -> Words {
    match (op.kind, op.nan, op.order) {
        (OpKind::Sum, ..) if op.wide => words(fold::<T, DoubleSum<Identity>>(values)),
        (OpKind::Sum, ..) => sum_floats::<T, Identity>(op, values),
        (OpKind::SumOfSquares, ..) => sum_floats::<T, Square>(op, values),
        (OpKind::SumOfMagnitudes, ..) => sum_floats::<T, Magnitude>(op, values),
        (OpKind::Product, Propagate, RunToRun) => words(T::nearest(fold::<T, DoubleProduct>(values))),
        (OpKind::Product, Skip, RunToRun) => words(T::nearest(fold::<T, NumberProduct>(values))),
        (OpKind::LogSumExp, Propagate, RunToRun) => {
            let Exponentials { largest, sum } = fold::<T, LogSumExp>(values);
            words(T::nearest(if largest.is_finite() { largest + sum.ln() } else { largest }))
        }
        (OpKind::CountNan, ..) => words(fold::<T, NanCount>(values)),
        (OpKind::Mean, Propagate, RunToRun) => {
            words(mean(fold::<T, DoubleSum<Identity>>(values), values.len() as u64, || {
                fold::<T, BinnedSum<Identity>>(values)
            }))
        }
        (OpKind::L2Norm, Propagate, RunToRun) => {
            words(norm(values, fold::<T, DoubleSum<Square>>(values)))
        }
        (OpKind::L2Norm, Skip, RunToRun) => words(norm(values, fold::<T, NumberSum<Square>>(values))),
        (OpKind::HarmonicMean, nan, RunToRun) => {
            words(harmonic_mean(values, |value| counted(nan, value).then(|| value.double())))
        }
        (OpKind::HarmonicMean, nan, Reproducible) => {
            let term = |value: T| {
                if counted(nan, value) { value.term().four_over() } else { T::Sum::ZERO }
            };
            let sum = fold_by(values, &|values| binned_sum(values, term), &Partial::plus);
            words(4.0 / sum.mean(count(values, nan)))
        }
        (OpKind::ThirdCentralMoment, nan, RunToRun) => words(third_moment(values, nan)),
        (OpKind::MeanAndVariance, Propagate, _) => {
            moments(fold::<T, BinnedMoments<Identity>>(values).moments(values.len() as u64))
        }
        (OpKind::MeanAndVariance, Skip, _) => {
            let sums = fold::<T, BinnedMoments<SkipNan<Identity>>>(values);
            moments(sums.moments(count(values, Skip)))
        }
        (_, Skip, RunToRun) => reduce_any::<T, true>(op, values),
        _ => reduce_any::<T, false>(op, values),
    }
}

fn sum_floats<T: Real, M: Term>(op: Op, values: &[T]) -> Words {
    match (op.nan, op.order) {
        (Propagate, RunToRun) => words(T::nearest(fold::<T, DoubleSum<M>>(values))),
        (Skip, RunToRun) => words(T::nearest(fold::<T, NumberSum<M>>(values))),
        (Propagate, Reproducible) => words(fold::<T, BinnedSum<M>>(values).sum()),
        (Skip, Reproducible) => words(fold::<T, BinnedSum<SkipNan<M>>>(values).sum()),
    }
}

pub(super) fn reduce_integer_pairs<T: Integer>(op: PairOp, first: &[T], second: &[T]) -> Words {
    words(match op {
        PairOp::Dot => fold_pairs::<T, WrappingPairs<Times>>(first, second),
        PairOp::SquaredDistance => fold_pairs::<T, WrappingPairs<DistanceSquared>>(first, second),
        op => unreachable!("{op} is not an operation on pairs of integers"),
    })
}

pub(super) fn reduce_float_pairs<T: Real>(op: PairOp, first: &[T], second: &[T]) -> Words {
    words(match op {
        PairOp::Dot => T::nearest(fold_pairs::<T, DoublePairs<Times>>(first, second)),
        PairOp::SquaredDistance => {
            T::nearest(fold_pairs::<T, DoublePairs<DistanceSquared>>(first, second))
        }
        PairOp::BinnedDot => fold_pairs::<T, BinnedSum<Times>>(first, second).sum(),
        PairOp::BinnedSquaredDistance => {
            fold_pairs::<T, BinnedSum<DistanceSquared>>(first, second).sum()
        }
        op => unreachable!("{op} is of several devices"),
    })
}

/// Returns the mean of `count` floats from their sum, or from their exact sum if `sum` overflowed.
fn mean<S: Float>(sum: f64, count: u64, exact: impl FnOnce() -> Partial<S>) -> f64 {
    if sum.is_finite() { sum / count as f64 } else { exact().mean(count) }
}

/// Returns the L2 norm of the floats that are not NaN from the sum of their squares; a NaN sum gives
/// NaN. If squares overflow or underflow, the numbers are scaled first.
fn norm<T: Real>(values: &[T], squares: f64) -> f64 {
    if (2_f64.powi(-900)..f64::INFINITY).contains(&squares) || squares.is_nan() {
        return squares.sqrt();
    }
    let magnitude = |value: T| number_or(value, 0.0, f64::abs);
    let largest =
        |values: &[T]| in_lanes(values, 0.0, |most, value| magnitude(value).max(most), f64::max);
    let most = fold_by(values, &largest, &f64::max);
    if most == 0.0 || most.is_infinite() {
        return most;
    }
    // Scaling by a power of two rounds only numbers that are negligible relative to the largest.
    let scale = if most < 1.0 { 2_f64.powi(600) } else { 2_f64.powi(-600) };
    let square = |value: T| (magnitude(value) * scale).square();
    let squares = |values: &[T]| in_lanes(values, 0.0, |sum, value| sum + square(value), Add::add);
    fold_by(values, &squares, &|a: f64, b: f64| a + b).sqrt() / scale
}

fn counted<T: Real>(nan: Nan, value: T) -> bool {
    nan == Propagate || !value.is_nan()
}

fn count<T: Real>(values: &[T], nan: Nan) -> u64 {
    values.len() as u64 - if nan == Skip { fold::<T, NanCount>(values) } else { 0 }
}

/// Returns the harmonic mean of the elements that are numbers. Reciprocals of small numbers are summed
/// at another scale, so that no reciprocal overflows or is subnormal.
fn harmonic_mean<T: Item>(values: &[T], number: impl Fn(T) -> Option<f64> + Sync) -> f64 {
    let power = |exponent| 2_f64.powi(exponent);
    let over =
        |dividend: f64, number: f64| if number == 0.0 { f64::INFINITY } else { dividend / number };
    let add = |(count, near, far): (u64, f64, f64), value| match number(value) {
        None => (count, near, far),
        Some(number) if number.abs() < power(-896) => {
            (count + 1, near, far + over(1.0, number * power(128)))
        }
        Some(number) => (count + 1, near + over(power(64), number), far),
    };
    let combine = |a: (u64, f64, f64), b: (u64, f64, f64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
    let leaf = |values: &[T]| in_lanes(values, (0, 0.0, 0.0), add, combine);
    let (count, near, far) = fold_by(values, &leaf, &combine);
    let count = count as f64;
    match far {
        0.0 => count * power(64) / near,
        _ => count / (far + near * power(-192)) * power(-128),
    }
}

/// Returns the third central moment of the floats that `nan` does not skip, from their distances to the
/// float nearest to the mean.
fn third_moment<T: Real>(values: &[T], nan: Nan) -> f64 {
    let count = count(values, nan);
    let term = |value: T| if counted(nan, value) { value.term() } else { T::Sum::ZERO };
    let mean = fold_by(values, &|values| binned_sum(values, term), &Partial::plus).mean(count);
    // Distances to an element, rather than to the rounded mean, are all 0 if the elements are equal.
    let nearer = |a: f64, b: f64| if (b - mean).abs() < (a - mean).abs() { b } else { a };
    let nearest = |near, value: T| if counted(nan, value) { nearer(near, value.double()) } else { near };
    let leaf = |values: &[T]| in_lanes(values, f64::INFINITY, nearest, nearer);
    let near = fold_by(values, &leaf, &nearer);
    let add = |sums: [f64; 3], value: T| {
        let distance = if counted(nan, value) { value.double() - near } else { 0.0 };
        let square = distance * distance;
        [sums[0] + distance, sums[1] + square, sums[2] + square * distance]
    };
    let combine = |a: [f64; 3], b: [f64; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
    let [sum, squares, cubes] =
        fold_by(values, &|values: &[T]| in_lanes(values, [0.0; 3], add, combine), &combine);
    let count = count as f64;
    let offset = sum / count;
    (cubes - offset * (3.0 * squares - 2.0 * sum * offset)) / count
}

pub(super) fn sum_integers_within<T: Integer>((_op, ends): (WithinOp, Ends), values: &[T]) -> Words {
    let (count, sum) = within(ends, values, 0, T::widest, u128::wrapping_add);
    [count, sum as u64, (sum >> 64) as u64]
}

pub(super) fn sum_floats_within<T: Real>((op, ends): (WithinOp, Ends), values: &[T]) -> Words {
    let (count, sum) = match op {
        WithinOp::Sum => within(ends, values, 0.0, T::double, Add::add),
        WithinOp::BinnedSum => (0, f64::INFINITY),
        WithinOp::BinnedSumPart => unreachable!("{op} is of several devices"),
    };
    if sum.is_finite() {
        let [word, ..] = words(T::nearest(sum));
        let headroom = <T::Sum as Float>::HEADROOM;
        return [count, word, (sum * 2_f64.powi(-headroom)).to_bits()];
    }
    // Binned sums are reproducible, and finite where the sum in `f64` overflowed.
    let (count, sum) = binned_within(ends, values);
    let [word, ..] = words(sum.sum());
    [count, word, sum.wide().to_bits()]
}

fn within<T: Item, S: Copy + Send + Sync>(
    ends: Ends,
    values: &[T],
    zero: S,
    term: impl Fn(T) -> S + Sync,
    add: impl Fn(S, S) -> S + Sync,
) -> (u64, S) {
    let [low, high] = ends.elements::<T>();
    let combine = |a: (u64, S), b: (u64, S)| (a.0 + b.0, add(a.1, b.1));
    let of = |value: T| if low <= value && value <= high { (1, term(value)) } else { (0, zero) };
    let leaf = |values: &[T]| in_lanes(values, (0, zero), |acc, value| combine(acc, of(value)), combine);
    fold_by(values, &leaf, &combine)
}

fn binned_within<T: Real>(ends: Ends, values: &[T]) -> (u64, Partial<T::Sum>) {
    let [low, high] = ends.elements::<T>();
    let is_inside = |value: T| low <= value && value <= high;
    let leaf = |values: &[T]| {
        let count = |acc: u64, value| acc + u64::from(is_inside(value));
        let term = |value: T| if is_inside(value) { value.term() } else { T::Sum::ZERO };
        (in_lanes(values, 0, count, Add::add), binned_sum(values, term))
    };
    let combine = |a: (u64, Partial<T::Sum>), b: (u64, _)| (a.0 + b.0, a.1.plus(b.1));
    fold_by(values, &leaf, &combine)
}

/// Returns the larger magnitude of the minimum and the maximum that a slice begins with.
pub(super) fn magnitude<T: Item>((): (), ends: &[T]) -> f64 {
    // If one of them is NaN, so is the other.
    ends[0].double().abs().max(ends[1].double().abs())
}

fn reduce_any<T: Item, const SKIP_NAN: bool>(op: Op, values: &[T]) -> Words {
    match op.kind {
        OpKind::Min => words(fold::<T, Extreme<Least, SKIP_NAN>>(values).element::<T>()),
        OpKind::Max => words(fold::<T, Extreme<Greatest, SKIP_NAN>>(values).element::<T>()),
        OpKind::MinMax => {
            let (min, max) = fold::<T, (Extreme<Least, SKIP_NAN>, Extreme<Greatest, SKIP_NAN>)>(values);
            words([min.element::<T>(), max.element::<T>()])
        }
        OpKind::ArgMin => fold::<T, ArgExtreme<Least, SKIP_NAN>>(values).words(),
        OpKind::ArgMax => fold::<T, ArgExtreme<Greatest, SKIP_NAN>>(values).words(),
        OpKind::CountNonZero => words(fold::<T, NonZero>(values)),
        _ => unreachable!("{op} is not an operation on these elements"),
    }
}

trait Term {
    fn of<N: Number>(number: N) -> N;
    /// Returns the term of an integer, wrapped to 64 bits.
    fn wide<T: Integer>(element: T) -> u64;
}

struct Identity;
struct Square;
struct Magnitude;

impl Term for Identity {
    #[inline(always)]
    fn of<N: Number>(number: N) -> N {
        number
    }
    #[inline(always)]
    fn wide<T: Integer>(element: T) -> u64 {
        element.wide()
    }
}

impl Term for Square {
    #[inline(always)]
    fn of<N: Number>(number: N) -> N {
        number.square()
    }
    #[inline(always)]
    fn wide<T: Integer>(element: T) -> u64 {
        element.wide().wrapping_mul(element.wide())
    }
}

impl Term for Magnitude {
    #[inline(always)]
    fn of<N: Number>(number: N) -> N {
        number.magnitude()
    }
    #[inline(always)]
    fn wide<T: Integer>(element: T) -> u64 {
        element.magnitude()
    }
}

/// The term that an element, or a pair of elements, adds to a [binned](warpfold_abi::binned) sum.
trait BinnedTerm<T> {
    type Sum: Binned;
    fn term(value: T) -> Self::Sum;
}

impl<T: Real, M: Term> BinnedTerm<T> for M {
    type Sum = T::Sum;

    #[inline(always)]
    fn term(value: T) -> T::Sum {
        M::of(value.term())
    }
}

/// The term of a number, and zero for NaN.
struct SkipNan<M>(PhantomData<M>);

impl<T: Real, M: Term> BinnedTerm<T> for SkipNan<M> {
    type Sum = T::Sum;

    #[inline(always)]
    fn term(value: T) -> T::Sum {
        if value.is_nan() { T::Sum::ZERO } else { M::of(value.term()) }
    }
}

impl<T: Real, M: PairTerm> BinnedTerm<(T, T)> for M {
    type Sum = T::Sum;

    #[inline(always)]
    fn term((first, second): (T, T)) -> T::Sum {
        M::of(first.term(), second.term())
    }
}

struct BinnedSum<M>(PhantomData<M>);

impl<T: Copy, M: BinnedTerm<T>> Fold<T> for BinnedSum<M> {
    type Acc = Partial<M::Sum>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Acc {
        binned_sum(values, M::term)
    }

    #[inline(always)]
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc {
        first.plus(second)
    }
}

#[inline(always)]
fn binned_sum<T: Copy, S: Binned>(values: &[T], term: impl Fn(T) -> S) -> Partial<S> {
    let largest = S::largest(values, &term);
    if largest.specials() == 0 {
        let bin = largest.bin();
        let scale = <S as Float>::scale(bin);
        let digits = S::digits_of(values, |value| term(value).times(scale));
        return Partial { digits, bin, specials: 0 };
    }
    let mut sum = Running::new();
    values.iter().for_each(|&value| sum.add([term(value)]));
    sum.close()
}

struct BinnedMoments<M>(PhantomData<M>);

impl<T: Real, M: BinnedTerm<T, Sum = T::Sum>> Fold<T> for BinnedMoments<M> {
    type Acc = Partial<T::Moments>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Acc {
        let mut sums = Running::<T::Moments>::new();
        let (chunks, rest) = values.as_chunks::<8>();
        chunks.iter().for_each(|chunk| sums.add(chunk.map(M::term)));
        rest.iter().for_each(|&value| sums.add([M::term(value)]));
        sums.close()
    }

    #[inline(always)]
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc {
        first.plus(second)
    }
}

struct ExactSums;

/// The sum, and the sums of the lower and of the upper 64 bits of the squares.
type Exact = (i128, u128, u128);

impl<T: Integer> Fold<T> for ExactSums {
    type Acc = Exact;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Exact {
        let add = |sums: Exact, value: T| {
            let magnitude = u128::from(value.magnitude());
            let (square, low) = (magnitude * magnitude, u128::from(u64::MAX));
            let sum = value.widest().cast_signed();
            <Self as Fold<T>>::combine(sums, (sum, square & low, square >> u64::BITS))
        };
        in_lanes(values, (0, 0, 0), add, <Self as Fold<T>>::combine)
    }

    #[inline(always)]
    fn combine(first: Exact, second: Exact) -> Exact {
        (first.0 + second.0, first.1 + second.1, first.2 + second.2)
    }
}

trait Extremum {
    fn beats<O: PartialOrd>(a: O, b: O) -> bool;
    fn pick<K: Ord>(a: K, b: K) -> K;
    fn none<T: Item>() -> T::Key;
}

struct Least;
struct Greatest;

impl Extremum for Least {
    #[inline(always)]
    fn beats<O: PartialOrd>(a: O, b: O) -> bool {
        a < b
    }
    #[inline(always)]
    fn pick<K: Ord>(a: K, b: K) -> K {
        a.min(b)
    }
    #[inline(always)]
    fn none<T: Item>() -> T::Key {
        T::GREATEST
    }
}

impl Extremum for Greatest {
    #[inline(always)]
    fn beats<O: PartialOrd>(a: O, b: O) -> bool {
        a > b
    }
    #[inline(always)]
    fn pick<K: Ord>(a: K, b: K) -> K {
        a.max(b)
    }
    #[inline(always)]
    fn none<T: Item>() -> T::Key {
        T::LEAST
    }
}

/// The extreme element. NaN elements are skipped with `SKIP_NAN`; otherwise they make the result NaN.
struct Extreme<E, const SKIP_NAN: bool>(PhantomData<E>);

#[derive(Clone, Copy)]
struct Found<K> {
    key: K,
    nan: bool,
}

impl<K> Found<K> {
    fn element<T: Item<Key = K>>(self) -> T {
        if self.nan { T::NAN } else { T::of_key(self.key) }
    }
}

impl<E, const SKIP_NAN: bool> Extreme<E, SKIP_NAN> {
    #[inline(always)]
    fn join_nan(a: bool, b: bool) -> bool {
        if SKIP_NAN { a & b } else { a | b }
    }
}

impl<T: Item, E: Extremum, const SKIP_NAN: bool> Fold<T> for Extreme<E, SKIP_NAN> {
    type Acc = Found<T::Key>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Acc {
        let add_nan = |nan, value: T| Self::join_nan(nan, value.is_nan());
        let nan = in_lanes(values, SKIP_NAN, add_nan, Self::join_nan);
        let key_of = |value: T| if SKIP_NAN && value.is_nan() { E::none::<T>() } else { value.key() };
        let key = in_lanes(values, E::none::<T>(), |key, value: T| E::pick(key, key_of(value)), E::pick);
        Found { key, nan }
    }

    #[inline(always)]
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc {
        Found { key: E::pick(first.key, second.key), nan: Self::join_nan(first.nan, second.nan) }
    }
}

impl<T: Item, A: Fold<T>, B: Fold<T>> Fold<T> for (A, B) {
    type Acc = (A::Acc, B::Acc);

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Self::Acc {
        (A::leaf(values, index), B::leaf(values, index))
    }

    #[inline(always)]
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc {
        (A::combine(first.0, second.0), B::combine(first.1, second.1))
    }
}

/// The index and value of the first extreme element. Without `SKIP_NAN`, NaN is the extreme.
struct ArgExtreme<E, const SKIP_NAN: bool>(PhantomData<E>);
#[derive(Clone, Copy)]
struct Located<T> {
    value: T,
    index: u64,
}

impl<T: Item> Located<T> {
    fn words(self) -> Words {
        let [element, ..] = words(self.value);
        [self.index, element, 0]
    }
}

impl<T: Item, E: Extremum, const SKIP_NAN: bool> Fold<T> for ArgExtreme<E, SKIP_NAN> {
    type Acc = Located<T>;

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Self::Acc {
        let extreme = Extreme::<E, SKIP_NAN>::leaf(values, index);
        let value: T = extreme.element();
        // Zeros of both signs compare equal, so the first zero may have another sign than `value`.
        let is_first = |other: &T| if extreme.nan { other.is_nan() } else { *other == value };
        let at = values.iter().position(is_first).expect("it is one of the values");
        Located { value: values[at], index: index + at as u64 }
    }

    #[inline(always)]
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc {
        let (a, b) = (first.value, second.value);
        let takes_second = match (a.is_nan(), b.is_nan()) {
            (false, false) => E::beats(b, a),
            // A number replaces a skipped NaN; a propagated NaN replaces a number.
            (a, b) => a != b && a == SKIP_NAN,
        };
        if takes_second { second } else { first }
    }
}

#[inline(always)]
fn number_or<T: Real>(value: T, other: f64, of: impl Fn(f64) -> f64) -> f64 {
    if value.is_nan() { other } else { of(value.double()) }
}

macro_rules! simple {
    ($(
        $(#[$attr:meta])*
        $Name:ident$(<$M:ident>)? of $Bound:ident in $Acc:ty: $none:expr, |$value:ident| $of:expr,
        $combine:expr;
    )*) => {$(
        $(#[$attr])*
        struct $Name$(<$M>(PhantomData<$M>))?;

        impl<T: $Bound $(, $M: Term)?> Fold<T> for $Name$(<$M>)? {
            type Acc = $Acc;

            #[inline(always)]
            fn leaf(values: &[T], _index: u64) -> $Acc {
                in_lanes(values, $none, |acc, $value: T| $combine(acc, $of), $combine)
            }

            #[inline(always)]
            fn combine(first: $Acc, second: $Acc) -> $Acc {
                $combine(first, second)
            }
        }
    )*};
}

simple! {
    WrappingSum<M> of Integer in u64: 0, |value| M::wide(value), u64::wrapping_add;
    DoubleSum<M> of Real in f64: 0.0, |value| M::of(value.double()), Add::add;
    WrappingProduct of Integer in u64: 1, |value| value.wide(), u64::wrapping_mul;
    DoubleProduct of Real in f64: 1.0, |value| value.double(), Mul::mul;
    NonZero of Item in u64: 0, |value| u64::from(value.is_nonzero()), u64::wrapping_add;
    WideSum of Integer in u128: 0, |value| value.widest(), u128::wrapping_add;
    WideMagnitudes of Integer in u128: 0, |value| u128::from(value.magnitude()), u128::wrapping_add;
    /// The sum of the terms of elements that are not NaN.
    NumberSum<M> of Real in f64: 0.0, |value| number_or(value, 0.0, M::of), Add::add;
    /// The product of the elements that are not NaN.
    NumberProduct of Real in f64: 1.0, |value| number_or(value, 1.0, identity), Mul::mul;
    NanCount of Real in u64: 0, |value| u64::from(value.is_nan()), u64::wrapping_add;
    And of Integer in u64: u64::MAX, |value| value.wide(), BitAnd::bitand;
    Or of Integer in u64: 0, |value| value.wide(), BitOr::bitor;
    Xor of Integer in u64: 0, |value| value.wide(), BitXor::bitxor;
}

trait PairTerm {
    fn of<N: Mul<Output = N> + Sub<Output = N> + Copy>(first: N, second: N) -> N;
    fn wide(first: u64, second: u64) -> u64;
}

struct Times;
struct DistanceSquared;

impl PairTerm for Times {
    #[inline(always)]
    fn of<N: Mul<Output = N> + Sub<Output = N> + Copy>(first: N, second: N) -> N {
        first * second
    }
    #[inline(always)]
    fn wide(first: u64, second: u64) -> u64 {
        first.wrapping_mul(second)
    }
}

impl PairTerm for DistanceSquared {
    #[inline(always)]
    fn of<N: Mul<Output = N> + Sub<Output = N> + Copy>(first: N, second: N) -> N {
        let distance = first - second;
        distance * distance
    }
    #[inline(always)]
    fn wide(first: u64, second: u64) -> u64 {
        let distance = first.wrapping_sub(second);
        distance.wrapping_mul(distance)
    }
}

struct WrappingPairs<M>(PhantomData<M>);

impl<T: Integer, M: PairTerm> Fold<(T, T)> for WrappingPairs<M> {
    type Acc = u64;

    #[inline(always)]
    fn leaf(pairs: &[(T, T)], _index: u64) -> u64 {
        let term = |(first, second): (T, T)| M::wide(first.wide(), second.wide());
        in_lanes(pairs, 0, |sum: u64, pair| sum.wrapping_add(term(pair)), u64::wrapping_add)
    }

    #[inline(always)]
    fn combine(first: u64, second: u64) -> u64 {
        first.wrapping_add(second)
    }
}

struct DoublePairs<M>(PhantomData<M>);

impl<T: Real, M: PairTerm> Fold<(T, T)> for DoublePairs<M> {
    type Acc = f64;

    #[inline(always)]
    fn leaf(pairs: &[(T, T)], _index: u64) -> f64 {
        let term = |(first, second): (T, T)| M::of(first.double(), second.double());
        in_lanes(pairs, 0.0, |sum, pair| sum + term(pair), Add::add)
    }

    #[inline(always)]
    fn combine(first: f64, second: f64) -> f64 {
        first + second
    }
}

struct LogSumExp;

/// The largest element, or NaN if any element is NaN. If it is finite, `sum` is the sum of exp(element −
/// largest).
#[derive(Clone, Copy)]
struct Exponentials {
    largest: f64,
    sum: f64,
}

impl Exponentials {
    /// Returns the sum relative to `largest`, which is at least `self.largest`.
    fn relative_to(self, largest: f64) -> f64 {
        // The sum is 0 if no element is finite; a difference of infinities would be NaN.
        if self.sum == 0.0 { 0.0 } else { self.sum * (self.largest - largest).exp() }
    }
}

impl<T: Real> Fold<T> for LogSumExp {
    type Acc = Exponentials;

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Exponentials {
        let largest = Extreme::<Greatest, false>::leaf(values, index).element::<T>().double();
        if !largest.is_finite() {
            return Exponentials { largest, sum: 0.0 };
        }
        let term = |value: T| (value.double() - largest).exp();
        Exponentials { largest, sum: in_lanes(values, 0.0, |sum, value| sum + term(value), Add::add) }
    }

    #[inline(always)]
    fn combine(a: Exponentials, b: Exponentials) -> Exponentials {
        let nan = a.largest.is_nan() || b.largest.is_nan();
        let largest = if nan { f64::NAN } else { a.largest.max(b.largest) };
        Exponentials { largest, sum: a.relative_to(largest) + b.relative_to(largest) }
    }
}
