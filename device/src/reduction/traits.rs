//! What the kernels ask of an operation.

use core::marker::PhantomData;

use warpfold_abi::{
    arguments::ReduceCut,
    custom::MOST_OUTPUT_BYTES,
    reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT},
};

use super::unrolled::map_vector;
use crate::{Value, op::Operation};

/// A vector of elements: 16 bytes as they are loaded.
pub type Vector = [u32; 4];

/// Accumulators of a thread, none of which waits for another: one for each of its loads in flight.
pub const ACCUMULATORS: usize = GROUPS_IN_FLIGHT as usize;

/// Returns whether elements are loaded as vectors of 16 bytes. Others are loaded one by one.
pub const fn in_vectors<T>() -> bool {
    warpfold_abi::custom::in_groups(size_of::<T>() as u64)
}

/// Returns the elements of a vector; 1 of those that are loaded one by one.
pub const fn lanes<T>() -> u64 {
    if in_vectors::<T>() { GROUP_BYTES as u64 / size_of::<T>() as u64 } else { 1 }
}

/// A reduction: every element is mapped to a partial result, partial results are combined, and the last
/// one is finished.
///
/// The operations of `warpfold::op` are such types, and so are yours: [`reducer!`](crate::reducer)
/// declares the kernels, which are those of [`reduction`](super). On the host `warpfold::custom` loads
/// them, and `warpfold::Reducer` launches them.
///
/// Elements are combined in an order that the launch decides, and the identity is combined with some of
/// them. So, for all partial results:
///
/// - `combine` is associative and commutative. Sums of floats are that but for their rounding.
/// - [`IDENTITY`](Self::IDENTITY) changes nothing that it is combined with, on either side.
///
/// `warpfold::custom::Custom::check` tries both on samples.
///
/// ```ignore
/// /// The sum of complex numbers.
/// pub struct ComplexSum;
///
/// impl Reduction for ComplexSum {
///     type Element = Complex;
///     type Partial = Complex;
///     type Output = Complex;
///     const IDENTITY: Complex = Complex { re: 0.0, im: 0.0 };
///
///     #[inline(always)]
///     fn map(element: Complex, _index: u64) -> Complex {
///         element
///     }
///
///     #[inline(always)]
///     fn combine(a: Complex, b: Complex) -> Complex {
///         Complex { re: a.re + b.re, im: a.im + b.im }
///     }
///
///     #[inline(always)]
///     fn finish(sum: Complex) -> Complex {
///         sum
///     }
/// }
///
/// warpfold_device::reducer! { complex_sum = ComplexSum; }
/// ```
pub trait Reduction: Sized + 'static {
    /// The type of the elements in memory: plain data of 1 to 64 bytes, `#[repr(C)]` if it is a struct.
    /// Any bits are a value of it, and it has no padding.
    ///
    /// Elements of 1, 2, 4, 8 and 16 bytes lie at multiples of their size, and are loaded 16 bytes at a
    /// time. Others lie at multiples of their alignment, and are loaded one by one, each by as many
    /// instructions as its fields need.
    type Element: Copy + 'static;
    /// The partial result of some elements: a number, a tuple, or a struct that
    /// [`value!`](crate::value) declares, of [`PARTIAL_WORDS`](warpfold_abi::reducer::PARTIAL_WORDS)
    /// words at most.
    type Partial: Value;
    /// The result: plain data of 1 to 64 bytes without padding, `#[repr(C)]` if it is a struct, with an
    /// alignment of at most 8.
    type Output: Copy + 'static;

    /// The identity of [`combine`](Self::combine). Its [`finish`](Self::finish) is the result of no
    /// elements.
    const IDENTITY: Self::Partial;

    /// Whether [`map`](Self::map) looks at the index. Where it does not, `false` saves segments and runs
    /// of keys the work of finding it; where it does, `false` makes their results wrong.
    const INDEXED: bool = true;

    /// Whether zero bytes change nothing: [`map_vector`](Self::map_vector) of 16 zero bytes is
    /// [`IDENTITY`](Self::IDENTITY) for every index, past the end of the input too. A
    /// [`VectorReduction`] leaves its accumulator as it is when it accumulates them. The kernels pass
    /// them in place of vectors that are not there: `true` is faster, and gives wrong results where this
    /// does not hold.
    const ZERO_PADDABLE: bool = false;

    /// Returns the partial result of one element; `index` is its place in the buffer, the row, on the
    /// axis, in the segment, or among the elements along some axes of a view, of which the last axis
    /// varies fastest. Of running reductions and groups it counts from the first element of all. Where
    /// [`INDEXED`](Self::INDEXED) is `false`, it may be any number.
    fn map(element: Self::Element, index: u64) -> Self::Partial;

    /// Returns the partial result of the elements in 16 bytes, of which the first has this index.
    ///
    /// It combines the [`map`](Self::map) of each. Write your own where the elements of a vector are
    /// reduced in fewer instructions together. Not called for elements whose size does not divide 16.
    #[inline(always)]
    fn map_vector(vector: Vector, index: u64) -> Self::Partial {
        map_vector::<Self>(vector, index)
    }

    /// Combines two partial results.
    fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial;

    /// Combines the partial results of a warp's lanes by an instruction, if there is one for it. Returns
    /// `None` in all lanes or in none, whatever the values are; otherwise in every lane what
    /// [`combine`](Self::combine) makes of the lanes in `members`.
    ///
    /// # Safety
    /// All lanes that `members` names call it together, the calling lane among them.
    #[inline(always)]
    unsafe fn combine_warp(_partial: Self::Partial, _members: u32) -> Option<Self::Partial> {
        None
    }

    /// Returns the result of all elements.
    fn finish(partial: Self::Partial) -> Self::Output;
}

/// [`Reduction::IDENTITY`], [`combine`](Reduction::combine) and
/// [`combine_warp`](Reduction::combine_warp) of an [`Operation`].
#[macro_export]
macro_rules! combined_by {
    ($Operation:ty) => {
        const IDENTITY: Self::Partial = <$Operation as $crate::op::Operation<Self::Partial>>::IDENTITY;

        #[inline(always)]
        fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial {
            <$Operation as $crate::op::Operation<Self::Partial>>::combine(a, b)
        }

        #[inline(always)]
        unsafe fn combine_warp(partial: Self::Partial, members: u32) -> Option<Self::Partial> {
            // SAFETY: the caller's contract.
            unsafe {
                <$Operation as $crate::op::Operation<Self::Partial>>::in_hardware(partial, members)
            }
        }
    };
}

/// The combination of a reduction's partial results, for the collectives.
pub struct CombineOf<R>(PhantomData<R>);

impl<R> CombineOf<R> {
    /// The operation as a value.
    pub(super) const OP: Self = Self(PhantomData);
}

impl<R> Clone for CombineOf<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for CombineOf<R> {}

impl<R: Reduction> Operation<R::Partial> for CombineOf<R> {
    const IDENTITY: R::Partial = R::IDENTITY;

    #[inline(always)]
    fn combine(a: R::Partial, b: R::Partial) -> R::Partial {
        R::combine(a, b)
    }

    #[inline(always)]
    unsafe fn in_hardware(partial: R::Partial, members: u32) -> Option<R::Partial> {
        // SAFETY: the caller's contract.
        unsafe { R::combine_warp(partial, members) }
    }
}

/// A reduction as the kernels run it: what a thread accumulates while it loads 16 bytes at a time.
///
/// [`Unrolled`](super::Unrolled) makes one of any [`Reduction`]. Those that a thread accumulates in
/// another type than it hands on implement this themselves.
pub trait VectorReduction: Reduction {
    /// A thread's state while it loads vectors.
    type Accumulator: Copy;
    /// The reduction for launches that each have only some of the elements. Its partial results say how
    /// many those are, if [`write`](Self::write) calls [`count`]; otherwise it is `Self`.
    type Continued: VectorReduction<Element = Self::Element, Output = Self::Output>;
    /// Whether [`write`](Self::write) reads elements of the input again, which the partial result names.
    const RELOADS_INPUT: bool = false;
    /// Elements of a vector.
    const LANES: u64 = lanes::<Self::Element>();

    /// Returns the accumulator of no elements.
    fn start() -> Self::Accumulator;

    /// Accumulates the vector of which the first element has this index, larger than those before.
    /// `chain` is below [`ACCUMULATORS`]. Not called for elements that are loaded one by one.
    fn accumulate(accumulator: &mut Self::Accumulator, chain: usize, vector: Vector, index: u64);

    /// Returns the partial result of what a thread has accumulated.
    fn close(accumulator: Self::Accumulator) -> Self::Partial;

    /// Combines an element into the partial result of elements before it, or of none.
    #[inline(always)]
    fn accumulate_one(partial: &mut Self::Partial, element: Self::Element, index: u64) {
        *partial = Self::combine(*partial, Self::map(element, index));
    }

    /// Writes the result of all elements.
    ///
    /// # Safety
    /// There is room for an [`Output`](Reduction::Output) at the output, which is a whole number of them
    /// after a multiple of 8; the elements that `partial` names are readable in the input.
    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<Self::Element>) {
        const { assert!(align_of::<Self::Output>() <= 8) };
        // SAFETY: the caller's contract; a size is a multiple of the alignment, and that divides 8.
        unsafe { *arguments.output.cast() = Self::finish(partial) };
    }

    /// Writes the result of elements that are not contiguous: the element of each index is as many
    /// elements after the input as `place_of` says, and a vector has its elements from there on.
    ///
    /// # Safety
    /// As [`write`](Self::write), where the elements that `partial` names are at those places.
    #[inline(always)]
    unsafe fn write_apart(
        partial: Self::Partial,
        arguments: ReduceCut<Self::Element>,
        _place_of: impl Fn(u64) -> u64,
    ) {
        // SAFETY: the caller's contract. Reductions that reload the input override this.
        unsafe { Self::write(partial, arguments) };
    }
}

/// Returns the bytes of a result.
pub(super) const fn output_bytes<R: Reduction>() -> u64 {
    size_of::<R::Output>() as u64
}

/// A shorter name of [`VectorReduction::Continued`], for macros.
pub type ContinuedOf<R> = <R as VectorReduction>::Continued;

/// Returns the number of elements of a result, in a launch that has all of them: not for a
/// [`VectorReduction::Continued`].
#[inline(always)]
pub fn count<T>(of: ReduceCut<T>) -> u64 {
    of.groups * lanes::<T>() + of.singles
}

/// Writes the result of a whole launch as [`VectorReduction::write`] does, the last thing that the
/// launch does: in stores of 8 bytes, and smaller ones for the rest, because the host may poll the
/// output meanwhile.
///
/// # Safety
/// As [`VectorReduction::write`]; the output is at a multiple of 8.
#[inline(always)]
pub(super) unsafe fn write_seen<F: VectorReduction>(
    partial: F::Partial,
    arguments: ReduceCut<F::Element>,
) {
    const { assert!(output_bytes::<F>() <= MOST_OUTPUT_BYTES) };
    let mut result = [0_u64; MOST_OUTPUT_BYTES as usize / size_of::<u64>()];
    let (from, to) = (result.as_mut_ptr(), arguments.output);
    let whole = (output_bytes::<F>() / size_of::<u64>() as u64) as usize;
    // SAFETY: there is room for the largest result, and at the output for this one; the caller's
    // contract.
    unsafe {
        F::write(partial, ReduceCut { output: from, ..arguments });
        for word in 0..whole {
            to.add(word).write_volatile(*from.add(word));
        }
        let (mut from, mut to) = (from.add(whole).cast::<u8>(), to.add(whole).cast::<u8>());
        if output_bytes::<F>() & 4 != 0 {
            to.cast::<u32>().write_volatile(*from.cast());
            (from, to) = (from.add(4), to.add(4));
        }
        if output_bytes::<F>() & 2 != 0 {
            to.cast::<u16>().write_volatile(*from.cast());
            (from, to) = (from.add(2), to.add(2));
        }
        if output_bytes::<F>() & 1 != 0 {
            to.write_volatile(*from);
        }
    }
}
