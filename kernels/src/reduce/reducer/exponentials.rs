//! The logarithm of the sum of the exponentials, in one pass.
//!
//! What a thread keeps is the largest element so far, and the sum of the exponentials of what is between
//! it and the elements: none is above 1, so the sum neither overflows nor vanishes. Where a larger
//! element comes, the sum is scaled (M. Milakov and N. Gimelshein, *Online normalizer calculation for
//! softmax*, 2018).

use core::marker::PhantomData;

use warpfold_abi::arguments::ReduceCut;
use warpfold_device::{
    Value,
    math::Exponential,
    op::{self, Number, Operation},
    reduction::{CHAINS, Fold, Group},
    thread::Few,
};

use super::{
    item::{Item, Ordered, Unpacked},
    moments::Real,
};

/// Floats that exponentials are summed in.
pub(super) trait Float: Real + Ordered + Exponential {}

impl Float for f32 {}
impl Float for f64 {}

/// The largest of some elements, and the sum of e to the power of each minus the largest. Where that is
/// no finite number, the sum is none either, or 0, and does not matter.
type Exponentials<R> = (R, R);

/// What elements are measured from: the largest of them. All of −∞ are measured from 0, so that they
/// add 0, and so that a difference of theirs is no NaN.
#[inline(always)]
fn pivot<R: Float>(largest: R) -> R {
    if largest.is_finite() { largest } else { R::ZERO }
}

/// Those of two sets.
#[derive(Clone, Copy)]
pub(super) struct Merge;

impl<R: Float + Value> Operation<Exponentials<R>> for Merge {
    const IDENTITY: Exponentials<R> = (R::SMALLEST, R::ZERO);

    /// One of the two sums is scaled: exponentials are long in `f64`.
    #[inline(always)]
    fn combine(a: Exponentials<R>, b: Exponentials<R>) -> Exponentials<R> {
        let (above, below) = if b.0.above(a.0) { (b, a) } else { (a, b) };
        let share = below.0.subtract(pivot(above.0)).exp();
        (above.0, above.1.add(below.1.multiply(share)))
    }
}

/// The logarithm of the sum of the elements' exponentials.
pub(super) struct LogSumExp<T>(PhantomData<T>);

impl<T, R> Fold for LogSumExp<T>
where
    T: Unpacked<Wide = R, Total = R> + Item<Wide = R>,
    R: Float,
{
    type Element = T;
    type Accumulator = [Exponentials<R>; CHAINS];
    type Partial = Exponentials<R>;
    type Combine = Merge;
    type Continued = Self;
    const COMBINE: Merge = Merge;
    const RESULT_BYTES: u64 = size_of::<R>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [Merge::IDENTITY; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        let (largest, sum) = kept[chain];
        let next = largest.greatest(<T as Item>::extreme::<op::Max>(group));
        let pivot = pivot(next);
        // Of elements in no order that is soon the exception.
        let sum = if next.same(largest) { sum } else { sum.multiply(largest.subtract(pivot).exp()) };
        let terms = T::terms(group, |element| element.subtract(pivot).exp());
        kept[chain] = (next, sum.add(terms.in_pairs(Number::add)));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.in_pairs(Merge::combine)
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Self::Partial {
        let element = element.widen();
        (element, if element.same(R::SMALLEST) { R::ZERO } else { R::ONE })
    }

    #[inline(always)]
    unsafe fn write((largest, sum): Self::Partial, arguments: ReduceCut<T>) {
        let of_finite = largest.add(sum.ln());
        let logarithm = if largest.is_finite() { of_finite } else { largest };
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = logarithm };
    }
}
