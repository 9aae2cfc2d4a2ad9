//! Means and variances of floats in one pass.
//!
//! A thread chooses a *pivot*, a finite element of its first vector if there is one, and adds up the
//! distances of its elements from the pivot, and their squares, in double precision. Even if the mean is
//! large compared with the deviation, the distances are small, so that no large sums cancel (T. F. Chan,
//! G. H. Golub and R. J. LeVeque, *Algorithms for Computing the Sample Variance: Analysis and
//! Recommendations*, The American Statistician 37, 1983).
//!
//! Partial results of elements of up to 32 bits are such sums, [`About`] a pivot: to combine two of
//! them, one is moved to the pivot of the other. Only the result takes a division.
//!
//! For `f64`, a distance or its square may overflow. Partial results are [`Centered`]: means and sums of
//! squared distances from the means. A mean is stored as a pivot and an offset, because half a unit in
//! the last place of the mean may be as much as the deviation. Squared distances above 2^960 are stored
//! in units of 2^1200, so that none overflows unless the variance does.

use core::{convert::identity, marker::PhantomData};

use warpfold_device::{
    Value, combined_by,
    math::fma,
    op::{Number, Operation, Sum},
    reduction::{self, ACCUMULATORS, Reduction, Vector, VectorReduction},
    thread::Few,
    value,
    warp::{self, FULL_WARP, WARP_SIZE, warp_vote_ballot},
};

use super::{
    form::{MeanVariance, written_as},
    item::Unpacked,
    real::{Floats, Offset, Real},
    skip_nan::{All, NanFilter, Numbers},
    sums::{DOWN, UP},
};

/// The number of elements, their mean and the sum of their squared distances from it, in some form.
pub(super) trait Moments: Value {
    /// The largest *near* distance. The squares of larger, *far* distances are stored scaled.
    const NEAR: f64;
    /// `true` if a distance between finite elements can be far.
    const HAS_FAR: bool;
    const NONE: Self;
    /// Returns the moments of elements with these distances from a finite pivot; the far ones are times
    /// [`DOWN`].
    fn of(count: u64, pivot: f64, near: Distances, far: Distances) -> Self;
    fn combine(a: Self, b: Self) -> Self;
    /// # Safety
    /// Same as [`Operation::combine_warp`].
    #[inline(always)]
    unsafe fn combine_warp(self, _members: u32) -> Option<Self> {
        None
    }
    fn elements(self) -> u64;
    /// Returns the mean and the variance, both NaN for no elements.
    fn finish(self) -> [f64; 2];
    /// Adds `count` elements without far distances. `first` returns a finite one of them, or 0 if there
    /// is none; `distances` returns their distances from a pivot.
    #[inline(always)]
    fn add(
        &mut self,
        count: u64,
        first: impl FnOnce() -> f64,
        distances: impl FnOnce(f64) -> Distances,
    ) {
        let pivot = first();
        let added = Self::of(count, pivot, distances(pivot), Distances::NONE);
        *self = Self::combine(*self, added);
    }
}

value! {
    /// Sums of distances from a pivot, all zero if there are no elements.
    pub(super) struct About {
        count: u64,
        pivot: f64,
        sum: f64,
        squares: f64,
    }
}

impl About {
    /// Moves the pivot.
    #[inline(always)]
    fn about(self, pivot: f64) -> Self {
        let distance = self.pivot - pivot;
        let moved = self.count as f64 * distance;
        let squares = fma(distance, fma(2.0, self.sum, moved), self.squares);
        Self { pivot, sum: self.sum + moved, squares, ..self }
    }
}

impl Moments for About {
    const NEAR: f64 = f64::INFINITY;
    const HAS_FAR: bool = false;
    const NONE: Self = Self { count: 0, pivot: 0.0, sum: 0.0, squares: 0.0 };

    #[inline(always)]
    fn of(count: u64, pivot: f64, Distances { sum, squares }: Distances, _far: Distances) -> Self {
        Self { count, pivot, sum, squares }
    }

    #[inline(always)]
    fn combine(a: Self, b: Self) -> Self {
        let pivot = if a.count == 0 { b.pivot } else { a.pivot };
        let b = b.about(pivot);
        let (sum, squares) = (a.sum + b.sum, a.squares + b.squares);
        Self { count: a.count + b.count, pivot, sum, squares }
    }

    /// Moves all lanes to one pivot, so that five steps only add.
    #[inline(always)]
    unsafe fn combine_warp(self, members: u32) -> Option<Self> {
        if members != FULL_WARP {
            return None;
        }
        // SAFETY: all lanes of the warp call this together, as the caller guarantees.
        unsafe {
            let filled = warp_vote_ballot(FULL_WARP, self.count > 0);
            // If no lane has elements, the pivot is arbitrary.
            let pivot = warp::broadcast(self.pivot, filled.trailing_zeros() % WARP_SIZE);
            let Self { count, sum, squares, .. } = self.about(pivot);
            let (count, sum, squares) = warp::reduce((count, sum, squares), (Sum, Sum, Sum));
            Some(Self { count, pivot, sum, squares })
        }
    }

    #[inline(always)]
    fn elements(self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn finish(self) -> [f64; 2] {
        let Self { count, pivot, sum, squares } = self;
        // Divided by 0, zeros are NaN.
        let count = count as f64;
        let (offset, squares) = Distances { sum, squares }.centered(count);
        [pivot + offset, squares / count]
    }

    #[inline(always)]
    fn add(
        &mut self,
        count: u64,
        first: impl FnOnce() -> f64,
        distances: impl FnOnce(f64) -> Distances,
    ) {
        if self.count == 0 {
            self.pivot = first();
        }
        let Distances { sum, squares } = distances(self.pivot);
        self.count += count;
        self.sum += sum;
        self.squares += squares;
    }
}

value! {
    pub(super) struct Centered {
        /// The number of elements, and the flag [`FAR`].
        count: u64,
        /// The mean; arbitrary if there are no elements.
        mean: Offset,
        /// The sum of the squared distances from the mean.
        squares: f64,
    }
}

/// A flag in [`Centered::count`], set if [`Centered::squares`] is in units of 2^1200.
const FAR: u64 = 1 << 63;

impl Centered {
    /// Returns the sum of squares, in units of 2^1200 if `far`.
    #[inline(always)]
    fn squares_in(self, far: bool) -> f64 {
        let down = self.squares * DOWN * DOWN;
        if far && self.count & FAR == 0 { down } else { self.squares }
    }
}

impl Moments for Centered {
    const NEAR: f64 = Offset::NEAR;
    const HAS_FAR: bool = true;
    const NONE: Self = Self { count: 0, mean: Offset::NONE, squares: 0.0 };

    #[inline(always)]
    fn of(count: u64, pivot: f64, near: Distances, far: Distances) -> Self {
        let n = count as f64;
        if count == 0 {
            return Self::NONE;
        }
        if far.squares != 0.0 {
            let near = Distances { sum: near.sum * DOWN, squares: near.squares * DOWN * DOWN };
            let (offset, squares) = far.plus(near).centered(n);
            let whole = offset * UP;
            // The mean is in the range of the elements, but its offset from the pivot may overflow.
            let half = pivot * 0.5 + offset * (UP * 0.5);
            let has_offset = whole.is_finite() && (pivot + whole).is_finite();
            let mean = if has_offset { Offset::at(pivot, whole) } else { Offset::at(half * 2.0, 0.0) };
            return Self { count: count | FAR, mean, squares };
        }
        let (offset, squares) = near.centered(n);
        Self { count, mean: Offset::at(pivot, offset), squares }
    }

    #[inline(always)]
    fn combine(a: Self, b: Self) -> Self {
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
            Offset::at(from * (1.0 - share) + to * share, 0.0)
        };
        let is_far = !(distance.magnitude() <= Self::NEAR && (a.count | b.count) & FAR == 0);
        let scaled = if is_far { a.mean.far_distance(b.mean) } else { distance };
        let squares = a.squares_in(is_far) + b.squares_in(is_far) + scaled * scaled * weight;
        let both = Self { count: if is_far { count | FAR } else { count }, mean, squares };
        unless_empty((before, a), (behind, b), both)
    }

    #[inline(always)]
    fn elements(self) -> u64 {
        self.count & !FAR
    }

    #[inline(always)]
    fn finish(self) -> [f64; 2] {
        let variance = self.squares / self.elements() as f64;
        let mean = if self.count == 0 { f64::NAN } else { self.mean.value() };
        [mean, if self.count & FAR != 0 { variance * UP * UP } else { variance }]
    }
}

#[derive(Clone, Copy)]
pub(super) struct Merge;

impl<M: Moments> Operation<M> for Merge {
    const IDENTITY: M = M::NONE;

    #[inline(always)]
    fn combine(a: M, b: M) -> M {
        M::combine(a, b)
    }

    #[inline(always)]
    unsafe fn combine_warp(value: M, members: u32) -> Option<M> {
        // SAFETY: the conditions are those of this function.
        unsafe { value.combine_warp(members) }
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
    fn of(distance: f64) -> Self {
        Self { sum: distance, squares: distance * distance }
    }

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
    /// The distances above [`Moments::NEAR`], each times [`DOWN`].
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
            if distance.magnitude() <= <T::In as Real>::Moments::NEAR {
                kept.near[chain].add(distance);
            } else {
                kept.far.add(element * DOWN - pivot * DOWN);
            }
        });
    }
}

impl<T: Floats, W: NanFilter> Reduction for SpreadOf<T, W> {
    type Element = T;
    type Partial = <T::In as Real>::Moments;
    type Output = [f64; 2];
    combined_by!(Merge);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, index: u64) -> Self::Partial {
        let mut moments = Self::Partial::NONE;
        Self::accumulate_one(&mut moments, element, index);
        moments
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
        let is_checked = <T::In as Real>::Moments::HAS_FAR || W::SKIPS;
        let near = <T::In as Real>::Moments::NEAR;
        if !is_checked || distances.squares <= near * near {
            kept.count += T::LANES as u32;
            kept.near[chain] = kept.near[chain].plus(distances);
        } else {
            Self::accumulate_each(kept, chain, vector);
        }
    }

    #[inline(always)]
    fn close(Kept { count, pivot, near: [a, b, c, d], far }: Kept) -> Self::Partial {
        Self::Partial::of(count.into(), pivot, a.plus(b).plus(c.plus(d)), far)
    }

    #[inline(always)]
    fn accumulate_vector(moments: &mut Self::Partial, vector: Vector, index: u64) {
        if Self::Partial::HAS_FAR || W::SKIPS {
            return reduction::accumulate_vector::<Self>(moments, vector, index);
        }
        moments.add(
            T::LANES,
            #[inline(always)]
            || pivot::<T>(vector),
            #[inline(always)]
            |pivot| {
                let mut distances = Distances::NONE;
                T::each(vector, |element| distances.add(element.to_f64() - pivot));
                distances
            },
        );
    }

    #[inline(always)]
    fn accumulate_one(moments: &mut Self::Partial, element: T, _index: u64) {
        let number = element.term();
        if W::counts(number) {
            let element = number.to_f64();
            moments.add(
                1,
                #[inline(always)]
                || if element.is_finite() { element } else { 0.0 },
                #[inline(always)]
                |pivot| Distances::of(element - pivot),
            );
        }
    }
}
