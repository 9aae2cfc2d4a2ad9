//! The operations, element by element.

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

/// Words of a result: one of up to 16 bytes; or an index, and the element there; or a count, and
/// a sum in two words.
pub(super) type Words = [u64; 3];

/// A value in the words that a kernel writes.
fn words<R: Pod>(result: R) -> Words {
    let mut words = Words::default();
    bytemuck::bytes_of_mut(&mut words)[..size_of::<R>()].copy_from_slice(bytemuck::bytes_of(&result));
    words
}

/// A mean and a variance, likewise.
fn moments(MeanAndVariance { mean, variance }: MeanAndVariance) -> Words {
    words([mean, variance])
}

/// Of elements, of which there is one at least.
pub(super) fn of_integers<T: Integer>(op: Op, values: &[T]) -> Words {
    match op.kind {
        OpKind::Sum if op.wide => words(fold::<T, WideSum>(values)),
        OpKind::Sum => words(fold::<T, WrappingSum<Itself>>(values)),
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
            // The variance of one number whose square that would be, and whose sum is 0.
            words(MeanAndVariance::of_integers(1, 0, lower, upper).variance.sqrt())
        }
        _ => of_any(op, values),
    }
}

/// The mean and the variance of integers.
fn exact_moments<T: Integer>(values: &[T]) -> MeanAndVariance {
    let (sum, lower, upper) = fold::<T, ExactSums>(values);
    MeanAndVariance::of_integers(values.len() as u64, sum, lower, upper)
}

/// Of elements, of which there is one at least.
pub(super) fn of_floats<T: Real>(op: Op, values: &[T]) -> Words {
    match (op.kind, op.nan, op.order) {
        (OpKind::Sum, ..) if op.wide => words(fold::<T, DoubleSum<Itself>>(values)),
        (OpKind::Sum, Propagate, RunToRun) => words(T::nearest(fold::<T, DoubleSum<Itself>>(values))),
        (OpKind::SumOfSquares, Propagate, RunToRun) => {
            words(T::nearest(fold::<T, DoubleSum<Square>>(values)))
        }
        (OpKind::SumOfMagnitudes, Propagate, RunToRun) => {
            words(T::nearest(fold::<T, DoubleSum<Magnitude>>(values)))
        }
        (OpKind::Product, Propagate, RunToRun) => words(T::nearest(fold::<T, DoubleProduct>(values))),
        (OpKind::Sum, Propagate, Reproducible) => words(fold::<T, BinnedSum<Itself>>(values).sum()),
        (OpKind::SumOfSquares, Propagate, Reproducible) => {
            words(fold::<T, BinnedSum<Square>>(values).sum())
        }
        (OpKind::SumOfMagnitudes, Propagate, Reproducible) => {
            words(fold::<T, BinnedSum<Magnitude>>(values).sum())
        }
        (OpKind::Sum, Skip, Reproducible) => {
            words(fold::<T, BinnedSum<OfNumbers<Itself>>>(values).sum())
        }
        (OpKind::SumOfSquares, Skip, Reproducible) => {
            words(fold::<T, BinnedSum<OfNumbers<Square>>>(values).sum())
        }
        (OpKind::SumOfMagnitudes, Skip, Reproducible) => {
            words(fold::<T, BinnedSum<OfNumbers<Magnitude>>>(values).sum())
        }
        (OpKind::LogSumExp, Propagate, RunToRun) => {
            let Exponentials { largest, sum } = fold::<T, LogSumExp>(values);
            words(T::nearest(if largest.is_finite() { largest + sum.ln() } else { largest }))
        }
        (OpKind::Sum, Skip, RunToRun) => words(T::nearest(fold::<T, NumberSum<Itself>>(values))),
        (OpKind::SumOfSquares, Skip, RunToRun) => {
            words(T::nearest(fold::<T, NumberSum<Square>>(values)))
        }
        (OpKind::SumOfMagnitudes, Skip, RunToRun) => {
            words(T::nearest(fold::<T, NumberSum<Magnitude>>(values)))
        }
        (OpKind::Product, Skip, RunToRun) => words(T::nearest(fold::<T, NumberProduct>(values))),
        (OpKind::CountNan, ..) => words(fold::<T, NanCount>(values)),
        (OpKind::Min, Skip, RunToRun) => words(fold::<T, NumberExtreme<Least>>(values).element::<T>()),
        (OpKind::Max, Skip, RunToRun) => {
            words(fold::<T, NumberExtreme<Greatest>>(values).element::<T>())
        }
        (OpKind::MinMax, Skip, RunToRun) => {
            let (min, max) = fold::<T, (NumberExtreme<Least>, NumberExtreme<Greatest>)>(values);
            words([min.element::<T>(), max.element::<T>()])
        }
        (OpKind::ArgMin, Skip, RunToRun) => fold::<T, NumberPlace<Least>>(values).words(),
        (OpKind::ArgMax, Skip, RunToRun) => fold::<T, NumberPlace<Greatest>>(values).words(),
        (OpKind::Mean, Propagate, RunToRun) => {
            words(mean(fold::<T, DoubleSum<Itself>>(values), values.len() as u64, || {
                fold::<T, BinnedSum<Itself>>(values)
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
            let count = values.len() as u64 - if nan == Skip { fold::<T, NanCount>(values) } else { 0 };
            let term = |value: T| {
                if counted(nan, value) { value.term().four_over() } else { T::Sum::ZERO }
            };
            let sum = fold_by(values, &|values| binned_sum(values, term), &Partial::plus);
            words(4.0 / sum.mean(count))
        }
        (OpKind::ThirdCentralMoment, nan, RunToRun) => words(third_moment(values, nan)),
        (OpKind::MeanAndVariance, Propagate, _) => {
            let sums = fold::<T, BinnedMoments<Itself>>(values);
            moments(sums.moments(values.len() as u64))
        }
        (OpKind::MeanAndVariance, Skip, _) => {
            let count = values.len() as u64 - fold::<T, NanCount>(values);
            moments(fold::<T, BinnedMoments<OfNumbers<Itself>>>(values).moments(count))
        }
        _ => of_any(op, values),
    }
}

/// Of pairs, of which there is one at least.
pub(super) fn of_integer_pairs<T: Integer>(op: PairOp, first: &[T], second: &[T]) -> Words {
    words(match op {
        PairOp::Dot => fold_pairs::<T, WrappingPairs<Times>>(first, second),
        PairOp::SquaredDistance => fold_pairs::<T, WrappingPairs<DistanceSquared>>(first, second),
        op => unreachable!("{op} is no operation on pairs of integers"),
    })
}

/// Of pairs, of which there is one at least.
pub(super) fn of_float_pairs<T: Real>(op: PairOp, first: &[T], second: &[T]) -> Words {
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

/// The mean of `count` floats with such a sum; of those whose sum overflows on the way, by an exact sum.
fn mean<S: Float>(sum: f64, count: u64, exact: impl FnOnce() -> Partial<S>) -> f64 {
    if sum.is_finite() { sum / count as f64 } else { exact().mean(count) }
}

/// The L2 norm of the floats that are numbers, and of NaN if this sum of squares is NaN. Where squares
/// overflow or vanish, the numbers are scaled.
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
    // A power of two, by which no number is rounded that counts beside the largest.
    let scale = if most < 1.0 { 2_f64.powi(600) } else { 2_f64.powi(-600) };
    let square = |value: T| (magnitude(value) * scale).square();
    let squares = |values: &[T]| in_lanes(values, 0.0, |sum, value| sum + square(value), Add::add);
    fold_by(values, &squares, &|a: f64, b: f64| a + b).sqrt() / scale
}

/// Returns whether a float counts.
fn counted<T: Real>(nan: Nan, value: T) -> bool {
    nan == Propagate || !value.is_nan()
}

/// The harmonic mean of the elements that are numbers. The reciprocals of small ones are added apart: in
/// both scales none overflows or is subnormal.
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
    let meet = |a: (u64, f64, f64), b: (u64, f64, f64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
    let leaf = |values: &[T]| in_lanes(values, (0, 0.0, 0.0), add, meet);
    let (count, near, far) = fold_by(values, &leaf, &meet);
    let count = count as f64;
    match far {
        0.0 => count * power(64) / near,
        _ => count / (far + near * power(-192)) * power(-128),
    }
}

/// The third central moment of the floats that count, from their distances from the one nearest to the
/// mean.
fn third_moment<T: Real>(values: &[T], nan: Nan) -> f64 {
    let count = values.len() as u64 - if nan == Skip { fold::<T, NanCount>(values) } else { 0 };
    let term = |value: T| if counted(nan, value) { value.term() } else { T::Sum::ZERO };
    let mean = fold_by(values, &|values| binned_sum(values, term), &Partial::plus).mean(count);
    // An element, so that those of a constant have no distance: a mean is rounded.
    let nearer = |a: f64, b: f64| if (b - mean).abs() < (a - mean).abs() { b } else { a };
    let nearest = |near, value: T| if counted(nan, value) { nearer(near, value.double()) } else { near };
    let leaf = |values: &[T]| in_lanes(values, f64::INFINITY, nearest, nearer);
    let near = fold_by(values, &leaf, &nearer);
    let add = |sums: [f64; 3], value: T| {
        let distance = if counted(nan, value) { value.double() - near } else { 0.0 };
        let square = distance * distance;
        [sums[0] + distance, sums[1] + square, sums[2] + square * distance]
    };
    let meet = |a: [f64; 3], b: [f64; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
    let [sum, squares, cubes] =
        fold_by(values, &|values: &[T]| in_lanes(values, [0.0; 3], add, meet), &meet);
    let count = count as f64;
    let offset = sum / count;
    (cubes - offset * (3.0 * squares - 2.0 * sum * offset)) / count
}

/// How many elements lie in an interval, and their sum in two words, of which there is one at least to
/// look at. There is one way to add integers.
pub(super) fn of_integers_within<T: Integer>((_op, ends): (WithinOp, Ends), values: &[T]) -> Words {
    let (count, sum) = within(ends, values, 0, T::widest, u128::wrapping_add);
    [count, sum as u64, (sum >> 64) as u64]
}

/// Does for floats what [`of_integers_within`] does.
pub(super) fn of_floats_within<T: Real>((op, ends): (WithinOp, Ends), values: &[T]) -> Words {
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
    // It is exact, and does not overflow on the way.
    let (count, sum) = binned_within(ends, values);
    let [word, ..] = words(sum.sum());
    [count, word, sum.wide().to_bits()]
}

/// How many elements lie in an interval, and what is made of them in pairs.
fn within<T: Item, S: Copy + Send + Sync>(
    ends: Ends,
    values: &[T],
    zero: S,
    term: impl Fn(T) -> S + Sync,
    add: impl Fn(S, S) -> S + Sync,
) -> (u64, S) {
    let [low, high] = ends.elements::<T>();
    let meet = |a: (u64, S), b: (u64, S)| (a.0 + b.0, add(a.1, b.1));
    let of = |value: T| if low <= value && value <= high { (1, term(value)) } else { (0, zero) };
    let leaf = |values: &[T]| in_lanes(values, (0, zero), |kept, value| meet(kept, of(value)), meet);
    fold_by(values, &leaf, &meet)
}

/// How many elements lie in an interval, and their binned sum.
fn binned_within<T: Real>(ends: Ends, values: &[T]) -> (u64, Partial<T::Sum>) {
    let [low, high] = ends.elements::<T>();
    let is_inside = |value: T| low <= value && value <= high;
    let leaf = |values: &[T]| {
        let count = |kept: u64, value| kept + u64::from(is_inside(value));
        let term = |value: T| if is_inside(value) { value.term() } else { T::Sum::ZERO };
        (in_lanes(values, 0, count, Add::add), binned_sum(values, term))
    };
    let meet = |a: (u64, Partial<T::Sum>), b: (u64, _)| (a.0 + b.0, a.1.plus(b.1));
    fold_by(values, &leaf, &meet)
}

/// Of elements, of which there is one at least, by an operation that integers and floats have.
fn of_any<T: Item>(op: Op, values: &[T]) -> Words {
    match op.kind {
        OpKind::Min => words(fold::<T, Extreme<Least>>(values).element::<T>()),
        OpKind::Max => words(fold::<T, Extreme<Greatest>>(values).element::<T>()),
        OpKind::MinMax => {
            let (min, max) = fold::<T, (Extreme<Least>, Extreme<Greatest>)>(values);
            words([min.element::<T>(), max.element::<T>()])
        }
        OpKind::ArgMin => fold::<T, Place<Least>>(values).words(),
        OpKind::ArgMax => fold::<T, Place<Greatest>>(values).words(),
        OpKind::CountNonZero => words(fold::<T, NonZero>(values)),
        _ => unreachable!("{op} is no operation of these elements"),
    }
}

/// What of an element is added up.
trait Term {
    /// Gives the term of a number.
    fn of<N: Number>(number: N) -> N;
    /// Of an integer, in 64 bits.
    fn wide<T: Integer>(element: T) -> u64;
}

/// The term is the element itself.
struct Itself;
/// The term is the element's square.
struct Square;
/// The term is the element's magnitude.
struct Magnitude;

impl Term for Itself {
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

/// What a binned sum adds up of each element, or of each pair of elements.
trait BinnedTerm<T> {
    /// The type of the sum.
    type Sum: Binned;
    /// Gives the term, rounded to that type.
    fn term(value: T) -> Self::Sum;
}

impl<T: Real, M: Term> BinnedTerm<T> for M {
    type Sum = T::Sum;

    #[inline(always)]
    fn term(value: T) -> T::Sum {
        M::of(value.term())
    }
}

/// Of a number its term, and zero of NaN.
struct OfNumbers<M>(PhantomData<M>);

impl<T: Real, M: Term> BinnedTerm<T> for OfNumbers<M> {
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

/// The binned sum of terms.
struct BinnedSum<M>(PhantomData<M>);

impl<T: Copy, M: BinnedTerm<T>> Fold<T> for BinnedSum<M> {
    type Kept = Partial<M::Sum>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Kept {
        binned_sum(values, M::term)
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        first.plus(second)
    }
}

/// The binned sum of the terms of a few values.
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

/// The binned sums of elements and of their squares.
struct BinnedMoments<M>(PhantomData<M>);

impl<T: Real, M: BinnedTerm<T, Sum = T::Sum>> Fold<T> for BinnedMoments<M> {
    type Kept = Partial<T::Moments>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Kept {
        let mut sums = Running::<T::Moments>::new();
        let (turns, rest) = values.as_chunks::<8>();
        turns.iter().for_each(|turn| sums.add(turn.map(M::term)));
        rest.iter().for_each(|&value| sums.add([M::term(value)]));
        sums.close()
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        first.plus(second)
    }
}

/// The sum of integers, and that of their squares, exactly.
struct ExactSums;

/// The sum, and the sums of the lower and of the upper 64 bits of the squares.
type Exact = (i128, u128, u128);

impl<T: Integer> Fold<T> for ExactSums {
    type Kept = Exact;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Exact {
        let add = |sums: Exact, value: T| {
            let magnitude = u128::from(value.magnitude());
            let (square, low) = (magnitude * magnitude, u128::from(u64::MAX));
            let sum = value.widest().cast_signed();
            <Self as Fold<T>>::meet(sums, (sum, square & low, square >> u64::BITS))
        };
        in_lanes(values, (0, 0, 0), add, <Self as Fold<T>>::meet)
    }

    #[inline(always)]
    fn meet(first: Exact, second: Exact) -> Exact {
        (first.0 + second.0, first.1 + second.1, first.2 + second.2)
    }
}

/// Which extreme is looked for.
trait Wanted {
    /// Whether the first of two takes the place of the second.
    fn beats<O: PartialOrd>(a: O, b: O) -> bool;
    /// Gives one of two keys.
    fn of<K: Ord>(a: K, b: K) -> K;
    /// The key that gives way to all.
    fn none<T: Item>() -> T::Key;
}

/// The smallest of the elements.
struct Least;
/// The largest of the elements.
struct Greatest;

impl Wanted for Least {
    #[inline(always)]
    fn beats<O: PartialOrd>(a: O, b: O) -> bool {
        a < b
    }
    #[inline(always)]
    fn of<K: Ord>(a: K, b: K) -> K {
        a.min(b)
    }
    #[inline(always)]
    fn none<T: Item>() -> T::Key {
        T::GREATEST
    }
}

impl Wanted for Greatest {
    #[inline(always)]
    fn beats<O: PartialOrd>(a: O, b: O) -> bool {
        a > b
    }
    #[inline(always)]
    fn of<K: Ord>(a: K, b: K) -> K {
        a.max(b)
    }
    #[inline(always)]
    fn none<T: Item>() -> T::Key {
        T::LEAST
    }
}

/// An extreme of the elements.
struct Extreme<E>(PhantomData<E>);

/// The key of an extreme element, and whether any element was NaN.
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

impl<T: Item, E: Wanted> Fold<T> for Extreme<E> {
    type Kept = Found<T::Key>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Kept {
        let nan = in_lanes(values, false, |nan, value: T| nan | value.is_nan(), |a, b| a | b);
        let key = in_lanes(values, E::none::<T>(), |key, value: T| E::of(key, value.key()), E::of);
        Found { key, nan }
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        Found { key: E::of(first.key, second.key), nan: first.nan | second.nan }
    }
}

/// An extreme of the elements that are numbers.
struct NumberExtreme<E>(PhantomData<E>);

/// Whether all elements were NaN takes the place of whether any was.
impl<T: Item, E: Wanted> Fold<T> for NumberExtreme<E> {
    type Kept = Found<T::Key>;

    #[inline(always)]
    fn leaf(values: &[T], _index: u64) -> Self::Kept {
        let nan = in_lanes(values, true, |nan, value: T| nan & value.is_nan(), |a, b| a & b);
        let key_of = |value: T| if value.is_nan() { E::none::<T>() } else { value.key() };
        let key = in_lanes(values, E::none::<T>(), |key, value: T| E::of(key, key_of(value)), E::of);
        Found { key, nan }
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        Found { key: E::of(first.key, second.key), nan: first.nan & second.nan }
    }
}

/// Two operations in one pass.
impl<T: Item, A: Fold<T>, B: Fold<T>> Fold<T> for (A, B) {
    type Kept = (A::Kept, B::Kept);

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Self::Kept {
        (A::leaf(values, index), B::leaf(values, index))
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        (A::meet(first.0, second.0), B::meet(first.1, second.1))
    }
}

/// The first extreme element, or the first NaN, with its place.
struct Place<E>(PhantomData<E>);

/// An element and its place.
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

impl<T: Item, E: Wanted> Fold<T> for Place<E> {
    type Kept = Located<T>;

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Self::Kept {
        let extreme = Extreme::<E>::leaf(values, index);
        let value: T = extreme.element();
        // Zeros of both signs are equal, and so may be another one.
        let is_first = |other: &T| if extreme.nan { other.is_nan() } else { *other == value };
        let at = values.iter().position(is_first).expect("it is one of the values");
        Located { value: values[at], index: index + at as u64 }
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        let (a, b) = (first.value, second.value);
        if !a.is_nan() && (b.is_nan() || E::beats(b, a)) { second } else { first }
    }
}

/// The first extreme element that is a number, or the first NaN, with its place.
struct NumberPlace<E>(PhantomData<E>);

impl<T: Item, E: Wanted> Fold<T> for NumberPlace<E> {
    type Kept = Located<T>;

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Self::Kept {
        let extreme = NumberExtreme::<E>::leaf(values, index);
        let value: T = extreme.element();
        // Zeros of both signs are equal, and so may be another one.
        let is_first = |other: &T| extreme.nan || *other == value;
        let at = values.iter().position(is_first).expect("it is one of the values");
        Located { value: values[at], index: index + at as u64 }
    }

    #[inline(always)]
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept {
        let (a, b) = (first.value, second.value);
        if !b.is_nan() && (a.is_nan() || E::beats(b, a)) { second } else { first }
    }
}

/// What is made of a float, or something else of NaN.
#[inline(always)]
fn number_or<T: Real>(value: T, other: f64, of: impl Fn(f64) -> f64) -> f64 {
    if value.is_nan() { other } else { of(value.double()) }
}

macro_rules! simple {
    ($(
        $(#[$attr:meta])*
        $Name:ident$(<$M:ident>)? of $Bound:ident in $Kept:ty: $none:expr, |$value:ident| $of:expr,
        $meet:expr;
    )*) => {$(
        $(#[$attr])*
        struct $Name$(<$M>(PhantomData<$M>))?;

        impl<T: $Bound $(, $M: Term)?> Fold<T> for $Name$(<$M>)? {
            type Kept = $Kept;

            #[inline(always)]
            fn leaf(values: &[T], _index: u64) -> $Kept {
                in_lanes(values, $none, |kept, $value: T| $meet(kept, $of), $meet)
            }

            #[inline(always)]
            fn meet(first: $Kept, second: $Kept) -> $Kept {
                $meet(first, second)
            }
        }
    )*};
}

simple! {
    /// The sum of integers' terms.
    WrappingSum<M> of Integer in u64: 0, |value| M::wide(value), u64::wrapping_add;
    /// The sum of floats' terms.
    DoubleSum<M> of Real in f64: 0.0, |value| M::of(value.double()), Add::add;
    /// The product of integers.
    WrappingProduct of Integer in u64: 1, |value| value.wide(), u64::wrapping_mul;
    /// The product of floats.
    DoubleProduct of Real in f64: 1.0, |value| value.double(), Mul::mul;
    /// How many elements are not zero.
    NonZero of Item in u64: 0, |value| u64::from(value.is_nonzero()), u64::wrapping_add;
    /// The sum of integers in 128 bits.
    WideSum of Integer in u128: 0, |value| value.widest(), u128::wrapping_add;
    /// The sum of integers' magnitudes in 128 bits.
    WideMagnitudes of Integer in u128: 0, |value| u128::from(value.magnitude()), u128::wrapping_add;
    /// The sum of the terms of floats that are numbers.
    NumberSum<M> of Real in f64: 0.0, |value| number_or(value, 0.0, M::of), Add::add;
    /// The product of floats that are numbers.
    NumberProduct of Real in f64: 1.0, |value| number_or(value, 1.0, identity), Mul::mul;
    /// How many floats are NaN.
    NanCount of Real in u64: 0, |value| u64::from(value.is_nan()), u64::wrapping_add;
    /// The bits that all elements have.
    And of Integer in u64: u64::MAX, |value| value.wide(), BitAnd::bitand;
    /// The bits that any element has.
    Or of Integer in u64: 0, |value| value.wide(), BitOr::bitor;
    /// The bits that an odd number of elements have.
    Xor of Integer in u64: 0, |value| value.wide(), BitXor::bitxor;
}

/// What of a pair is added up.
trait PairTerm {
    /// Gives the term of two numbers.
    fn of<N: Mul<Output = N> + Sub<Output = N> + Copy>(first: N, second: N) -> N;
    /// Of two integers in 64 bits.
    fn wide(first: u64, second: u64) -> u64;
}

/// The product of both.
struct Times;
/// The square of their difference.
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

/// The sum of the terms of pairs of integers.
struct WrappingPairs<M>(PhantomData<M>);

impl<T: Integer, M: PairTerm> Fold<(T, T)> for WrappingPairs<M> {
    type Kept = u64;

    #[inline(always)]
    fn leaf(pairs: &[(T, T)], _index: u64) -> u64 {
        let term = |(first, second): (T, T)| M::wide(first.wide(), second.wide());
        in_lanes(pairs, 0, |sum: u64, pair| sum.wrapping_add(term(pair)), u64::wrapping_add)
    }

    #[inline(always)]
    fn meet(first: u64, second: u64) -> u64 {
        first.wrapping_add(second)
    }
}

/// The sum of the terms of pairs of floats.
struct DoublePairs<M>(PhantomData<M>);

impl<T: Real, M: PairTerm> Fold<(T, T)> for DoublePairs<M> {
    type Kept = f64;

    #[inline(always)]
    fn leaf(pairs: &[(T, T)], _index: u64) -> f64 {
        let term = |(first, second): (T, T)| M::of(first.double(), second.double());
        in_lanes(pairs, 0.0, |sum, pair| sum + term(pair), Add::add)
    }

    #[inline(always)]
    fn meet(first: f64, second: f64) -> f64 {
        first + second
    }
}

/// The logarithm of the sum of the elements' exponentials.
struct LogSumExp;

/// The largest of some elements, or NaN if there is one, and the sum of e to the power of each minus the
/// largest, if that is finite.
#[derive(Clone, Copy)]
struct Exponentials {
    largest: f64,
    sum: f64,
}

impl Exponentials {
    /// Measured from something that is no smaller.
    fn from(self, largest: f64) -> f64 {
        // Nothing is left of what is all −∞, whatever it is measured from.
        if self.sum == 0.0 { 0.0 } else { self.sum * (self.largest - largest).exp() }
    }
}

impl<T: Real> Fold<T> for LogSumExp {
    type Kept = Exponentials;

    #[inline(always)]
    fn leaf(values: &[T], index: u64) -> Exponentials {
        let largest = Extreme::<Greatest>::leaf(values, index).element::<T>().double();
        if !largest.is_finite() {
            return Exponentials { largest, sum: 0.0 };
        }
        let term = |value: T| (value.double() - largest).exp();
        Exponentials { largest, sum: in_lanes(values, 0.0, |sum, value| sum + term(value), Add::add) }
    }

    #[inline(always)]
    fn meet(a: Exponentials, b: Exponentials) -> Exponentials {
        let nan = a.largest.is_nan() || b.largest.is_nan();
        let largest = if nan { f64::NAN } else { a.largest.max(b.largest) };
        Exponentials { largest, sum: a.from(largest) + b.from(largest) }
    }
}
