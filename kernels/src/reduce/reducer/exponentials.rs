//! The logarithm of the sum of the exponentials, in one pass.
//!
//! A thread keeps the largest element so far, m, and the sum of e^(x − m) over its elements x. No
//! exponential exceeds 1, and that of m is 1, so the sum neither overflows nor vanishes. A larger
//! element rescales the sum (M. Milakov and N. Gimelshein, *Online normalizer calculation for softmax*,
//! 2018).

use core::marker::PhantomData;

use warpfold_device::{
    Value, combined_by,
    math::Exponential,
    op::{self, Number, Operation},
    reduction::{ACCUMULATORS, Reduction, Vector, VectorReduction},
    thread::Few,
};

use super::{
    item::{Item, Ordered, Unpacked},
    real::Real,
};

pub(super) trait Float: Real + Ordered + Exponential {}

impl Float for f32 {}
impl Float for f64 {}

/// The largest element m, and the sum of e^(x − m) over the elements x. If m is not finite, the sum is
/// unused.
type Exponentials<R> = (R, R);

/// Returns the number that is subtracted from elements: the largest one if it is finite, otherwise 0, so
/// that −∞ adds 0 and −∞ − (−∞) does not occur.
#[inline(always)]
fn pivot<R: Float>(largest: R) -> R {
    if largest.is_finite() { largest } else { R::ZERO }
}

#[derive(Clone, Copy)]
pub(super) struct Merge;

impl<R: Float + Value> Operation<Exponentials<R>> for Merge {
    const IDENTITY: Exponentials<R> = (R::SMALLEST, R::ZERO);

    /// Scales only one of the two sums, because exponentials are expensive in `f64`.
    #[inline(always)]
    fn combine(a: Exponentials<R>, b: Exponentials<R>) -> Exponentials<R> {
        let (above, below) = if b.0.above(a.0) { (b, a) } else { (a, b) };
        let share = below.0.subtract(pivot(above.0)).exp();
        (above.0, above.1.add(below.1.multiply(share)))
    }
}

pub(super) struct LogSumExp<T>(PhantomData<T>);

impl<T, R> Reduction for LogSumExp<T>
where
    T: Unpacked<Wide = R, Total = R> + Item<Wide = R>,
    R: Float,
{
    type Element = T;
    type Partial = Exponentials<R>;
    type Output = R;
    combined_by!(Merge);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let element = element.widen();
        (element, if element.same(R::SMALLEST) { R::ZERO } else { R::ONE })
    }

    #[inline(always)]
    fn finish((largest, sum): Self::Partial) -> R {
        let of_finite = largest.add(sum.ln());
        if largest.is_finite() { of_finite } else { largest }
    }
}

impl<T, R> VectorReduction for LogSumExp<T>
where
    T: Unpacked<Wide = R, Total = R> + Item<Wide = R>,
    R: Float,
{
    type Accumulator = [Exponentials<R>; ACCUMULATORS];
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [Self::IDENTITY; ACCUMULATORS]
    }

    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, chain: usize, vector: Vector, _index: u64) {
        let (largest, sum) = kept[chain];
        let next = largest.greatest(<T as Item>::extreme::<op::Max>(vector));
        let pivot = pivot(next);
        // If the largest element is unchanged, the sum needs no exponential. In unordered input, new
        // maxima soon become rare.
        let sum = if next.same(largest) { sum } else { sum.multiply(largest.subtract(pivot).exp()) };
        let terms = T::terms(vector, |element| element.subtract(pivot).exp());
        kept[chain] = (next, sum.add(terms.tree_reduce(Number::add)));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.tree_reduce(Self::combine)
    }
}
