//! Operations that skip NaN.

use core::marker::PhantomData;

use warpfold_abi::binned::{Running, Sums, Terms};
use warpfold_device::{
    combined_by,
    op::{self, Number, Operation},
    reduction::{Reduction, Unrolled, Vector},
    thread::Few,
};

use super::{
    op::{
        ArgExtremeOf, CountOf, Counted, Extreme, ExtremeOf, Itself, Magnitude, MinMaxOf, Square, SumOf,
        Term, TermOf,
    },
    real::{Floats, MaybeNan},
};

/// A term that is `M` for a number and zero for NaN.
pub(super) struct OfNumbers<M>(PhantomData<M>);
pub(super) type NanSum<T> = Unrolled<SumOf<T, OfNumbers<Itself>>>;
pub(super) type NanSumSq<T> = Unrolled<SumOf<T, OfNumbers<Square>>>;
pub(super) type NanSumAbs<T> = Unrolled<SumOf<T, OfNumbers<Magnitude>>>;

impl<R: MaybeNan, M: Term<R>> Term<R> for OfNumbers<M> {
    #[inline(always)]
    fn of(element: R) -> R {
        if element.is_nan() { R::ZERO } else { M::of(element) }
    }
}

impl<T: Floats, M: Term<T::In>> TermOf<T> for OfNumbers<M> {
    #[inline(always)]
    fn of_group(group: Vector) -> T::In {
        T::terms(group, Self::of).tree_reduce(Number::add)
    }
}

pub(super) trait NanFilter: 'static {
    const SKIPS: bool;
    /// Adds the terms that this filter counts, and returns their number.
    fn add<S: Sums, T: Terms<S::Term>>(kept: &mut Running<S>, terms: T) -> u32;
    fn counts<R: MaybeNan>(element: R) -> bool;

    /// Returns the element, or zero if this filter does not count it.
    #[inline(always)]
    fn term<R: MaybeNan>(element: R) -> R {
        if Self::counts(element) { element } else { R::ZERO }
    }
}

/// A filter that counts all elements, including NaN.
pub(super) struct All;
/// A filter that counts all elements but NaN.
pub(super) struct Numbers;

impl NanFilter for All {
    const SKIPS: bool = false;

    #[inline(always)]
    fn add<S: Sums, T: Terms<S::Term>>(kept: &mut Running<S>, terms: T) -> u32 {
        kept.add(terms);
        T::LEN
    }

    #[inline(always)]
    fn counts<R: MaybeNan>(_element: R) -> bool {
        true
    }
}

impl NanFilter for Numbers {
    const SKIPS: bool = true;

    #[inline(always)]
    fn add<S: Sums, T: Terms<S::Term>>(kept: &mut Running<S>, terms: T) -> u32 {
        kept.add_numbers(terms)
    }

    #[inline(always)]
    fn counts<R: MaybeNan>(element: R) -> bool {
        !element.is_nan()
    }
}

pub(super) type NanProduct<T> = Unrolled<ProductOfNumbers<T>>;
pub(super) struct ProductOfNumbers<T>(PhantomData<T>);

#[inline(always)]
fn number_or_one<R: MaybeNan>(element: R) -> R {
    if element.is_nan() { R::ONE } else { element }
}

impl<T: Floats> Reduction for ProductOfNumbers<T> {
    type Element = T;
    type Partial = T::In;
    type Output = T::In;
    combined_by!(op::Product);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::In {
        number_or_one(element.total())
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> T::In {
        T::terms(vector, number_or_one).tree_reduce(Number::multiply)
    }

    #[inline(always)]
    fn finish(product: T::In) -> T::In {
        product
    }
}

pub(super) struct IsNan;
pub(super) type NanCount<T> = Unrolled<CountOf<T, IsNan>>;

impl<T: Floats> Counted<T> for IsNan {
    #[inline(always)]
    fn counts(element: T) -> bool {
        element.wide().is_nan()
    }

    #[inline(always)]
    fn of_group(group: Vector) -> u64 {
        T::LANES - u64::from(T::count_numbers(group))
    }
}

// Extremes skip NaN unless all elements are NaN; the index is then that of the first NaN.
pub(super) type NanMin<T> = Unrolled<ExtremeOf<T, LeastNumber>>;
pub(super) type NanMax<T> = Unrolled<ExtremeOf<T, GreatestNumber>>;
pub(super) type NanMinMax<T> = Unrolled<MinMaxOf<T, LeastNumber, GreatestNumber>>;
pub(super) type NanArgMin<T> = ArgExtremeOf<T, LeastNumber>;
pub(super) type NanArgMax<T> = ArgExtremeOf<T, GreatestNumber>;

macro_rules! number_extremes {
    ($($(#[$attr:meta])* $Name:ident: $combine:ident, $before:tt;)*) => {$(
        $(#[$attr])*
        #[derive(Clone, Copy)]
        pub(super) struct $Name;

        impl<R: MaybeNan + PartialOrd> Operation<R> for $Name {
            const IDENTITY: R = R::NAN;

            #[inline(always)]
            fn combine(a: R, b: R) -> R {
                a.$combine(b)
            }
        }

        impl<R: MaybeNan + PartialOrd> Extreme<R> for $Name {
            #[inline(always)]
            fn beats(a: R, b: R) -> bool {
                a $before b || (b.is_nan() && !a.is_nan())
            }
        }
    )*};
}

number_extremes! {
    LeastNumber: least_number, <;
    GreatestNumber: greatest_number, >;
}
