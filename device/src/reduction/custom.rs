//! Kernels with which the host checks a user-defined [`Reduction`]: its types and its laws.

use warpfold_abi::{
    arguments::{DescribeReduction, ReduceLaws},
    custom::{FORMAT, Facts, LAW_RESULTS, MOST_ELEMENT_BYTES, MOST_OUTPUT_ALIGN, MOST_OUTPUT_BYTES},
    reducer::PARTIAL_WORDS,
};

use super::Reduction;
use crate::{Value, grid::thread_index};

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

/// Writes the [`Facts`] of a reduction, which the host compares with its own types.
///
/// # Safety
/// The arguments are as their fields document.
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
        // SAFETY: the output has room for the facts, as the caller guarantees.
        unsafe { *output.cast() = facts };
    }
}

/// Writes, for each pair of elements, the results that must be equal by the laws of a reduction.
///
/// # Safety
/// The arguments are as their fields document; there are at least as many threads as pairs.
#[inline(always)]
pub unsafe fn laws<R: Reduction>(arguments: ReduceLaws<R::Element>) {
    let ReduceLaws { input, n, output } = arguments;
    let pair = thread_index();
    if pair >= n * n {
        return;
    }
    // `n` is not 0, but the compiler does not know that; pairs fit in 32 bits.
    let (n, small) = (Ord::max(n as u32, 1), pair as u32);
    let (i, j) = (small / n, small % n);
    // SAFETY: the indices are below `n`.
    let of = |index: u32| R::map(unsafe { *input.add(index as usize) }, index.into());
    let (a, b, c) = (of(i), of(j), of((i + j + 1) % n));
    let first = output.cast::<R::Output>().wrapping_add(pair as usize * LAW_RESULTS);
    // SAFETY: the output has room for the results of every pair.
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
