//! Means and variances of floats in one pass.
//!
//! A thread chooses a *pivot*, a finite element of its first vector if there is one, and adds up the
//! distances of its elements from the pivot, and their squares, in double precision. Even if the mean is
//! large compared with the deviation, the distances are small, so that no large sums cancel. The means
//! and the sums of squared distances from the means are then merged across threads and blocks (T. F.
//! Chan, G. H. Golub and R. J. LeVeque, *Algorithms for Computing the Sample Variance: Analysis and
//! Recommendations*, The American Statistician 37, 1983).
//!
//! For `f64`, a mean is stored as a pivot and an offset, because half a unit in the last place of the
//! mean may be as much as the deviation. Squared distances above 2^960 are stored in units of 2^1200, so
//! that none overflows unless the variance does.

use core::{convert::identity, marker::PhantomData};

use warpfold_device::{
    combined_by,
    math::fma,
    op::{Number, Operation},
    reduction::{ACCUMULATORS, Reduction, Vector, VectorReduction},
    thread::Few,
    value,
};

use super::{
    form::{MeanVariance, written_as},
    item::Unpacked,
    real::{Center, Floats, Real},
    skip_nan::{All, NanFilter, Numbers},
    sums::{DOWN, UP},
};

value! {
    pub(super) struct Moments<C> {
        /// The number of elements, and the flag [`FAR`].
        count: u64,
        /// The mean; arbitrary if there are no elements.
        mean: C,
        /// The sum of the squared distances from the mean.
        squares: f64,
    }
}

/// A flag in [`Moments::count`], set if [`Moments::squares`] is in units of 2^1200.
const FAR: u64 = 1 << 63;

impl<C: Center> Moments<C> {
    /// Returns the moments of one element; if it is not finite, the sum of squares is NaN.
    #[inline(always)]
    fn of(element: f64) -> Self {
        Self { count: 1, mean: C::at(element, 0.0), squares: element - element }
    }

    #[inline(always)]
    fn elements(self) -> u64 {
        self.count & !FAR
    }

    /// Returns the sum of squares, in units of 2^1200 if `far`.
    #[inline(always)]
    fn squares_in(self, far: bool) -> f64 {
        let down = self.squares * DOWN * DOWN;
        if far && self.count & FAR == 0 { down } else { self.squares }
    }

    /// Returns the mean and the variance, both NaN for no elements.
    #[inline(always)]
    fn finish(self) -> [f64; 2] {
        let variance = self.squares / self.elements() as f64;
        let is_far = C::HAS_FAR && self.count & FAR != 0;
        let mean = if self.count == 0 { f64::NAN } else { self.mean.value() };
        [mean, if is_far { variance * UP * UP } else { variance }]
    }
}

#[derive(Clone, Copy)]
pub(super) struct Merge;

impl<C: Center> Operation<Moments<C>> for Merge {
    const IDENTITY: Moments<C> = Moments { count: 0, mean: C::NONE, squares: 0.0 };

    #[inline(always)]
    fn combine(a: Moments<C>, b: Moments<C>) -> Moments<C> {
        let (before, behind) = (a.elements(), b.elements());
        let count = before + behind;
        // Avoids 0 / 0 if both are empty.
        let share = behind as f64 / Ord::max(count, 1) as f64;
        let weight = before as f64 * share;
        let distance = a.mean.distance(b.mean);
        let (from, to) = (a.mean.value(), b.mean.value());
        let moved = a.mean.moved(distance * share);
        // Computed without branches, which would lengthen a short launch.
        let mean = if moved.value().is_finite() {
            moved
        } else {
            // A mean is infinite or NaN, or the distance between them overflows.
            C::at(if C::HAS_FAR { from * (1.0 - share) + to * share } else { from + to }, 0.0)
        };
        let is_near = distance.magnitude() <= C::NEAR && (a.count | b.count) & FAR == 0;
        let is_far = C::HAS_FAR && !is_near;
        let scaled = if is_far { a.mean.far_distance(b.mean) } else { distance };
        let squares = a.squares_in(is_far) + b.squares_in(is_far) + scaled * scaled * weight;
        let both = Moments { count: if is_far { count | FAR } else { count }, mean, squares };
        unless_empty((before, a), (behind, b), both)
    }
}

/// Returns the combination `both`; if `a` or `b` has no elements, returns the other one exactly.
#[inline(always)]
pub(super) fn unless_empty<P>((before, a): (u64, P), (behind, b): (u64, P), both: P) -> P {
    if before == 0 {
        b
    } else if behind == 0 {
        a
    } else {
        both
    }
}

#[derive(Clone, Copy)]
pub(super) struct Distances {
    sum: f64,
    squares: f64,
}

impl Distances {
    // The identity of float addition is −0: adding +0 would change −0 to +0.
    const NONE: Self = Self { sum: -0.0, squares: 0.0 };

    #[inline(always)]
    fn add(&mut self, distance: f64) {
        self.sum += distance;
        self.squares = fma(distance, distance, self.squares);
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    /// Returns the mean of `count` distances and the sum of the squared distances from that mean.
    /// Rounding could make this sum negative, so it is at least 0.
    #[inline(always)]
    fn centered(self, count: f64) -> (f64, f64) {
        let mean = self.sum / count;
        let squares = fma(-self.sum, mean, self.squares);
        (mean, if squares < 0.0 { 0.0 } else { squares })
    }
}

/// A thread's accumulator. The count does not overflow: no thread accumulates 2^32 elements.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    count: u32,
    pivot: f64,
    near: [Distances; ACCUMULATORS],
    /// The distances above [`Center::NEAR`], each times [`DOWN`].
    far: Distances,
}

/// Returns a finite element of a vector, or 0 if there is none.
#[inline(always)]
pub(super) fn pivot<T: Unpacked<Total: Real>>(group: Vector) -> f64 {
    let finite = |a: T::Total, b: T::Total| if a.to_f64().is_finite() { a } else { b };
    let found = T::terms(group, identity).tree_reduce(finite).to_f64();
    if found.is_finite() { found } else { 0.0 }
}

pub(super) struct SpreadOf<T, W>(PhantomData<(T, W)>);
pub(super) type Spread<T> = SpreadOf<T, All>;
pub(super) type NanSpread<T> = SpreadOf<T, Numbers>;

impl<T: Floats, W: NanFilter> SpreadOf<T, W> {
    /// Accumulates a vector's elements one by one, because some may be skipped or far from the pivot.
    #[inline(always)]
    fn accumulate_each(kept: &mut Kept, chain: usize, vector: Vector) {
        T::each(vector, |element| {
            if !W::counts(element) {
                return;
            }
            kept.count += 1;
            let (element, pivot) = (element.to_f64(), kept.pivot);
            let distance = element - pivot;
            if distance.magnitude() <= <T::In as Real>::Center::NEAR {
                kept.near[chain].add(distance);
            } else {
                kept.far.add(element * DOWN - pivot * DOWN);
            }
        });
    }
}

impl<T: Floats, W: NanFilter> Reduction for SpreadOf<T, W> {
    type Element = T;
    type Partial = Moments<<T::In as Real>::Center>;
    type Output = [f64; 2];
    combined_by!(Merge);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let number = element.term();
        if W::counts(number) { Moments::of(number.to_f64()) } else { Merge::IDENTITY }
    }

    #[inline(always)]
    fn finish(moments: Self::Partial) -> [f64; 2] {
        moments.finish()
    }

    written_as!(MeanVariance<T>: |moments, _arguments| (moments.finish(), moments.elements()));
}

impl<T: Floats, W: NanFilter> VectorReduction for SpreadOf<T, W> {
    type Accumulator = Kept;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Kept {
        Kept { count: 0, pivot: 0.0, near: [Distances::NONE; ACCUMULATORS], far: Distances::NONE }
    }

    #[inline(always)]
    fn accumulate(kept: &mut Kept, chain: usize, vector: Vector, _index: u64) {
        if kept.count == 0 {
            kept.pivot = pivot::<T>(vector);
        }
        let (pivot, mut distances) = (kept.pivot, Distances::NONE);
        T::each(vector, |element| distances.add(element.to_f64() - pivot));
        // A NaN fails the comparison below, as a distance above `near` does.
        let is_checked = <T::In as Real>::Center::HAS_FAR || W::SKIPS;
        let near = <T::In as Real>::Center::NEAR;
        if !is_checked || distances.squares <= near * near {
            kept.count += T::LANES as u32;
            kept.near[chain] = kept.near[chain].plus(distances);
        } else {
            Self::accumulate_each(kept, chain, vector);
        }
    }

    #[inline(always)]
    fn close(kept: Kept) -> Self::Partial {
        let Kept { count, pivot, near: [a, b, c, d], far } = kept;
        let (near, n) = (a.plus(b).plus(c.plus(d)), f64::from(count));
        let at = <T::In as Real>::Center::at;
        if count == 0 {
            return Merge::IDENTITY;
        }
        if <T::In as Real>::Center::HAS_FAR && far.squares != 0.0 {
            let near = Distances { sum: near.sum * DOWN, squares: near.squares * DOWN * DOWN };
            let (offset, squares) = far.plus(near).centered(n);
            let (count, whole) = (u64::from(count) | FAR, offset * UP);
            // The mean is in the range of the elements, but its offset from the pivot may overflow.
            let half = pivot * 0.5 + offset * (UP * 0.5);
            let has_offset = whole.is_finite() && (pivot + whole).is_finite();
            let mean = if has_offset { at(pivot, whole) } else { at(half * 2.0, 0.0) };
            return Moments { count, mean, squares };
        }
        let (offset, squares) = near.centered(n);
        Moments { count: count.into(), mean: at(pivot, offset), squares }
    }
}
