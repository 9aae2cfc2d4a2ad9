//! The results of wrong kernels, and whether a check rejects them.

use super::Expected;
use crate::{Op, Scalar, Value};

/// Bytes to fill outputs with before a run. There are two, because a correct result may consist of one
/// of them by chance, but not of both. The first one is -1 397 969 748 as an i32 and -4.9e-12 as an f32.
pub const POISONS: [u8; 2] = [0xac, 0x55];

/// The byte to fill outputs with before a timed run.
pub const POISON: u8 = POISONS[0];

/// The result of a wrong kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planted {
    /// The fault of the kernel, as a verb with its object.
    pub what: &'static str,
    pub value: Value,
}

impl Expected {
    /// Returns the results of wrong kernels: kernels that leave the initial content of the output, which
    /// is poison or the identity; one that drops the last element; and kernels that return infinity, for
    /// integers the smallest or largest value of the type, for indices an index out of bounds.
    ///
    /// The result without the last element is omitted if it does not exist, as for the minimum of one
    /// element. For an empty input, values that equal the correct result are omitted.
    pub fn planted(&self) -> Vec<Planted> {
        let dtype = self.value.dtype();
        let poison = |byte| Value::from_bytes(dtype, &[byte; 8]);
        let (ends, identity) = match self.op {
            Op::ArgMin | Op::ArgMax => ([Value::U64(self.n), Value::U64(u64::MAX)], None),
            op => {
                let ends = with_dtype!(dtype, T => [T::SMALLEST.value(), T::LARGEST.value()]);
                (ends, Some(Value::identity(op, dtype)))
            }
        };
        let wrong = |value: &Value| self.n > 0 || *value != self.value;
        let planted = |what| move |value| Planted { what, value };
        let left = POISONS.map(poison).into_iter().chain(identity.filter(wrong));
        let left = left.map(planted("leaves its output as it was"));
        let ends = ends.into_iter().filter(wrong).map(planted(
            "returns infinity, the least or greatest value of the type, or an index out of range",
        ));
        let dropped = self.rest.map(|rest| planted("drops the last element")(rest.value));
        left.chain(ends).chain(dropped).collect()
    }

    /// Returns a wrong kernel that [`check`](Self::check) would accept at this depth. A kernel that
    /// drops the last element must be rejected even if its own rounding errors reduce the difference
    /// from the correct result by the allowed error.
    pub fn blind_to(&self, depth: u64) -> Option<Planted> {
        let planted = self.planted();
        let accepted = planted.iter().find(|planted| self.check(planted.value, depth).ok);
        accepted.copied().or_else(|| {
            let rest = self.rest.filter(|_| self.error_unit.is_some() && self.exact.is_finite())?;
            let near = (rest.exact - self.exact).abs() <= 2.0 * self.allowed(depth);
            planted.last().copied().filter(|_| near)
        })
    }
}
