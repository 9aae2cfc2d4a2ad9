//! Top-k: the first elements in an order, with their indices.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::{PER_THREAD, require_threads};
use crate::{
    Element, Located, Result,
    input::{rows, top},
    names::TopOp,
    op::TopK,
};

/// The largest k whose elements are kept in order, each inserted at its place. More of them are selected
/// first and sorted at the end.
const MOST_INSERTED: usize = 64;

/// Returns the k largest or smallest elements, in the order of `op`: [`op::Largest`](crate::op::Largest)
/// or [`op::Smallest`](crate::op::Smallest). If there are fewer than k elements, returns all of them.
///
/// ```
/// use warpfold::{cpu, op};
///
/// let largest = cpu::top_k(op::Largest(2), &[3, 9, -4, 9])?;
/// let (first, second) = (largest[0], largest[1]);
/// assert_eq!((first.value, first.index, second.value, second.index), (9, 1, 9, 3));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`Error::TopK`](crate::Error::TopK) for a k of 0;
/// [`Error::TooManyElements`](crate::Error::TooManyElements) for more than 2^35 elements.
pub fn top_k<T: Element, O: TopK>(op: O, values: &[T]) -> Result<Vec<Located<T>>> {
    let k = top::check(op, values.len())?;
    require_threads();
    let parts = values.par_chunks(PER_THREAD).enumerate();
    let parts = parts.map(|(part, values)| first_of::<T, O>(values, (part * PER_THREAD) as u64, k));
    let found = parts.reduce(Vec::new, |mut found, later| {
        if k <= MOST_INSERTED {
            later.into_iter().for_each(|element| offer::<T, O>(&mut found, element, k));
        } else {
            found.extend(later);
            keep_first::<T, O>(&mut found, k);
        }
        found
    });
    Ok(in_order::<T, O>(found, k))
}

/// Returns the k largest or smallest elements of every row of `len` elements, with their indices in the
/// row, row after row.
///
/// # Errors
/// - the errors of [`top_k`], and [`Error::TopK`](crate::Error::TopK) for a k above `len`;
/// - [`Error::Rows`](crate::Error::Rows) for rows of 0 elements, and for a length that does not divide
///   the number of elements.
pub fn top_k_rows<T: Element, O: TopK>(op: O, values: &[T], len: usize) -> Result<Vec<Located<T>>> {
    rows::check(values.len(), len)?;
    let k = top::check_rows(op, values.len(), len)?;
    require_threads();
    let rows = values.par_chunks_exact(len).with_min_len((PER_THREAD / len).max(1));
    Ok(rows.flat_map_iter(|row| in_order::<T, O>(first_of::<T, O>(row, 0, k), k)).collect())
}

/// Returns the first k elements in the order of `O`, in that order only if they are
/// [few](MOST_INSERTED). `index` is that of `values[0]`.
fn first_of<T: Element, O: TopK>(values: &[T], index: u64, k: usize) -> Vec<Located<T>> {
    let all = (index..).zip(values).map(|(index, &value)| Located { value, index });
    if k > MOST_INSERTED {
        let mut found = all.collect();
        keep_first::<T, O>(&mut found, k);
        return found;
    }
    let mut found = Vec::with_capacity(k + 1);
    all.for_each(|element| offer::<T, O>(&mut found, element, k));
    found
}

/// Keeps the first k elements, in any order.
fn keep_first<T: Element, O: TopK>(found: &mut Vec<Located<T>>, k: usize) {
    if found.len() > k {
        found.select_nth_unstable_by(k - 1, compared::<T, O>);
        found.truncate(k);
    }
}

fn in_order<T: Element, O: TopK>(mut found: Vec<Located<T>>, k: usize) -> Vec<Located<T>> {
    if k > MOST_INSERTED {
        found.par_sort_unstable_by(compared::<T, O>);
    }
    found
}

/// Compares elements by their values, and then by their indices.
fn compared<T: Element, O: TopK>(a: &Located<T>, b: &Located<T>) -> Ordering {
    if precedes::<T, O>(a.value, b.value) {
        Ordering::Less
    } else if precedes::<T, O>(b.value, a.value) {
        Ordering::Greater
    } else {
        a.index.cmp(&b.index)
    }
}

/// Inserts `new`, whose index is larger than all in `found`, if it is among the first k.
fn offer<T: Element, O: TopK>(found: &mut Vec<Located<T>>, new: Located<T>, k: usize) {
    let is_wanted = |last: &Located<T>| found.len() < k || precedes::<T, O>(new.value, last.value);
    if found.last().is_none_or(is_wanted) {
        let place = found.partition_point(|other| !precedes::<T, O>(new.value, other.value));
        found.insert(place, new);
        found.truncate(k);
    }
}

/// Returns whether `a` precedes `b` by its value alone. NaN precedes all numbers.
fn precedes<T: Element, O: TopK>(a: T, b: T) -> bool {
    let is_nan = |value: T| value.partial_cmp(&value).is_none();
    let comes_first = match O::OP {
        TopOp::Largest => a > b,
        TopOp::Smallest => a < b,
    };
    comes_first || is_nan(a) && !is_nan(b)
}
