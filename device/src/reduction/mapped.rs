//! Reductions of a program's own functions and orders.

use core::{marker::PhantomData, mem::MaybeUninit};

use super::{Located, NOWHERE, Reduction};
use crate::{Value, combined_by, op::Operation};

/// A function of an element, for [`Mapped`].
pub trait Function: 'static {
    /// The type of the elements: see [`Reduction::Element`].
    type Element: Copy + 'static;
    /// The type of the values and of the result: it meets the conditions of [`Reduction::Partial`] and
    /// of [`Reduction::Output`].
    type Value: Value + 'static;

    /// Returns the value of an element. `#[inline(always)]` keeps large functions from becoming calls,
    /// which `warpfold-build` refuses.
    fn call(element: Self::Element) -> Self::Value;
}

/// The reduction of a function's values by an operation.
///
/// ```ignore
/// pub struct Cube;
///
/// impl Function for Cube {
///     type Element = f32;
///     type Value = f64;
///
///     #[inline(always)]
///     fn call(element: f32) -> f64 {
///         let element = f64::from(element);
///         element * element * element
///     }
/// }
///
/// warpfold_device::reducer! { sum_of_cubes = Mapped<Cube, Sum>; }
/// ```
pub struct Mapped<F, O>(PhantomData<(F, O)>);

impl<F: Function, O: Operation<F::Value> + 'static> Reduction for Mapped<F, O> {
    type Element = F::Element;
    type Partial = F::Value;
    type Output = F::Value;
    const INDEXED: bool = false;
    combined_by!(O);

    #[inline(always)]
    fn map(element: F::Element, _index: u64) -> F::Value {
        F::call(element)
    }

    #[inline(always)]
    fn finish(value: F::Value) -> F::Value {
        value
    }
}

/// A comparison of elements, for [`FirstBy`].
pub trait Compare: 'static {
    /// The type of the elements: see [`Reduction::Element`]. It has at most 7 [words](Value::WORDS).
    type Element: Value + 'static;

    /// Returns whether `a` comes before `b`, by a strict weak order such as `<` of integers. Where it is
    /// none, as `<` of floats with NaN, the index that is found depends on the launch. Like
    /// [`Function::call`], it is best marked `#[inline(always)]`.
    fn precedes(a: Self::Element, b: Self::Element) -> bool;
}

/// The search for the first element by a comparison: its index, or [`NOWHERE`], which is `u64::MAX`, if
/// there are no elements. Of elements that do not precede each other, it is the one with the smallest
/// index.
///
/// ```ignore
/// pub struct Farther;
///
/// impl Compare for Farther {
///     type Element = Point;
///
///     #[inline(always)]
///     fn precedes(a: Point, b: Point) -> bool {
///         a.x * a.x + a.y * a.y > b.x * b.x + b.y * b.y
///     }
/// }
///
/// warpfold_device::reducer! { farthest = FirstBy<Farther>; }
/// ```
pub struct FirstBy<C>(PhantomData<C>);

impl<C: Compare> Reduction for FirstBy<C> {
    type Element = C::Element;
    type Partial = Located<C::Element>;
    type Output = u64;
    const IDENTITY: Located<C::Element> = Located {
        // SAFETY: all bit patterns of an element are valid, as `Reduction::Element` requires.
        value: unsafe { MaybeUninit::zeroed().assume_init() },
        index: NOWHERE,
    };

    #[inline(always)]
    fn map(value: C::Element, index: u64) -> Located<C::Element> {
        const { assert!(C::Element::WORDS <= 7, "an element of `FirstBy` has at most 7 words of 32 bits") };
        Located { value, index }
    }

    #[inline(always)]
    fn combine(a: Located<C::Element>, b: Located<C::Element>) -> Located<C::Element> {
        let (low, high) = if b.index < a.index { (b, a) } else { (a, b) };
        // No element has the index of the identity, whose value does not count.
        if high.index != NOWHERE && C::precedes(high.value, low.value) { high } else { low }
    }

    #[inline(always)]
    fn finish(first: Located<C::Element>) -> u64 {
        first.index
    }
}
