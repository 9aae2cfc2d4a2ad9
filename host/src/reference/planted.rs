//! Results of wrong kernels, and whether a check refuses them.

use super::Expected;
use crate::{Op, Scalar, Value};

/// Bytes to fill outputs with before a run: two, so that no correct result consists of both. The first
/// one is -1 397 969 748 as an i32 and -4.9e-12 as an f32.
pub const POISONS: [u8; 2] = [0xac, 0x55];

/// The byte to fill outputs with before a timed run.
pub const POISON: u8 = POISONS[0];

/// The result of a wrong kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planted {
    /// The action of the kernel, as a verb with its object.
    pub what: &'static str,
    /// The result.
    pub value: Value,
}

impl Expected {
    /// Returns the results of wrong kernels: one that does nothing or returns the initial content of its
    /// output, which is poison or the identity; one that drops the last element; and one that returns
    /// infinity, for integers the ends of the type, and for an index one without an element.
    ///
    /// An empty input, or a single element without another result, has nothing to drop; and the sum of
    /// an empty input is 0, which is the identity and an end of unsigned types.
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
        let ends = ends
            .into_iter()
            .filter(wrong)
            .map(planted("returns infinity, an end of the type or an index out of range"));
        let dropped = self.rest.map(|rest| planted("drops the last element")(rest.value));
        left.chain(ends).chain(dropped).collect()
    }

    /// Returns a wrong kernel that [`check`](Self::check) would accept at this depth. A kernel that
    /// drops the last element must be refused even if its own rounding errors cancel as much of the
    /// difference as is allowed.
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
