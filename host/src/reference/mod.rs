//! What a reduction must give, computed on the CPU by code that shares nothing with the kernels; how far
//! off a float may land; and whether that leaves room for a kernel that is wrong.
//!
//! Integers are exact in 64 bits, with the GPU's wrap-around. Floats are summed in double precision with
//! Neumaier's compensation, far more exact than any kernel. A float sum on the GPU may differ from it by
//! rounding alone, and by how much follows from the depth of the additions: see [`rounding`]. When all
//! elements are integers and Σ|x| fits the significand, every order of additions is exact and the
//! allowed error is 0.
//!
//! A bound is worth what it refuses. Elements that the suite draws are chosen ([`Expected::mark`]) so
//! that kernels which do nothing, drop the last element or overflow are refused at any depth that has a
//! bound, and [`Expected::judge`] makes sure of it at every result: where one of them would pass, that
//! is an error of the suite.
//!
//! All processors work on it. The elements are cut in the same places on every machine, and the pieces'
//! results combined in their order, so that the same elements have the same answer everywhere.

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

/// The right answer, and what is needed to say how far off a float may land.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The right answer in the type of [`Op::result`], for sums of floats rounded once.
    pub value: Value,
    /// For float sums the answer before rounding, else the value as a double.
    exact: f64,
    /// For float sums what one more addition on an element's path may add to the error.
    error_unit: Option<ErrorUnit>,
    /// What a kernel would give that drops the last element; none where the others have no answer.
    rest: Option<Answer>,
    op: Op,
    /// How many elements there are.
    n: u64,
    /// Whether the suite has drawn the elements.
    drawn: bool,
}

/// An answer, and for float sums the same before rounding.
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

/// Verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Whether the result is right.
    pub ok: bool,
    /// Distance from the right answer; 0 for equal values.
    pub error: f64,
    /// The largest distance that is allowed.
    pub allowed: f64,
}

/// Elements of a piece: enough to make threads worth their while, few enough for many pieces.
const PIECE: usize = 1 << 16;

impl Expected {
    /// The answer for these elements, whoever has chosen them: the rounding errors of a float sum may be
    /// as large as they can be.
    ///
    /// # Errors
    /// [`Error::NoValue`] for the minimum or maximum of nothing, or its index.
    pub fn of(op: Op, data: &Data) -> Result<Self> {
        Self::of_first(op, data, data.len())
    }

    /// The answer for the first `n` of these elements.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    ///
    /// # Panics
    /// When there are fewer than `n` elements.
    pub fn of_first(op: Op, data: &Data, n: usize) -> Result<Self> {
        if n == 0 && !op.has_empty_value() {
            return Err(Error::NoValue { statistic: op.into() });
        }
        Ok(match op {
            Op::Sum | Op::SumOfSquares => sums::sum(op, data, n),
            _ => extremes::extreme(op, data, n),
        })
    }

    /// An answer that is equal or wrong.
    fn exactly(op: Op, n: usize, value: Value, rest: Option<Value>) -> Self {
        let Answer { value, exact } = value.into();
        let rest = rest.map(Answer::from);
        Self { value, exact, error_unit: None, rest, op, n: n as u64, drawn: false }
    }

    /// The same for elements that were drawn at random: a float sum has the bound of [`rounding`]
    /// for those, and [`judge`](Self::judge) insists that wrong results show.
    #[must_use]
    pub fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }

    /// The same for a computation whose results are of a type: a sum of integers in 32 bits is the lower
    /// half of the one in 64.
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

    /// Judges a result of a computation in which an element takes part in at most `depth` additions. It
    /// is compared [in its type](Self::of_type).
    pub fn check(&self, result: Value, depth: u64) -> Check {
        let expected = self.of_type(result.dtype());
        expected.check_own(result, depth)
    }

    fn check_own(&self, result: Value, depth: u64) -> Check {
        let allowed = self.allowed(depth);
        let same = result == self.value || (is_nan(result) && is_nan(self.value));
        let error = if same { 0.0 } else { (result.to_f64() - self.exact).abs() };
        // A NaN fails the comparison; an infinity must have come out as itself.
        let finite = self.exact.is_finite() && error.is_finite();
        let close = self.error_unit.is_some() && finite && error <= allowed;
        Check { ok: same || close, error, allowed }
    }

    /// Judges a result as [`check`](Self::check) does, where it can tell right from wrong. Of elements
    /// that somebody else has chosen it is not known, and [`blind_to`](Self::blind_to) says so.
    ///
    /// # Errors
    /// [`Error::Blind`] when elements were drawn such that a wrong kernel would pass: an error of the
    /// suite, whatever the result.
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

    /// How far off a result may be.
    fn allowed(&self, depth: u64) -> f64 {
        self.error_unit.map_or(0.0, |unit| unit.bound(depth, self.drawn))
    }
}

fn is_nan(value: Value) -> bool {
    value.to_f64().is_nan()
}
