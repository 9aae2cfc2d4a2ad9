//! Markers: a last element that changes the result detectably.

use super::{Answer, Expected, rounding::ErrorUnit, sums};
use crate::{
    Buffer, Data, Dtype, Op, Result, Value,
    test_data::{TURNS, largest_ordinary, marker},
};

impl Expected {
    /// Replaces the last of the first `n` [drawn](Data::drawn) elements by a marker for an operation,
    /// and returns the expected result. Wrong kernels are then detected: see [`planted`](Self::planted).
    pub fn mark(op: Op, data: &mut Data, n: usize) -> Result<Self> {
        for turn in 0..TURNS {
            if n > 0 {
                data.set(n - 1, marker(op, data.dtype(), n as u64, turn));
            }
            let expected = Self::of_first(op, data, n)?.drawn();
            // A sum of integers may by chance equal the result of a wrong kernel: then try the next
            // marker. Each turn's marker gives another sum, and there are more turns than wrong results.
            if n == 0 || expected.error_unit.is_some() || expected.blind_to(0).is_none() {
                return Ok(expected);
            }
        }
        unreachable!("of {TURNS} sums at most five are what a wrong kernel gives")
    }

    /// Returns the expected results for the smallest and the largest sum that `n` drawn and marked
    /// elements can have, with the largest possible error bound; for other operations, the only possible
    /// result. Returns none for sums of integers, whose marker depends on the sum. Tests use them for
    /// sizes too large to generate.
    #[doc(hidden)]
    pub fn extremes_of_marked(op: Op, dtype: Dtype, n: u64) -> Vec<Self> {
        let marker = marker(op, dtype, n, 0);
        let exactly = |value, rest| vec![Self::exactly(op, n as usize, value, rest).drawn()];
        match op {
            Op::ArgMin | Op::ArgMax => exactly(Value::U64(n - 1), n.checked_sub(2).map(Value::U64)),
            // The marker is more extreme than all ordinary elements and the identity.
            Op::Min | Op::Max => exactly(marker, Some(Value::identity(op, dtype))),
            Op::Sum | Op::SumOfSquares if !dtype.is_float() => Vec::new(),
            Op::Sum | Op::SumOfSquares => {
                let term = |x: f64| if op == Op::SumOfSquares { x * x } else { x };
                let others = (n - 1) as f64 * term(largest_ordinary(dtype));
                let sum = |rest| float_sum(op, dtype, n, (rest, term(marker.to_f64()), others));
                vec![sum(0.0), sum(others)]
            }
        }
    }
}

/// Returns the expected sum of floats, from the ordinary elements' sum, the marker, and the largest
/// possible sum of ordinary elements.
fn float_sum(op: Op, dtype: Dtype, n: u64, (rest, marker, most): (f64, f64, f64)) -> Expected {
    let precision = if dtype == Dtype::F64 { sums::DOUBLE } else { sums::SINGLE };
    let answer = |exact| Answer { value: (precision.round)(exact), exact };
    let Answer { value, exact } = answer(rest + marker);
    let underflow = if op == Op::SumOfSquares { n as f64 * precision.smallest } else { 0.0 };
    let error_unit = ErrorUnit { roundoff: precision.roundoff, absolute_sum: most + marker, underflow };
    Expected { value, exact, error_unit: Some(error_unit), rest: Some(answer(rest)), op, n, drawn: true }
}

/// Marks the last of the first `n` elements for an operation, on the host and in the buffer with the
/// same contents; calls `work` with the expected result and the buffer's first `n` elements; then
/// restores the element. If `work` fails, the marker remains.
pub fn marked<T, E: From<crate::Error>>(
    (op, n): (Op, u64),
    data: &mut Data,
    buffer: &mut Buffer,
    work: impl FnOnce(Expected, Buffer) -> Result<T, E>,
) -> Result<T, E> {
    let Some(last) = n.checked_sub(1) else {
        return work(Expected::mark(op, data, 0)?, buffer.slice(0..0)?);
    };
    let (count, index) = (n as usize, last as usize);
    let ordinary = data.get(index);
    let expected = Expected::mark(op, data, count)?;
    buffer.set(last, data.get(index))?;
    let done = work(expected, buffer.slice(0..n)?)?;
    data.set(index, ordinary);
    buffer.set(last, ordinary)?;
    Ok(done)
}
