//! The traits of the operations that the kernels run.

use core::{marker::PhantomData, mem::transmute_copy};

use warpfold_abi::{
    arguments::ReduceCut,
    custom::MOST_OUTPUT_BYTES,
    reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT},
};

use crate::{Value, op::Operation};

/// A vector of elements: 16 bytes, as loaded.
pub type Vector = [u32; 4];

/// Accumulators per thread: one for each of its loads in flight, so that none waits for another.
pub const ACCUMULATORS: usize = GROUPS_IN_FLIGHT as usize;

/// Returns whether elements are loaded as vectors of 16 bytes. Others are loaded one by one.
pub const fn in_vectors<T>() -> bool {
    warpfold_abi::custom::in_groups(size_of::<T>() as u64)
}

/// Returns the number of elements per vector; 1 for elements that are loaded one by one.
pub const fn lanes<T>() -> u64 {
    if in_vectors::<T>() { GROUP_BYTES as u64 / size_of::<T>() as u64 } else { 1 }
}

/// A reduction: every element is mapped to a partial result, these are combined, and the last is
/// finished.
///
/// The operations of `warpfold::op` implement it, and so can yours: [`reducer!`](crate::reducer)
/// declares the kernels of [`reduction`](super) for them, which `warpfold::custom` loads on the host,
/// and `warpfold::Reducer` launches.
///
/// The launch decides the order in which elements are combined, and combines the identity with some of
/// them. So, for all partial results:
///
/// - `combine` is associative and commutative, up to rounding for sums of floats.
/// - [`IDENTITY`](Self::IDENTITY) changes nothing that it is combined with, on either side.
///
/// `warpfold::custom::Custom::check` tests both on samples.
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
    /// The type of the elements in memory: plain data of 1 to 64 bytes without padding, of which all bit
    /// patterns are valid; `#[repr(C)]` if it is a struct.
    ///
    /// Elements of 1, 2, 4, 8 and 16 bytes are aligned to their size, and loaded 16 bytes at a time.
    /// Others are loaded one by one, each by as many instructions as its fields need.
    type Element: Copy + 'static;
    /// The partial result of some elements: a number, a tuple, or a [`value!`](crate::value!) struct, of
    /// at most [`PARTIAL_WORDS`](warpfold_abi::reducer::PARTIAL_WORDS) words.
    type Partial: Value;
    /// The result: plain data of 1 to 64 bytes without padding, aligned to at most 8; `#[repr(C)]` if it
    /// is a struct.
    type Output: Copy + 'static;

    /// The identity of [`combine`](Self::combine). The result of no elements is its
    /// [`finish`](Self::finish).
    const IDENTITY: Self::Partial;

    /// `true` if [`map`](Self::map) uses the index. `false` saves segments and runs of keys the work of
    /// finding it, and makes their results wrong if `map` does use it.
    const INDEXED: bool = true;

    /// `true` if zero bytes change nothing: [`map_vector`](Self::map_vector) of zeros is
    /// [`IDENTITY`](Self::IDENTITY) for every index, past the end of the input too, and a
    /// [`VectorReduction`] leaves its accumulator as it is. The kernels then pass zeros for missing
    /// vectors, which is faster; `true` gives wrong results where this does not hold.
    const ZERO_PADDABLE: bool = false;

    /// Returns the partial result of one element. `index` is its position in the buffer, row, axis or
    /// segment, or among the elements along the reduced axes of a view, whose last axis varies fastest.
    /// For running reductions and groups of devices it counts from the first element of all. If
    /// [`INDEXED`](Self::INDEXED) is `false`, it may be any number.
    fn map(element: Self::Element, index: u64) -> Self::Partial;

    /// Returns the partial result of a vector whose first element has this index.
    ///
    /// Combines the [`map`](Self::map) of each element. Override it if a vector can be reduced in fewer
    /// instructions as a whole. Not called for elements whose size does not divide 16.
    #[inline(always)]
    fn map_vector(vector: Vector, index: u64) -> Self::Partial {
        map_vector::<Self>(vector, index)
    }

    /// Combines two partial results.
    fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial;

    /// Combines the partial results of a warp's lanes by a hardware instruction, if there is one.
    /// Returns `None` in all lanes or in none, whatever the values are; otherwise returns the
    /// [`combine`](Self::combine) of the lanes in `members` in every lane.
    ///
    /// # Safety
    /// All lanes in `members` call it together, the calling lane among them.
    #[inline(always)]
    unsafe fn combine_warp(_partial: Self::Partial, _members: u32) -> Option<Self::Partial> {
        None
    }

    /// Returns the result of all elements.
    fn finish(partial: Self::Partial) -> Self::Output;
}

/// Implements [`Reduction::IDENTITY`], [`combine`](Reduction::combine) and
/// [`combine_warp`](Reduction::combine_warp) by an [`Operation`].
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

/// The combining operation of a reduction, for the collectives.
pub struct CombineOf<R>(PhantomData<R>);

impl<R> CombineOf<R> {
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

/// A reduction in the form that the kernels run: threads accumulate vectors of 16 bytes.
///
/// [`Unrolled`](super::Unrolled) implements it for any [`Reduction`]. Reductions whose accumulator is
/// not made of their partial results implement it themselves.
pub trait VectorReduction: Reduction {
    /// A thread's state while it loads vectors.
    type Accumulator: Copy;
    /// The reduction for launches that each cover only some of the elements. If [`write`](Self::write)
    /// calls [`count`], its partial results include the number of elements; otherwise it is `Self`.
    type Continued: VectorReduction<Element = Self::Element, Output = Self::Output>;
    /// `true` if [`write`](Self::write) rereads elements of the input that the partial result names.
    const RELOADS_INPUT: bool = false;
    /// Elements per vector.
    const LANES: u64 = lanes::<Self::Element>();

    /// Returns the accumulator of no elements.
    fn start() -> Self::Accumulator;

    /// Accumulates a vector whose first element has this index, which is larger than those before.
    /// `chain` is less than [`ACCUMULATORS`]. Not called for elements that are loaded one by one.
    fn accumulate(accumulator: &mut Self::Accumulator, chain: usize, vector: Vector, index: u64);

    /// Returns the partial result of an accumulator.
    fn close(accumulator: Self::Accumulator) -> Self::Partial;

    /// Combines an element into the partial result of the elements before it, if any.
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

    /// Writes the result of elements that are not contiguous: the element, or vector, of an index is
    /// located `place_of(index)` elements past the input.
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

pub(super) const fn output_bytes<R: Reduction>() -> u64 {
    size_of::<R::Output>() as u64
}

/// Short name of [`VectorReduction::Continued`], for macros.
pub type ContinuedOf<R> = <R as VectorReduction>::Continued;

/// Returns the number of elements of a result, unless it is a [`VectorReduction::Continued`]'s.
#[inline(always)]
pub fn count<T>(of: ReduceCut<T>) -> u64 {
    of.groups * lanes::<T>() + of.singles
}

/// Writes the result of a whole launch, as its last action: as [`VectorReduction::write`], but in stores
/// of 8 bytes, and smaller ones for the rest, because the host may poll the output.
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
    // SAFETY: both `result` and the output have room for this result; the caller's contract.
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

/// Combines the elements of a vector as a tree: its halves, and their halves, down to an element. Not
/// for elements that are loaded one by one.
#[inline(always)]
fn map_vector<R: Reduction>(vector: Vector, index: u64) -> R::Partial {
    if !in_vectors::<R::Element>() {
        return R::IDENTITY;
    }
    if size_of::<R::Element>() == size_of::<Vector>() {
        return R::map(element(vector), index);
    }
    let [a, b, c, d] = vector;
    let half = lanes::<R::Element>() / 2;
    R::combine(map_pair::<R>([a, b], index), map_pair::<R>([c, d], index + half))
}

#[inline(always)]
fn map_pair<R: Reduction>(pair: [u32; 2], index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<[u32; 2]>() {
        return R::map(element(pair), index);
    }
    let [a, b] = pair;
    let quarter = lanes::<R::Element>() / 4;
    R::combine(map_word::<R>(a, index), map_word::<R>(b, index + quarter))
}

#[inline(always)]
fn map_word<R: Reduction>(word: u32, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u32>() {
        return R::map(element(word), index);
    }
    let eighth = lanes::<R::Element>() / 8;
    R::combine(map_half::<R>(word as u16, index), map_half::<R>((word >> 16) as u16, index + eighth))
}

#[inline(always)]
fn map_half<R: Reduction>(half: u16, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u16>() {
        return R::map(element(half), index);
    }
    R::combine(R::map(element(half as u8), index), R::map(element((half >> 8) as u8), index + 1))
}

#[inline(always)]
fn element<B: Copy, T: Copy>(bits: B) -> T {
    // SAFETY: called with as many bits as an element has, or in code that never runs; any bits are one.
    unsafe { transmute_copy(&bits) }
}
