//! The third central moment of floats in one pass.
//!
//! A thread adds up the distances of its elements from a pivot, their squares and their cubes, as in
//! [`moments`](super::moments). The means and the sums of squared and cubed distances from the means are
//! then merged across threads and blocks (P. Pébay, *Formulas for Robust, One-Pass Parallel Computation
//! of Covariances and Arbitrary-Order Statistical Moments*, Sandia Report SAND2008-6212, 2008).

use core::marker::PhantomData;

use warpfold_device::{
    combined_by,
    math::fma,
    op::{Number, Operation},
    reduction::{ACCUMULATORS, Reduction, Vector, VectorReduction},
    value,
};

use super::{
    form::{Double, written_as},
    moments::{pivot, unless_empty},
    real::{Floats, Offset},
    skip_nan::{All, NanFilter, Numbers},
};

value! {
    pub(super) struct Moments {
        count: u64,
        /// The mean; arbitrary if there are no elements. A mean rounded to one `f64` could be off by as
        /// much as the deviation.
        mean: Offset,
        /// The sum of the squared distances from the mean.
        squares: f64,
        /// The sum of the cubed distances from the mean.
        cubes: f64,
    }
}

#[derive(Clone, Copy)]
pub(super) struct Merge;

impl Operation<Moments> for Merge {
    const IDENTITY: Moments = Moments { count: 0, mean: Offset::NONE, squares: 0.0, cubes: 0.0 };

    #[inline(always)]
    fn combine(a: Moments, b: Moments) -> Moments {
        let count = a.count + b.count;
        // Avoids 0 / 0 if both are empty.
        let share = b.count as f64 / Ord::max(count, 1) as f64;
        let distance = a.mean.distance(b.mean);
        let between = distance * distance * (a.count as f64 * share);
        let crossed = (1.0 - share) * b.squares - share * a.squares;
        let both = Moments {
            count,
            mean: a.mean.moved(distance * share),
            squares: a.squares + b.squares + between,
            cubes: a.cubes + b.cubes + distance * (between * (1.0 - 2.0 * share) + 3.0 * crossed),
        };
        unless_empty((a.count, a), (b.count, b), both)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Distances {
    sum: f64,
    squares: f64,
    cubes: f64,
}

impl Distances {
    const NONE: Self = Self { sum: 0.0, squares: 0.0, cubes: 0.0 };

    #[inline(always)]
    fn add(&mut self, distance: f64) {
        let square = distance * distance;
        self.sum += distance;
        self.squares += square;
        self.cubes = fma(square, distance, self.cubes);
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            cubes: self.cubes + other.cubes,
        }
    }
}

/// A thread's accumulator. The count does not overflow: no thread accumulates 2^32 elements.
#[derive(Clone, Copy)]
pub(super) struct Accumulator {
    count: u32,
    pivot: f64,
    distances: [Distances; ACCUMULATORS],
}

pub(super) struct ThirdMomentOf<T, W>(PhantomData<(T, W)>);
pub(super) type ThirdMoment<T> = ThirdMomentOf<T, All>;
pub(super) type NanThirdMoment<T> = ThirdMomentOf<T, Numbers>;

impl<T: Floats, W: NanFilter> Reduction for ThirdMomentOf<T, W> {
    type Element = T;
    type Partial = Moments;
    type Output = f64;
    combined_by!(Merge);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let number = element.term().to_f64();
        // The difference is 0, or NaN if the element is not finite.
        let distance = number - number;
        let mean = Offset::at(number, 0.0);
        let one = Moments { count: 1, mean, squares: distance, cubes: distance };
        if W::counts(number) { one } else { Self::IDENTITY }
    }

    #[inline(always)]
    fn finish(moments: Self::Partial) -> f64 {
        moments.cubes / moments.count as f64
    }

    written_as!(Double<T>: |moments, _arguments| (Self::finish(moments), moments.count));
}

impl<T: Floats, W: NanFilter> VectorReduction for ThirdMomentOf<T, W> {
    type Accumulator = Accumulator;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Accumulator {
        Accumulator { count: 0, pivot: 0.0, distances: [Distances::NONE; ACCUMULATORS] }
    }

    #[inline(always)]
    fn accumulate(kept: &mut Accumulator, chain: usize, vector: Vector, _index: u64) {
        if kept.count == 0 {
            kept.pivot = pivot::<T>(vector);
        }
        let (mut count, mut distances) = (0, Distances::NONE);
        T::each(vector, |element| {
            let counts = W::counts(element);
            count += u32::from(counts);
            distances.add(if counts { element.to_f64() - kept.pivot } else { 0.0 });
        });
        kept.count += count;
        kept.distances[chain] = kept.distances[chain].plus(distances);
    }

    #[inline(always)]
    fn close(Accumulator { count, pivot, distances: [a, b, c, d] }: Accumulator) -> Self::Partial {
        if count == 0 {
            return Self::IDENTITY;
        }
        let Distances { sum, squares, cubes } = a.plus(b).plus(c.plus(d));
        let offset = sum / f64::from(count);
        Moments {
            count: count.into(),
            mean: Offset::at(pivot, offset),
            squares: fma(-sum, offset, squares),
            cubes: fma(-offset, fma(3.0, squares, -2.0 * sum * offset), cubes),
        }
    }
}
