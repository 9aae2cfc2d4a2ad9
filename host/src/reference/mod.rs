//! Reference results, computed on the CPU by code that shares nothing with the kernels; the allowed
//! error of floats; and a check that the tolerance still detects wrong kernels.
//!
//! Integers are exact in 64 bits, with the GPU's wrap-around. Floats are summed in double precision with
//! Neumaier's compensation, far more exactly than by any kernel. A float sum on the GPU may differ from
//! it by rounding alone, which is bounded by the depth of the additions: see [`rounding`]. If all
//! elements are integers and Σ|x| fits the significand, every order of additions is exact and the
//! allowed error is 0.
//!
//! A bound is only useful if it refuses wrong results. The suite chooses its elements
//! ([`Expected::mark`]) so that kernels which do nothing, drop the last element or overflow are refused
//! at any depth that has a bound, and [`Expected::judge`] verifies this for every result: if one of them
//! would pass, that is an error of the suite.
//!
//! All processors take part. The elements are split at the same positions on every machine, and the
//! partial results combined in order, so that the result is the same everywhere.

mod extremes;
mod marked;
mod planted;
pub mod rounding;
mod sums;
#[cfg(test)]
mod tests;

use crate::{Data, Dtype, Error, Op, Result, Value};

pub use marked::marked;
pub use planted::{POISON, POISONS, Planted};

use rounding::ErrorUnit;

/// The expected result, and the data to bound the error of a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The correct result in the type of [`Op::result`], for sums of floats rounded once.
    pub value: Value,
    /// For float sums the result before rounding, otherwise the value as a double.
    exact: f64,
    /// For float sums the error that one more addition on an element's path may add.
    error_unit: Option<ErrorUnit>,
    /// The result without the last element; `None` if the others have no result.
    rest: Option<Answer>,
    op: Op,
    n: u64,
    /// Whether the suite has drawn the elements.
    drawn: bool,
}

/// A result, and for float sums the same before rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Answer {
    value: Value,
    exact: f64,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, exact: value.to_f64() }
    }
}

/// The verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Whether the result is correct.
    pub ok: bool,
    /// The distance from the correct result; 0 for equal values.
    pub error: f64,
    /// The allowed distance.
    pub allowed: f64,
}

/// Elements per task: enough to amortise its overhead, few enough for many tasks.
const PIECE: usize = 1 << 16;

impl Expected {
    /// Returns the expected result for arbitrary elements: the rounding errors of a float sum are
    /// bounded for the worst case.
    ///
    /// # Errors
    /// [`Error::NoValue`] for the minimum or maximum of an empty input, or its index.
    pub fn of(op: Op, data: &Data) -> Result<Self> {
        Self::of_first(op, data, data.len())
    }

    /// Returns the expected result for the first `n` of these elements.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    ///
    /// # Panics
    /// Panics if there are fewer than `n` elements.
    pub fn of_first(op: Op, data: &Data, n: usize) -> Result<Self> {
        if n == 0 && !op.has_empty_value() {
            return Err(Error::NoValue { statistic: op.into() });
        }
        Ok(match op {
            Op::Sum | Op::SumOfSquares => sums::sum(op, data, n),
            _ => extremes::extreme(op, data, n),
        })
    }

    /// Creates an expected result without tolerance.
    fn exactly(op: Op, n: usize, value: Value, rest: Option<Value>) -> Self {
        let Answer { value, exact } = value.into();
        let rest = rest.map(Answer::from);
        Self { value, exact, error_unit: None, rest, op, n: n as u64, drawn: false }
    }

    /// Marks the elements as drawn at random: a float sum then has the bound of [`rounding`] for those,
    /// and [`judge`](Self::judge) requires that wrong results are detected.
    #[must_use]
    pub fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }

    /// Converts to the result type of a computation: a sum of integers in 32 bits is the lower half of
    /// the one in 64.
    #[must_use]
    pub fn of_type(self, dtype: Dtype) -> Self {
        let of_type = |value| match (value, dtype) {
            (Value::I64(exact), Dtype::I32) => Value::I32(exact as i32),
            (Value::U64(exact), Dtype::U32) => Value::U32(exact as u32),
            (other, _) => other,
        };
        match self.op {
            Op::Sum | Op::SumOfSquares if of_type(self.value) != self.value => {
                let rest = self.rest.map(|rest| of_type(rest.value).into());
                let Answer { value, exact } = of_type(self.value).into();
                Self { value, exact, rest, ..self }
            }
            _ => self,
        }
    }

    /// Judges a result whose elements take part in at most `depth` additions each, [in its
    /// type](Self::of_type).
    pub fn check(&self, result: Value, depth: u64) -> Check {
        let expected = self.of_type(result.dtype());
        expected.check_own(result, depth)
    }

    fn check_own(&self, result: Value, depth: u64) -> Check {
        let allowed = self.allowed(depth);
        let same = result == self.value || (is_nan(result) && is_nan(self.value));
        let error = if same { 0.0 } else { (result.to_f64() - self.exact).abs() };
        // A NaN fails the comparison; an infinity must be matched exactly.
        let finite = self.exact.is_finite() && error.is_finite();
        let close = self.error_unit.is_some() && finite && error <= allowed;
        Check { ok: same || close, error, allowed }
    }

    /// Judges a result like [`check`](Self::check), after verifying that drawn elements detect wrong
    /// kernels. For other elements this is not required; see [`blind_to`](Self::blind_to).
    ///
    /// # Errors
    /// [`Error::Blind`] if the elements were drawn and a wrong kernel would pass: an error of the suite,
    /// whatever the result.
    pub fn judge(&self, result: Value, depth: u64) -> Result<Check> {
        let expected = self.of_type(result.dtype());
        expected.judge_own(result, depth)
    }

    fn judge_own(&self, result: Value, depth: u64) -> Result<Check> {
        match self.blind_to(depth).filter(|_| self.drawn) {
            Some(planted) => Err(Error::Blind {
                case: format!("{} of {} elements", self.op, self.n),
                planted: planted.what,
                given: planted.value,
                expected: self.value,
                allowed: self.allowed(depth),
            }),
            None => Ok(self.check_own(result, depth)),
        }
    }

    fn allowed(&self, depth: u64) -> f64 {
        self.error_unit.map_or(0.0, |unit| unit.bound(depth, self.drawn))
    }
}

fn is_nan(value: Value) -> bool {
    value.to_f64().is_nan()
}
