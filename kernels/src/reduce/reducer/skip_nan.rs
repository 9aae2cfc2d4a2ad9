//! Operations on those elements alone that are numbers: NaN is left out.

use core::marker::PhantomData;

use warpfold_abi::binned::{Running, Sums, Terms};
use warpfold_device::{
    combined_by,
    op::{self, Number, Operation, max_number_f32, max_number_f64, min_number_f32, min_number_f64},
    reduction::{Reduction, Unrolled, Vector},
    thread::Few,
};

use super::{
    item::{Item, Ordered, Unpacked},
    moments::Real,
    op::{
        CountOf, Counted, EndsOf, Extreme, ExtremeOf, Itself, Magnitude, PlaceOf, Square, SumOf, Term,
        TermOf,
    },
};

/// Floats, of which some are no numbers.
pub(super) trait MaybeNan: Real + Ordered {
    /// That there is none.
    const NAN: Self;
    /// Whether it is no number.
    fn is_nan(self) -> bool;
    /// The integer that this is, below 2^32; any, if it is none.
    fn to_count(self) -> u32;
    /// The smaller one that is a number.
    fn least_number(self, other: Self) -> Self;
    /// The larger one that is a number.
    fn greatest_number(self, other: Self) -> Self;
}

macro_rules! maybe_nan {
    ($($ty:ident: $least:ident, $greatest:ident;)*) => {$(
        impl MaybeNan for $ty {
            const NAN: Self = Self::NAN;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn to_count(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn least_number(self, other: Self) -> Self {
                $least(self, other)
            }
            #[inline(always)]
            fn greatest_number(self, other: Self) -> Self {
                $greatest(self, other)
            }
        }
    )*};
}

maybe_nan! {
    f32: min_number_f32, max_number_f32;
    f64: min_number_f64, max_number_f64;
}

/// A type of floats, in the numbers that it is reduced in.
pub(super) trait Floats:
    Unpacked<Wide = Self::In, Total = Self::In> + Item<Wide = Self::In, Total = Self::In>
{
    /// The type of those numbers.
    type In: MaybeNan;

    /// How many elements of a group are numbers.
    #[inline(always)]
    fn count_numbers(group: Vector) -> u32 {
        let one_or_zero =
            |element: Self::In| if element.is_nan() { Self::In::ZERO } else { Self::In::ONE };
        Self::terms(group, one_or_zero).tree_reduce(Number::add).to_count()
    }
}

impl<T, R: MaybeNan> Floats for T
where
    T: Unpacked<Wide = R, Total = R> + Item<Wide = R, Total = R>,
{
    type In = R;
}

/// What is added up of a number, and zero of NaN.
pub(super) struct OfNumbers<M>(PhantomData<M>);
/// The sum of the elements that are numbers.
pub(super) type NanSum<T> = Unrolled<SumOf<T, OfNumbers<Itself>>>;
/// The sum of their squares.
pub(super) type NanSumSq<T> = Unrolled<SumOf<T, OfNumbers<Square>>>;
/// The sum of their magnitudes.
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

/// The treatment of NaN.
pub(super) trait NanFilter: 'static {
    /// Whether NaN is left out.
    const SKIPS: bool;
    /// Adds those of a few terms, and tells how many.
    fn add<S: Sums, T: Terms<S::Term>>(kept: &mut Running<S>, terms: T) -> u32;
    /// Whether an element counts.
    fn counts<R: MaybeNan>(element: R) -> bool;

    /// What is added of an element: zero if it does not count.
    #[inline(always)]
    fn term<R: MaybeNan>(element: R) -> R {
        if Self::counts(element) { element } else { R::ZERO }
    }
}

/// All elements, NaN among them.
pub(super) struct All;
/// Those that are numbers.
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

/// The product of the elements that are numbers.
pub(super) type NanProduct<T> = Unrolled<ProductOfNumbers<T>>;
/// The same, as a thread maps and combines them.
pub(super) struct ProductOfNumbers<T>(PhantomData<T>);

/// The element, or one.
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

/// Counts what is NaN.
pub(super) struct IsNan;
/// How many elements are NaN.
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

/// The smallest number; NaN if there is none.
pub(super) type NanMin<T> = Unrolled<ExtremeOf<T, LeastNumber>>;
/// The largest number; NaN if there is none.
pub(super) type NanMax<T> = Unrolled<ExtremeOf<T, GreatestNumber>>;
/// Both; NaN both if there is none.
pub(super) type NanMinMax<T> = Unrolled<EndsOf<T, LeastNumber, GreatestNumber>>;
/// The place of the first smallest number; of the first NaN if there is none.
pub(super) type NanArgMin<T> = PlaceOf<T, LeastNumber>;
/// The place of the first largest number; of the first NaN if there is none.
pub(super) type NanArgMax<T> = PlaceOf<T, GreatestNumber>;

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
    /// The smaller of two that is a number.
    LeastNumber: least_number, <;
    /// The larger of two that is a number.
    GreatestNumber: greatest_number, >;
}
