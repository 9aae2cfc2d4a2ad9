//! The operations on slices on the CPU, for machines without a GPU and for checking results of GPUs.
//!
//! A [reproducible](crate::op#the-same-bits) operation returns the same bits here as on a GPU:
//!
//! ```
//! use warpfold::{Device, Reducer, Selection, cpu, op};
//!
//! let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin() * 1e3).collect();
//! let device = Device::open(Selection::Sim)?;
//! let on_device = Reducer::new(&device)?.reduce(op::Sum.reproducible(), &device.upload(&values)?)?;
//! let here = cpu::reduce(op::Sum.reproducible(), &values)?;
//! assert_eq!(here.to_bits(), on_device.to_bits());
//! // One result per row of a matrix.
//! assert_eq!(cpu::reduce_rows(op::Max, &[1, 5, 2, 7, 7, 3], 3)?, [5, 7]);
//! # Ok::<(), warpfold::Error>(())
//! ```
//!
//! # Threads
//! Slices of more than 2^15 elements are divided among the threads of the current rayon pool, by default
//! the global one. Results do not depend on the number of threads. In a forked child of a process that
//! has used this crate, a call runs on the calling thread alone, unless that thread belongs to a pool.
//!
//! # Accuracy of the other operations
//! Results are the same in each call, and, except for [`LogSumExp`](crate::op::LogSumExp), on each
//! machine. Floats are rounded as follows:
//!
//! - [`Sum`](crate::op::Sum), [`SumOfSquares`](crate::op::SumOfSquares) and
//!   [`SumOfMagnitudes`](crate::op::SumOfMagnitudes) are computed in `f64` and rounded to
//!   [`Element::Sum`] at the end. Before that, the error is at most 160·2^−53 of the sum of the terms'
//!   magnitudes, plus the rounding of squares of `f64`.
//! - The sum of [`reduce_within`] is computed likewise, unless its range is in
//!   [`Reproducible`](crate::op::Reproducible).
//! - [`Dot`](crate::op::Dot) and [`SquaredDistance`](crate::op::SquaredDistance) are computed likewise;
//!   the rounding of products, differences and squared differences of `f64` comes in addition.
//! - [`Product`](crate::op::Product) is computed and rounded in the same way. Before the rounding, the
//!   error of n factors is at most (n − 1)u / (1 − (n − 1)u) of the product, where u is 2^−53, unless an
//!   intermediate product overflows or underflows.
//! - [`Mean`](crate::op::Mean) and [`L2Norm`](crate::op::L2Norm) are computed in `f64` like sums, or, if
//!   the sum overflows or underflows, from an exact sum or from scaled elements.
//! - [`HarmonicMean`](crate::op::HarmonicMean) is computed in `f64`: for n elements of one sign the
//!   error is at most (n + 4)·2^−53 of the mean.
//! - [`ThirdCentralMoment`](crate::op::ThirdCentralMoment) is computed in `f64` from the distances to
//!   the element nearest to the mean. The error is within the bound that the operation states.
//! - [`MeanAndVariance`](crate::op::MeanAndVariance) returns its
//!   [reproducible](crate::op::Reproducible) result.
//! - [`LogSumExp`](crate::op::LogSumExp) is computed in `f64` with the platform's exponential and
//!   logarithm, and rounded at the end. No error bound is stated.

/// Calls a function for integers or for floats on slices of bytes with elements of a [`Dtype`].
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

mod fold;
mod form;
mod item;
mod lanes;
mod top;

pub use top::{top_k, top_k_rows};

use std::ops::Range;

use bytemuck::Zeroable;
use rayon::prelude::*;

use crate::{
    Element, Error, Result, Within,
    element::{Words, sealed::Outcome as _},
    geometry::MAX_ELEMENTS,
    input::{filtered::Ends, pairs, rows},
    names::{Dtype, Form, Op, PairOp, WithinOp},
    op::{Description, Interval, Operation, PairOperation, RowsOperation, describe::described},
    reducer::Code,
};

/// Minimum number of elements per thread.
const PER_THREAD: usize = 1 << 15;
/// Parts per thread into which a batch of rows is divided, so that threads finish at about the same
/// time.
const PARTS_PER_THREAD: usize = 8;
const MOST_ROWS_AT_ONCE: usize = 1 << 18;

/// Reduces a slice by any built-in [operation](crate::op).
///
/// # Errors
/// [`Error::TooManyElements`] for more than 2^35 elements, and [`Error::Custom`] for an expression or a
/// custom operation, which has code for GPUs only.
pub fn reduce<T: Element, O: Operation<T>>(op: O, values: &[T]) -> Result<O::Output> {
    let (op, dtype) = built_in(&op.code())?;
    check(values)?;
    match O::of_none() {
        Some(of_none) if values.is_empty() => Ok(of_none),
        _ => Ok(O::decode(in_words(words_of(op, dtype, bytemuck::cast_slice(values))))),
    }
}

/// Returns a description of a slice. The mean and the variance are those of the
/// [reproducible](crate::op::Reproducible) operation.
///
/// # Errors
/// [`Error::TooManyElements`] for more than 2^35 elements.
pub fn describe<T: Element>(values: &[T]) -> Result<Description<T>> {
    check(values)?;
    let mut words = [Words::default(); 3];
    if !values.is_empty() {
        for (words, op) in words.iter_mut().zip(described(T::DTYPE)) {
            *words = in_words(words_of(op, T::DTYPE, bytemuck::cast_slice(values)));
        }
    }
    Ok(Description::of(values.len() as u64, words))
}

/// Returns a description of every row of `len` elements, as [`describe`] returns one of all elements.
///
/// # Errors
/// - [`Error::Rows`] for rows of 0 elements, and for a length that does not divide the number of
///   elements;
/// - [`Error::TooManyElements`] for more than 2^35 elements.
pub fn describe_rows<T: Element>(values: &[T], len: usize) -> Result<Vec<Description<T>>> {
    rows::check(values.len(), len)?;
    check(values)?;
    let mut rows = vec![[Words::default(); 3]; values.len() / len];
    for (place, op) in described(T::DTYPE).enumerate() {
        let mut row = rows.iter_mut();
        let mut take = |words| {
            if let Some(row) = row.next() {
                row[place] = words;
            }
        };
        each_row(op, T::DTYPE, bytemuck::cast_slice(values), len, &mut take);
    }
    Ok(rows.into_iter().map(|words| Description::of(len as u64, words)).collect())
}

/// Reduces every row of `len` elements by any built-in [operation](crate::op) except
/// [`WrappingSum`](crate::op::WrappingSum).
///
/// # Errors
/// - [`Error::Rows`] for rows of 0 elements, and for a length that does not divide the number of
///   elements;
/// - [`Error::TooManyElements`] for more than 2^35 elements;
/// - [`Error::Custom`] for an expression or a custom operation.
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

/// Reduces pairs, the elements of two slices with the same index, by any [operation on
/// pairs](PairOperation).
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

/// Returns the number of elements in an interval and their sum in the type [`Element::Sum`], as for
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
/// [`Error::Interval`] for a bound that is NaN, and [`Error::TooManyElements`] for more than 2^35
/// elements.
pub fn reduce_within<T: Element>(range: impl Interval<T>, values: &[T]) -> Result<Within<T::Sum>> {
    check(values)?;
    let Some(ends) = Ends::of(range.bounds())?.filter(|_| !values.is_empty()) else {
        return Ok(Within::none());
    };
    let words = words_within((range.op(), ends), T::DTYPE, bytemuck::cast_slice(values));
    Ok(Within::from_words(words))
}

fn built_in(code: &Code) -> Result<(Op, Dtype)> {
    match *code {
        Code::BuiltIn(op, dtype) => Ok((op, dtype)),
        Code::Expression(_) => {
            let reason = "it is compiled for devices; reduce a buffer of a device, or of the simulator";
            Err(Error::Custom { name: code.name(), reason: reason.to_owned() })
        }
        Code::Fused(_) => unreachable!("the code of several operations"),
        Code::Custom(_) => {
            let reason = "it is a program's own operation, whose code is for GPUs only; reduce a buffer \
                          of a device";
            Err(Error::Custom { name: code.name(), reason: reason.to_owned() })
        }
    }
}

fn check<T>(values: &[T]) -> Result<()> {
    check_len(values.len())
}

pub(crate) fn check_len(n: usize) -> Result<()> {
    let n = n as u64;
    if n > MAX_ELEMENTS { Err(Error::TooManyElements { n, most: MAX_ELEMENTS }) } else { Ok(()) }
}

/// Makes a pool of the calling thread in a forked process: the threads of rayon's global pool do not
/// exist there, and a call that is divided among them would never return.
fn require_threads() {
    if warpfold_driver::is_forked() && rayon::current_thread_index().is_none() {
        // If this fails, the thread already belongs to a pool.
        let _in_pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    }
}

// These functions return the words that a kernel would write. They take elements as bytes with their
// type, so that they are compiled once instead of once per type.

fn words_of(op: Op, dtype: Dtype, values: &[u8]) -> fold::Words {
    let output = of_type!(dtype, reduce_integers, reduce_floats, op, values);
    if op.form == Form::OUTPUT { output } else { form::formed(op, dtype, output, values) }
}

fn each_row(op: Op, dtype: Dtype, values: &[u8], len: usize, take: &mut dyn FnMut(Words)) {
    // If there are no elements, rows may have any length.
    let rows = values.len() / dtype.size() / len;
    each_piece(op, dtype, values, rows, |row| row * len..(row + 1) * len, take);
}

/// Passes the words of each of `count` pieces to `take`, in order. `piece` returns the range of elements
/// of a piece. The words of a piece without elements are zero.
pub(crate) fn each_piece(
    op: Op,
    dtype: Dtype,
    values: &[u8],
    count: usize,
    piece: impl Fn(usize) -> Range<usize> + Sync,
    take: &mut dyn FnMut(Words),
) {
    if count == 0 {
        return;
    }
    require_threads();
    let bytes = dtype.size();
    let len = (values.len() / bytes / count).max(1);
    let elements = PARTS_PER_THREAD * PER_THREAD * rayon::current_num_threads();
    let at_once = (elements / len).clamp(1, MOST_ROWS_AT_ONCE);
    let of = |index| match piece(index) {
        none if none.is_empty() => fold::Words::default(),
        Range { start, end } => words_of(op, dtype, &values[start * bytes..end * bytes]),
    };
    for first in (0..count).step_by(at_once) {
        let pieces = (first..count.min(first + at_once)).into_par_iter();
        let written: Vec<_> = pieces.with_min_len((PER_THREAD / len).max(1)).map(of).collect();
        written.into_iter().for_each(|written| take(in_words(written)));
    }
}

fn words_of_pairs(op: PairOp, dtype: Dtype, [first, second]: [&[u8]; 2]) -> Words {
    in_words(of_type!(dtype, reduce_integer_pairs, reduce_float_pairs, op, first, second))
}

fn words_within(op: (WithinOp, Ends), dtype: Dtype, values: &[u8]) -> Words {
    in_words(of_type!(dtype, sum_integers_within, sum_floats_within, op, values))
}

/// Extends a result by the words that only custom operations use.
fn in_words(written: fold::Words) -> Words {
    let mut words = Words::default();
    words[..written.len()].copy_from_slice(&written);
    words
}
