//! Means and variances of floats in one pass.
//!
//! What a thread keeps is a mean and the sum of the squared distances from it, never the sum of the
//! squares, whose difference from the square of the sum would be all rounding where the mean is large
//! (B. P. Welford, *Note on a Method for Calculating Corrected Sums of Squares and Products*,
//! Technometrics 4, 1962; T. F. Chan, G. H. Golub and R. J. LeVeque, *Updating Formulae and a Pairwise
//! Algorithm for Computing Sample Variances*, 1979).

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::arguments::ReduceCut;
use warpfold_device::{
    op::{Number, Operation},
    reduction::{CHAINS, Fold, Group},
    thread::Few,
    value,
};

use super::item::{Item, Unpacked};

/// Floating-point numbers that means are computed in.
pub(super) trait Real: Number {
    /// One of `parts` equal parts of 1.
    fn one_of(parts: u32) -> Self;
    /// Makes the number of a count.
    fn of_count(count: u32) -> Self;
    /// Gives the same number in double precision.
    fn to_f64(self) -> f64;
}

macro_rules! reals {
    ($($ty:ident)*) => {$(
        impl Real for $ty {
            #[inline(always)]
            fn one_of(parts: u32) -> Self {
                1.0 / parts as Self
            }
            #[inline(always)]
            fn of_count(count: u32) -> Self {
                count as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
    )*};
}

reals!(f32 f64);

/// What a thread keeps of some groups.
#[derive(Clone, Copy)]
pub(super) struct Chain<R> {
    groups: u32,
    mean: R,
    squares: R,
}

value! {
    /// The moments of some elements.
    pub(super) struct Moments {
        /// How many there are.
        count: u64,
        /// Their mean; of none 0.
        mean: f64,
        /// The sum of the squared distances from it.
        squares: f64,
    }
}

/// Bytes of a mean and a variance.
pub(super) const RESULT_BYTES: u64 = 2 * size_of::<f64>() as u64;

impl Moments {
    /// Of `count` elements, with this mean, and this sum of the squared distances from it.
    #[inline(always)]
    pub(super) fn new(count: u64, mean: f64, squares: f64) -> Self {
        Self { count, mean, squares }
    }

    /// Writes the mean, and the mean of the squared distances from it; of no elements NaN.
    ///
    /// # Safety
    /// There are [`RESULT_BYTES`] to be written.
    #[inline(always)]
    pub(super) unsafe fn write(self, output: *mut u64) {
        let Self { count, mean, squares } = self;
        let share = 1.0 / count as f64;
        let output = output.cast::<f64>();
        // SAFETY: the caller's contract.
        unsafe {
            *output = if count == 0 { f64::NAN } else { mean };
            *output.add(1) = squares * share;
        }
    }
}

/// The moments of all elements of two sets.
#[derive(Clone, Copy)]
pub(super) struct Merge;

impl Operation<Moments> for Merge {
    const IDENTITY: Moments = Moments { count: 0, mean: 0.0, squares: 0.0 };

    #[inline(always)]
    fn combine(a: Moments, b: Moments) -> Moments {
        let count = a.count + b.count;
        // Of none, too, there is a number to divide by.
        let share = b.count as f64 / Ord::max(count, 1) as f64;
        let distance = b.mean - a.mean;
        let between = distance * distance * (a.count as f64 * share);
        let both =
            Moments { count, mean: a.mean + distance * share, squares: a.squares + b.squares + between };
        // Exactly the other one, though its mean be infinite.
        if a.count == 0 {
            b
        } else if b.count == 0 {
            a
        } else {
            both
        }
    }
}

/// The mean of a group, and the sum of the squared distances from it.
#[inline(always)]
pub(super) fn of_group<T: Unpacked<Total: Real>>(group: Group) -> (T::Total, T::Total) {
    let sum = T::terms(group, identity).in_pairs(Number::add);
    let mean = sum.multiply(T::Total::one_of(T::LANES as u32));
    let square = |x: T::Total| x.subtract(mean).square();
    (mean, T::terms(group, square).in_pairs(Number::add))
}

/// The mean and the variance of the elements.
pub(super) struct Spread<T>(PhantomData<T>);

impl<T: Unpacked<Total: Real>> Fold for Spread<T> {
    type Element = T;
    type Accumulator = [Chain<T::Total>; CHAINS];
    type Partial = Moments;
    type Combine = Merge;
    const COMBINE: Merge = Merge;
    const RESULT_BYTES: u64 = RESULT_BYTES;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [Chain { groups: 0, mean: T::Total::ZERO, squares: T::Total::ZERO }; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        let (mean, squares) = of_group::<T>(group);
        let chain = &mut kept[chain];
        let before = T::Total::of_count(chain.groups);
        chain.groups += 1;
        let share = T::Total::one_of(chain.groups);
        let distance = mean.subtract(chain.mean);
        let step = distance.multiply(share);
        chain.mean = chain.mean.add(step);
        // Of LANES elements each: before * LANES * 1 / (before + 1) times the distance squared.
        let between =
            distance.multiply(step).multiply(before.multiply(T::Total::of_count(T::LANES as u32)));
        chain.squares = chain.squares.add(squares.add(between));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> Moments {
        let of = |chain: Chain<T::Total>| {
            let count = u64::from(chain.groups) * T::LANES;
            Moments::new(count, chain.mean.to_f64(), chain.squares.to_f64())
        };
        [of(a), of(b), of(c), of(d)].in_pairs(Merge::combine)
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Moments {
        Moments { count: 1, mean: element.term().to_f64(), squares: 0.0 }
    }

    #[inline(always)]
    unsafe fn write(moments: Moments, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { moments.write(arguments.output) };
    }
}
