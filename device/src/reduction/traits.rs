//! The traits of the operations that the kernels run.

use core::{marker::PhantomData, mem::transmute_copy};

use warpfold_abi::{
    arguments::ReduceCut,
    custom::MOST_OUTPUT_BYTES,
    form,
    reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT},
};

use crate::{Value, op::Operation};

/// A vector of elements: 16 bytes, as loaded.
pub type Vector = [u32; 4];

/// Accumulators per thread: one for each load in flight, so that no addition waits for another one.
pub const ACCUMULATORS: usize = GROUPS_IN_FLIGHT as usize;

/// Returns whether elements are loaded as vectors of 16 bytes. Others are loaded one by one.
pub const fn in_vectors<T>() -> bool {
    warpfold_abi::custom::in_groups(size_of::<T>() as u64)
}

/// Returns the number of elements per vector; 1 for elements that are loaded one by one.
pub const fn lanes<T>() -> u64 {
    if in_vectors::<T>() { GROUP_BYTES as u64 / size_of::<T>() as u64 } else { 1 }
}

/// A reduction: it maps elements to partial results, combines these, and finishes the last one.
///
/// The operations of `warpfold::op` implement it, and so can user-defined ones:
/// [`reducer!`](crate::reducer) declares the kernels of [`reduction`](super) for them, which
/// `warpfold::custom` loads on the host, and `warpfold::Reducer` launches.
///
/// The order in which elements are combined depends on the launch, and the identity is combined with
/// some of them. Therefore, for all partial results:
///
/// - `combine` is associative and commutative, up to rounding for sums of floats.
/// - Combining with [`IDENTITY`](Self::IDENTITY), on either side, changes nothing.
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
    /// The type of the elements in memory: plain data of 1 to 64 bytes without padding, for which all
    /// bit patterns are valid; `#[repr(C)]` if it is a struct.
    ///
    /// Elements of 1, 2, 4, 8 and 16 bytes are aligned to their size, and loaded 16 bytes at a time.
    /// Others are loaded one by one, with as many instructions as their fields need.
    type Element: Copy + 'static;
    /// The partial result of some elements: a number, a tuple, or a [`value!`](crate::value!) struct, of
    /// at most [`PARTIAL_WORDS`](warpfold_abi::reducer::PARTIAL_WORDS) words.
    type Partial: Value;
    /// The result: plain data of 1 to 64 bytes without padding, aligned to at most 8; `#[repr(C)]` if it
    /// is a struct.
    type Output: Copy + 'static;

    /// The identity of [`combine`](Self::combine). The result of an empty input is its
    /// [`finish`](Self::finish).
    const IDENTITY: Self::Partial;

    /// `true` if [`map`](Self::map) uses the index. If it is `false`, the kernels for segments and for
    /// runs of keys do not compute the index; their results are wrong if `map` uses it nevertheless.
    const INDEXED: bool = true;

    /// `true` if vectors of zeros change nothing: [`map_vector`](Self::map_vector) returns
    /// [`IDENTITY`](Self::IDENTITY) for them at every index, even past the end of the input, and a
    /// [`VectorReduction`] does not change its accumulator. The kernels then pass zeros for missing
    /// vectors, which is faster. If it is `true` and this does not hold, results are wrong.
    const ZERO_PADDABLE: bool = false;

    /// Returns the partial result of one element. `index` is its position in the buffer, row, axis or
    /// segment, or among the elements along the reduced axes of a view, whose last axis varies fastest.
    /// For running reductions and groups of devices, it counts from the first element of the first
    /// launch or device. If [`INDEXED`](Self::INDEXED) is `false`, it may be any number.
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

    /// Combines the partial results of a warp's lanes faster than pair by pair, if there is a way, as
    /// with a hardware instruction. Returns `None` either in all lanes or in none, independently of the
    /// values; otherwise returns the [`combine`](Self::combine) of the lanes in `members` in every lane.
    ///
    /// # Safety
    /// All lanes in `members` call it together, the calling lane among them.
    #[inline(always)]
    unsafe fn combine_warp(_partial: Self::Partial, _members: u32) -> Option<Self::Partial> {
        None
    }

    /// Returns the result of all elements.
    fn finish(partial: Self::Partial) -> Self::Output;

    /// `true` if the host can choose between several [forms](warpfold_abi::form) of a result.
    #[doc(hidden)]
    const HAS_FORMS: bool = false;

    /// Returns the distance in bytes between results of this [form](warpfold_abi::form).
    #[doc(hidden)]
    #[inline(always)]
    fn output_bytes(_form: u64) -> u64 {
        size_of::<Self::Output>() as u64
    }

    /// Writes the result of all elements, in the form of `arguments.form` if the operation has several.
    ///
    /// # Safety
    /// The output has room for a result of this form, and its distance from a multiple of 8 is a
    /// multiple of the result's size. The elements that `partial` refers to are readable in the input.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<Self::Element>) {
        const { assert!(align_of::<Self::Output>() <= 8) };
        // SAFETY: the output has room for the result. It is aligned: its offset from a multiple of 8 is
        // a multiple of its size and so of its alignment, which divides 8.
        unsafe { *arguments.output.cast() = Self::finish(partial) };
    }
}

/// Implements [`Reduction::IDENTITY`], [`combine`](Reduction::combine) and
/// [`combine_warp`](Reduction::combine_warp) with an [`Operation`].
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
            // SAFETY: all lanes in `members` call it together, as the caller guarantees.
            unsafe {
                <$Operation as $crate::op::Operation<Self::Partial>>::combine_warp(partial, members)
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
    unsafe fn combine_warp(partial: R::Partial, members: u32) -> Option<R::Partial> {
        // SAFETY: all lanes in `members` call it together, as the caller guarantees.
        unsafe { R::combine_warp(partial, members) }
    }
}

/// A reduction in the form that the kernels use: threads accumulate vectors of 16 bytes.
///
/// [`Unrolled`](super::Unrolled) implements it for any [`Reduction`]. Reductions whose accumulator does
/// not consist of their partial results implement it directly.
pub trait VectorReduction: Reduction {
    /// A thread's state while it loads vectors.
    type Accumulator: Copy;
    /// The reduction for launches that each cover only some of the elements. If
    /// [`write`](Reduction::write) calls [`count`], this is a reduction whose partial results include
    /// the number of elements; otherwise it is `Self`.
    type Continued: VectorReduction<Element = Self::Element, Output = Self::Output>;
    /// `true` if [`write`](Reduction::write) reloads elements of the input that the partial result
    /// refers to.
    const RELOADS_INPUT: bool = false;
    /// Elements per vector.
    const LANES: u64 = lanes::<Self::Element>();

    /// Returns an empty accumulator.
    fn start() -> Self::Accumulator;

    /// Accumulates a vector whose first element has this index; indices ascend from call to call.
    /// `chain`, less than [`ACCUMULATORS`], is the number of the load in flight: vectors of different
    /// chains can be accumulated independently. Not called for elements that are loaded one by one.
    fn accumulate(accumulator: &mut Self::Accumulator, chain: usize, vector: Vector, index: u64);

    /// Returns the partial result of an accumulator.
    fn close(accumulator: Self::Accumulator) -> Self::Partial;

    /// Combines a vector into the partial result of the elements before it, if any.
    #[inline(always)]
    fn accumulate_vector(partial: &mut Self::Partial, vector: Vector, index: u64) {
        accumulate_vector::<Self>(partial, vector, index);
    }

    /// Combines an element into the partial result of the elements before it, if any.
    #[inline(always)]
    fn accumulate_one(partial: &mut Self::Partial, element: Self::Element, index: u64) {
        *partial = Self::combine(*partial, Self::map(element, index));
    }

    /// Writes the result of elements that are not contiguous. `span_of` locates the element with an
    /// index, or the vector that begins with it if vectors were accumulated.
    ///
    /// # Safety
    /// Same as [`write`](Reduction::write), for elements located by `span_of`.
    #[inline(always)]
    unsafe fn write_apart(
        partial: Self::Partial,
        arguments: ReduceCut<Self::Element>,
        _span_of: impl Fn(u64) -> Span<Self::Element>,
    ) {
        // SAFETY: the output has room. Reductions that reload the input override this method.
        unsafe { Self::write(partial, arguments) };
    }
}

/// Elements that were accumulated at once: one element, or a vector.
pub struct Span<T> {
    /// The first element.
    pub first: *const T,
    /// Number of elements.
    pub len: u64,
}

/// Returns the element, or the vector, of a buffer with this index.
#[inline(always)]
pub fn span<T>(of: ReduceCut<T>, index: u64) -> Span<T> {
    let ReduceCut { input, head, groups, .. } = of;
    // Also true for a single element if it begins such a vector.
    let in_group = index >= head
        && index < head + groups * lanes::<T>()
        && (index - head).is_multiple_of(lanes::<T>());
    let len = if in_group { lanes::<T>() } else { 1 };
    Span { first: input.wrapping_add(index as usize), len }
}

/// Short name of [`VectorReduction::Continued`], for macros.
pub type ContinuedOf<R> = <R as VectorReduction>::Continued;

/// Returns the number of elements that this launch reduces, without those of earlier launches.
#[inline(always)]
pub fn count<T>(of: ReduceCut<T>) -> u64 {
    of.groups * lanes::<T>() + of.singles
}

/// Writes the result of a whole launch, as its last action: like [`Reduction::write`], but in
/// stores of 8 bytes, and smaller ones for the rest, because the host may poll the output.
///
/// # Safety
/// Same as [`Reduction::write`]; the output is at a multiple of 8, or of the result's size if that is a
/// power of two.
#[inline(always)]
pub(super) unsafe fn write_seen<F: VectorReduction>(
    partial: F::Partial,
    arguments: ReduceCut<F::Element>,
) {
    let bytes = const { size_of::<F::Output>() as u64 };
    const { assert!(size_of::<F::Output>() as u64 <= MOST_OUTPUT_BYTES) };
    let mut result = [0_u64; MOST_OUTPUT_BYTES as usize / size_of::<u64>()];
    let (from, to) = (result.as_mut_ptr(), arguments.output);
    let whole = (bytes / size_of::<u64>() as u64) as usize;
    // SAFETY: `result` has room for any result; the output is valid, and the elements that `partial`
    // refers to are readable, as the caller guarantees.
    unsafe {
        F::write(partial, ReduceCut { output: from, results: 1, ..arguments });
        if F::HAS_FORMS && arguments.form != form::OUTPUT {
            match F::output_bytes(arguments.form) * form::values(arguments.form) {
                1 => to.cast::<u8>().write_volatile(*from.cast()),
                2 => to.cast::<u16>().write_volatile(*from.cast()),
                4 => to.cast::<u32>().write_volatile(*from.cast()),
                8 => to.write_volatile(*from),
                _ => {
                    to.write_volatile(*from);
                    to.add(1).write_volatile(*from.add(1));
                }
            }
            return;
        }
        for word in 0..whole {
            to.add(word).write_volatile(*from.add(word));
        }
        let (mut from, mut to) = (from.add(whole).cast::<u8>(), to.add(whole).cast::<u8>());
        if bytes & 4 != 0 {
            to.cast::<u32>().write_volatile(*from.cast());
            (from, to) = (from.add(4), to.add(4));
        }
        if bytes & 2 != 0 {
            to.cast::<u16>().write_volatile(*from.cast());
            (from, to) = (from.add(2), to.add(2));
        }
        if bytes & 1 != 0 {
            to.write_volatile(*from);
        }
    }
}

/// Combines a vector into a partial result through an accumulator of its own.
#[inline(always)]
pub fn accumulate_vector<F: VectorReduction>(partial: &mut F::Partial, vector: Vector, index: u64) {
    let mut accumulator = F::start();
    F::accumulate(&mut accumulator, 0, vector, index);
    *partial = F::combine(*partial, F::close(accumulator));
}

/// Combines a vector's elements as a tree. Returns the identity if elements are loaded one by one.
#[inline(always)]
fn map_vector<R: Reduction>(vector: Vector, index: u64) -> R::Partial {
    if !in_vectors::<R::Element>() {
        return R::IDENTITY;
    }
    if size_of::<R::Element>() == size_of::<Vector>() {
        return R::map(reinterpret(vector), index);
    }
    let [a, b, c, d] = vector;
    let half = lanes::<R::Element>() / 2;
    R::combine(map_pair::<R>([a, b], index), map_pair::<R>([c, d], index + half))
}

#[inline(always)]
fn map_pair<R: Reduction>(pair: [u32; 2], index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<[u32; 2]>() {
        return R::map(reinterpret(pair), index);
    }
    let [a, b] = pair;
    let quarter = lanes::<R::Element>() / 4;
    R::combine(map_word::<R>(a, index), map_word::<R>(b, index + quarter))
}

#[inline(always)]
fn map_word<R: Reduction>(word: u32, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u32>() {
        return R::map(reinterpret(word), index);
    }
    let eighth = lanes::<R::Element>() / 8;
    R::combine(map_half::<R>(word as u16, index), map_half::<R>((word >> 16) as u16, index + eighth))
}

#[inline(always)]
fn map_half<R: Reduction>(half: u16, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u16>() {
        return R::map(reinterpret(half), index);
    }
    R::combine(R::map(reinterpret(half as u8), index), R::map(reinterpret((half >> 8) as u8), index + 1))
}

/// Returns the element or the word with the same bits, which has the same size in code that runs.
#[inline(always)]
pub(super) fn reinterpret<A: Copy, B: Copy>(bits: A) -> B {
    // SAFETY: in code that runs, both have the same size; all bit patterns of elements and of words are
    // valid.
    unsafe { transmute_copy(&bits) }
}
