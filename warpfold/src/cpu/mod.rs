//! The operations on the CPU, of slices: for machines without a GPU, and to check what a GPU has found.
//!
//! What an operation brings [everywhere](crate::op#the-same-bits) has the same bits here as on a GPU:
//!
//! ```
//! use warpfold::{Device, Reducer, Selection, cpu, op};
//!
//! let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin() * 1e3).collect();
//! let device = Device::open(Selection::Sim)?;
//! let on_device = Reducer::new(&device)?.reduce(op::Sum.reproducible(), &device.upload(&values)?)?;
//! let here = cpu::reduce(op::Sum.reproducible(), &values)?;
//! assert_eq!(here.to_bits(), on_device.to_bits());
//! // Of every row of a matrix.
//! assert_eq!(cpu::reduce_rows(op::Max, &[1, 5, 2, 7, 7, 3], 3)?, [5, 7]);
//! # Ok::<(), warpfold::Error>(())
//! ```
//!
//! # Threads
//! Slices of more than 2^15 elements are shared among the threads of the rayon pool in which the call is
//! made, its global one by default. Results do not depend on how many there are. In a child by `fork` of
//! a process that has used this crate a call runs on its own thread, unless that is of a pool.
//!
//! # How exact the others are
//! Results are the same on each call, and on each machine but for the last of these. Where floats are
//! rounded on the way:
//!
//! - [`Sum`](crate::op::Sum), [`SumOfSquares`](crate::op::SumOfSquares) and
//!   [`SumOfMagnitudes`](crate::op::SumOfMagnitudes) are made in `f64`, and rounded to
//!   [`Element::Sum`] at the end. Until then they are off by 160·2^−53 of the sum of the terms'
//!   magnitudes at most, besides the rounding of squares of `f64`.
//! - The sum of [`reduce_within`] likewise, unless its range is in
//!   [`Reproducible`](crate::op::Reproducible).
//! - [`Dot`](crate::op::Dot) and [`SquaredDistance`](crate::op::SquaredDistance) likewise, besides the
//!   rounding of products and differences of `f64`, and of differences' squares.
//! - [`Product`](crate::op::Product) is made and rounded so, too. Until then n factors are off by
//!   (n − 1)u / (1 − (n − 1)u) of the product at most, where u is 2^−53, unless it overflows or
//!   underflows on its way.
//! - [`Mean`](crate::op::Mean) and [`L2Norm`](crate::op::L2Norm) are made in `f64`, as sums are; where
//!   that overflows or vanishes on the way, by an exact sum, or of scaled elements.
//! - [`MeanAndVariance`](crate::op::MeanAndVariance) is what it is in
//!   [`Reproducible`](crate::op::Reproducible).
//! - [`LogSumExp`](crate::op::LogSumExp) is made in `f64` by the platform's exponential and logarithm,
//!   and rounded at the end. A bound of the error is not stated.

mod fold;
mod item;
mod lanes;
mod top;

pub use top::{top_k, top_k_rows};

use bytemuck::Zeroable;
use rayon::prelude::*;

use crate::{
    Element, Error, Result, Within,
    element::{Words, sealed::Outcome as _},
    geometry::MAX_ELEMENTS,
    input::{filtered::Ends, pairs, rows},
    names::{Dtype, Op, PairOp, WithinOp},
    op::{Interval, Operation, PairOperation, RowsOperation},
    reducer::Code,
};

/// Elements that a thread takes at least.
const PER_THREAD: usize = 1 << 15;
/// Parts of a thread among rows that are reduced together, so that threads end at about the same time.
const PARTS_PER_THREAD: usize = 8;
/// Most rows that are reduced before their results are passed on.
const MOST_ROWS_AT_ONCE: usize = 1 << 18;

/// What a function of integers, or one of floats, makes of slices, whose elements are of a type that the
/// compiler does not see.
macro_rules! of_type {
    ($dtype:expr, $integers:ident, $floats:ident, $op:expr, $($slice:expr),*) => {
        match $dtype {
            Dtype::I8 => of_type!(@ $integers i8, $op, $($slice),*),
            Dtype::U8 => of_type!(@ $integers u8, $op, $($slice),*),
            Dtype::I16 => of_type!(@ $integers i16, $op, $($slice),*),
            Dtype::U16 => of_type!(@ $integers u16, $op, $($slice),*),
            Dtype::I32 => of_type!(@ $integers i32, $op, $($slice),*),
            Dtype::U32 => of_type!(@ $integers u32, $op, $($slice),*),
            Dtype::I64 => of_type!(@ $integers i64, $op, $($slice),*),
            Dtype::U64 => of_type!(@ $integers u64, $op, $($slice),*),
            Dtype::F16 => of_type!(@ $floats half::f16, $op, $($slice),*),
            Dtype::Bf16 => of_type!(@ $floats half::bf16, $op, $($slice),*),
            Dtype::F32 => of_type!(@ $floats f32, $op, $($slice),*),
            Dtype::F64 => of_type!(@ $floats f64, $op, $($slice),*),
        }
    };
    (@ $words:ident $ty:ty, $op:expr, $($slice:expr),*) => {
        fold::$words::<$ty>($op, $(bytemuck::cast_slice($slice)),*)
    };
}

/// The result of any [operation](crate::op) on the elements.
///
/// # Errors
/// [`Error::TooManyElements`] for more than 2^35, and [`Error::Custom`] for a program's own operation,
/// which has code for GPUs alone.
pub fn reduce<T: Element, O: Operation<T>>(op: O, values: &[T]) -> Result<O::Output> {
    let (op, dtype) = built_in(&op.code())?;
    check(values)?;
    match O::of_none() {
        Some(of_none) if values.is_empty() => Ok(of_none),
        _ => Ok(O::decode(in_words(words_of(op, dtype, bytemuck::cast_slice(values))))),
    }
}

/// The result of any [operation](crate::op) but the wrapping sum, of every row of `len` elements.
///
/// # Errors
/// - [`Error::Rows`] for rows of 0 elements, and for a length that does not divide the number of
///   elements;
/// - [`Error::TooManyElements`] for more than 2^35.
pub fn reduce_rows<T: Element, O: RowsOperation<T>>(
    op: O,
    values: &[T],
    len: usize,
) -> Result<Vec<O::Left>> {
    let (op, dtype) = built_in(&op.code())?;
    rows::check(values.len(), len)?;
    check(values)?;
    let mut results = Vec::with_capacity(values.len() / len);
    let mut take = |words| results.push(O::Left::from_words(words));
    each_row(op, dtype, bytemuck::cast_slice(values), len, &mut take);
    Ok(results)
}

/// The result of any [operation on pairs](PairOperation): the elements of two slices that have the same
/// index.
///
/// ```
/// use warpfold::{cpu, op};
///
/// assert_eq!(cpu::reduce_pair(op::Dot, &[1_u8, 2, 255], &[3, 4, 255])?, 65_036);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`Error::Pairs`] for slices of different lengths, and [`Error::TooManyElements`] for more than 2^35.
pub fn reduce_pair<T: Element, O: PairOperation>(_op: O, first: &[T], second: &[T]) -> Result<T::Sum> {
    if pairs::check(first.len(), second.len())? == 0 {
        return Ok(T::Sum::zeroed());
    }
    let pairs = [first, second].map(bytemuck::cast_slice);
    Ok(T::Sum::from_words(words_of_pairs(O::op(T::DTYPE), T::DTYPE, pairs)))
}

/// How many elements lie in an interval, and their sum in the type [`Element::Sum`]: as of
/// [`Filtered`](crate::Filtered) elements.
///
/// ```
/// use warpfold::{Within, cpu};
///
/// assert_eq!(cpu::reduce_within(2..=100, &[1_u8, 2, 100, 101])?, Within::new(2, 102));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`Error::Interval`] for an end that is NaN, and [`Error::TooManyElements`] for more than 2^35.
pub fn reduce_within<T: Element>(range: impl Interval<T>, values: &[T]) -> Result<Within<T::Sum>> {
    check(values)?;
    let Some(ends) = Ends::of(range.bounds())?.filter(|_| !values.is_empty()) else {
        return Ok(Within::none());
    };
    let words = words_within((range.op(), ends), T::DTYPE, bytemuck::cast_slice(values));
    Ok(Within::from_words(words))
}

/// The operation and the type, which must be the library's.
fn built_in(code: &Code) -> Result<(Op, Dtype)> {
    match *code {
        Code::BuiltIn(op, dtype) => Ok((op, dtype)),
        Code::Custom(_) => {
            let reason = "it is a program's own, with code for GPUs alone; reduce a buffer of a device";
            Err(Error::Custom { name: code.name(), reason: reason.to_owned() })
        }
    }
}

fn check<T>(values: &[T]) -> Result<()> {
    let n = values.len() as u64;
    if n > MAX_ELEMENTS { Err(Error::TooManyElements { n, most: MAX_ELEMENTS }) } else { Ok(()) }
}

/// Makes a pool of the calling thread in a process that was forked. The threads of rayon's global pool
/// do not exist there, and a call that is shared among them would wait for ever.
fn require_threads() {
    if warpfold_driver::is_forked() && rayon::current_thread_index().is_none() {
        // Where that fails, the thread is in a pool already.
        let _in_pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    }
}

// What a kernel would write. These functions are not generic, so that they are compiled once: elements
// come as bytes, with their type.

fn words_of(op: Op, dtype: Dtype, values: &[u8]) -> fold::Words {
    of_type!(dtype, of_integers, of_floats, op, values)
}

/// Passes the words of each row of `len` elements to `take`.
fn each_row(op: Op, dtype: Dtype, values: &[u8], len: usize, take: &mut dyn FnMut(Words)) {
    if values.is_empty() {
        return;
    }
    require_threads();
    let row_bytes = len * dtype.size();
    let elements = PARTS_PER_THREAD * PER_THREAD * rayon::current_num_threads();
    for rows in values.chunks(row_bytes * (elements / len).clamp(1, MOST_ROWS_AT_ONCE)) {
        let rows = rows.par_chunks_exact(row_bytes).with_min_len((PER_THREAD / len).max(1));
        let written: Vec<_> = rows.map(|row| words_of(op, dtype, row)).collect();
        written.into_iter().for_each(|written| take(in_words(written)));
    }
}

fn words_of_pairs(op: PairOp, dtype: Dtype, [first, second]: [&[u8]; 2]) -> Words {
    in_words(of_type!(dtype, of_integer_pairs, of_float_pairs, op, first, second))
}

fn words_within(op: (WithinOp, Ends), dtype: Dtype, values: &[u8]) -> Words {
    in_words(of_type!(dtype, of_integers_within, of_floats_within, op, values))
}

/// The words of a result. The others are of results that no operation of the library has.
fn in_words(written: fold::Words) -> Words {
    let mut words = Words::default();
    words[..written.len()].copy_from_slice(&written);
    words
}
