//! An author's own reduction as a [`Fold`], and the macro that declares its kernels.

use core::{marker::PhantomData, mem::transmute_copy};

use warpfold_abi::{
    arguments::{DescribeReduction, ReduceCut, ReduceLaws},
    custom::{FORMAT, Facts, LAW_RESULTS, MOST_ELEMENT_BYTES, MOST_OUTPUT_ALIGN, MOST_OUTPUT_BYTES},
    reducer::PARTIAL_WORDS,
};

use super::{CHAINS, Fold, Group};
use crate::{Value, grid::thread_index, op::Operation, thread::Few};

/// A reduction that an author writes: every element is mapped to a partial result, partial results are
/// combined, and the last one is finished.
///
/// [`reducer!`](crate::reducer) declares its kernels, which are those of [`reduction`](super). On the
/// host `warpfold::custom` loads them, and `warpfold::Reducer` launches them.
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
pub trait Reduction: 'static {
    /// What lies in memory: plain data of 1 to 64 bytes, `#[repr(C)]` if it is a struct. Any bits are a
    /// value of it, and it has no padding.
    ///
    /// Elements of 1, 2, 4, 8 and 16 bytes lie at multiples of their size, and are loaded 16 bytes at a
    /// time. Others lie at multiples of their alignment, and are loaded one by one, each by as many
    /// instructions as its fields need.
    type Element: Copy + 'static;
    /// What is combined: a number, a tuple, or a struct that [`value!`](crate::value) declares, of
    /// [`PARTIAL_WORDS`] words at most.
    type Partial: Value;
    /// The result: plain data of 1 to 64 bytes, `#[repr(C)]` if it is a struct, at multiples of at most
    /// 8.
    type Output: Copy + 'static;

    /// Changes nothing that it is combined with. Its [`finish`](Self::finish) is the result of no
    /// elements.
    const IDENTITY: Self::Partial;

    /// Whether [`map`](Self::map) looks at the index. Where it does not, `false` saves segments and runs
    /// of keys the work of finding it; where it does, `false` makes their results wrong.
    const INDEXED: bool = true;

    /// The partial result of one element; `index` is its place in the buffer, the row, on the axis, in
    /// the segment, or among the elements along some axes of a view, of which the last axis varies
    /// fastest.
    fn map(element: Self::Element, index: u64) -> Self::Partial;

    /// Two partial results into one.
    fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial;

    /// The result of all elements.
    fn finish(partial: Self::Partial) -> Self::Output;
}

/// What the kernels and the host cannot do without, said when a reduction is compiled.
const fn check<R: Reduction>() {
    let (element, output) = (size_of::<R::Element>() as u64, size_of::<R::Output>() as u64);
    assert!(
        element > 0 && element <= MOST_ELEMENT_BYTES,
        "an element of a reduction has 1 to 64 bytes: reduce smaller pieces of it"
    );
    assert!(
        R::Partial::WORDS > 0 && R::Partial::WORDS <= PARTIAL_WORDS,
        "a partial result has 1 to 9 words of 32 bits: keep less, or in smaller types"
    );
    assert!(output > 0 && output <= MOST_OUTPUT_BYTES, "an output has 1 to 64 bytes: finish to less");
    assert!(
        align_of::<R::Output>() as u64 <= MOST_OUTPUT_ALIGN,
        "an output lies at multiples of 8 at most: give it a smaller alignment"
    );
}

/// How two partial results of a reduction become one.
pub struct CombineOf<R>(PhantomData<R>);

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
}

/// A [`Reduction`] as what the kernels take.
pub struct FoldOf<R>(PhantomData<R>);

impl<R: Reduction> Fold for FoldOf<R> {
    type Element = R::Element;
    type Accumulator = [R::Partial; CHAINS];
    type Partial = R::Partial;
    type Combine = CombineOf<R>;
    type Continued = Self;
    const COMBINE: CombineOf<R> = CombineOf(PhantomData);
    const RESULT_BYTES: u64 = size_of::<R::Output>() as u64;
    const TAKES_ZEROS: bool = false;
    const INDEXED: bool = R::INDEXED;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [R::IDENTITY; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, index: u64) {
        kept[chain] = R::combine(kept[chain], of_group::<R>(group, index));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> R::Partial {
        kept.in_pairs(R::combine)
    }

    #[inline(always)]
    fn of(element: R::Element, index: u64) -> R::Partial {
        R::map(element, index)
    }

    #[inline(always)]
    unsafe fn write(partial: R::Partial, arguments: ReduceCut<R::Element>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = R::finish(partial) };
    }
}

/// The elements of a group combined in pairs: halves of it, and halves of those, down to an element.
/// Elements that make no whole group are none of its business.
#[inline(always)]
fn of_group<R: Reduction>(group: Group, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<Group>() {
        return R::map(element(group), index);
    }
    let [a, b, c, d] = group;
    let half = FoldOf::<R>::LANES / 2;
    R::combine(of_pair::<R>([a, b], index), of_pair::<R>([c, d], index + half))
}

/// Takes an element of 8 bytes.
#[inline(always)]
fn of_pair<R: Reduction>(pair: [u32; 2], index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<[u32; 2]>() {
        return R::map(element(pair), index);
    }
    let [a, b] = pair;
    let quarter = FoldOf::<R>::LANES / 4;
    R::combine(of_word::<R>(a, index), of_word::<R>(b, index + quarter))
}

/// Takes an element of 4 bytes.
#[inline(always)]
fn of_word<R: Reduction>(word: u32, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u32>() {
        return R::map(element(word), index);
    }
    let eighth = FoldOf::<R>::LANES / 8;
    R::combine(of_half::<R>(word as u16, index), of_half::<R>((word >> 16) as u16, index + eighth))
}

/// Takes an element of 2 bytes.
#[inline(always)]
fn of_half<R: Reduction>(half: u16, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u16>() {
        return R::map(element(half), index);
    }
    R::combine(R::map(element(half as u8), index), R::map(element((half >> 8) as u8), index + 1))
}

/// Bits as the element that they are.
#[inline(always)]
fn element<B: Copy, T: Copy>(bits: B) -> T {
    // SAFETY: `element` is called with as many bits as the element has, or in code that never runs; any
    // bits are a value of it.
    unsafe { transmute_copy(&bits) }
}

/// Says what the reduction is made of, so that the host can compare it with what it takes it for.
///
/// # Safety
/// The arguments are what their fields say.
#[inline(always)]
pub unsafe fn describe<R: Reduction>(DescribeReduction { output }: DescribeReduction) {
    const { check::<R>() };
    let facts = Facts {
        format: FORMAT,
        element_bytes: size_of::<R::Element>() as u64,
        element_align: align_of::<R::Element>() as u64,
        output_bytes: size_of::<R::Output>() as u64,
        output_align: align_of::<R::Output>() as u64,
        sm_90: cfg!(warpfold_sm_90).into(),
        indexed: R::INDEXED.into(),
    };
    if thread_index() == 0 {
        // SAFETY: the caller's contract.
        unsafe { *output.cast() = facts };
    }
}

/// What the laws of a reduction say is equal, of each pair of some elements.
///
/// # Safety
/// The arguments are what their fields say; there are as many threads as pairs, or more.
#[inline(always)]
pub unsafe fn laws<R: Reduction>(arguments: ReduceLaws<R::Element>) {
    let ReduceLaws { input, n, output } = arguments;
    let pair = thread_index();
    if pair >= n * n {
        return;
    }
    // It is not 0 here, which the compiler does not know; pairs are counted in 32 bits.
    let (n, small) = (Ord::max(n as u32, 1), pair as u32);
    let (i, j) = (small / n, small % n);
    // SAFETY: the indices are those of elements.
    let of = |index: u32| R::map(unsafe { *input.add(index as usize) }, index.into());
    let (a, b, c) = (of(i), of(j), of((i + j + 1) % n));
    let first = output.cast::<R::Output>().wrapping_add(pair as usize * LAW_RESULTS);
    // SAFETY: there is room for the results of every pair.
    unsafe {
        *first = R::finish(a);
        *first.add(1) = R::finish(R::combine(R::IDENTITY, a));
        *first.add(2) = R::finish(R::combine(a, R::IDENTITY));
        *first.add(3) = R::finish(R::combine(a, b));
        *first.add(4) = R::finish(R::combine(b, a));
        *first.add(5) = R::finish(R::combine(R::combine(a, b), c));
        *first.add(6) = R::finish(R::combine(a, R::combine(b, c)));
    }
}
