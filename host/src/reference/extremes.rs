//! Minimum and maximum, and their indices.

use rayon::prelude::*;

use super::{Expected, PIECE};
use crate::{Data, Op, Scalar, Value};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Least,
    Greatest,
}

/// Returns the extreme of the first `n` elements, or its index. There must be at least one element.
pub(super) fn extreme(op: Op, data: &Data, n: usize) -> Expected {
    let wanted = match op {
        Op::Min | Op::ArgMin => Wanted::Least,
        _ => Wanted::Greatest,
    };
    with_data!(data, values => {
        let answer = |index: usize| match op {
            Op::ArgMin | Op::ArgMax => Value::U64(index as u64),
            _ => values[index].value(),
        };
        let last = n - 1;
        let rest = (last > 0).then(|| first_extreme(wanted, &values[..last]));
        let index = match rest {
            Some(rest) if !beats(wanted, values[last], values[rest]) => rest,
            _ => last,
        };
        Expected::exactly(op, n, answer(index), rest.map(answer))
    })
}

fn is_nan<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_none()
}

/// Returns whether an element replaces an earlier one. As in NumPy, NaN is more extreme than any number,
/// and the two zeros are equal.
fn beats<T: PartialOrd>(wanted: Wanted, x: T, held: T) -> bool {
    match wanted {
        _ if is_nan(&held) => false,
        Wanted::Least => x < held || is_nan(&x),
        Wanted::Greatest => x > held || is_nan(&x),
    }
}

/// Returns the index of the first extreme element. There must be at least one element.
fn first_extreme<T: Scalar + PartialOrd>(wanted: Wanted, values: &[T]) -> usize {
    let piece = |(number, piece): (usize, &[T])| {
        let mut held = (piece[0], 0);
        for (index, &x) in piece.iter().enumerate() {
            if beats(wanted, x, held.0) {
                held = (x, index);
            }
        }
        (held.0, number * PIECE + held.1)
    };
    // Keeps the left element unless the right one is more extreme, so that the first index wins.
    let later = |a: (T, usize), b: (T, usize)| if beats(wanted, b.0, a.0) { b } else { a };
    let pieces: Vec<(T, usize)> = values.par_chunks(PIECE).enumerate().map(piece).collect();
    pieces.into_iter().reduce(later).expect("there is an element").1
}
