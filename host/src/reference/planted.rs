//! Kernels that are wrong, and whether a check refuses what they give.

use super::Expected;
use crate::{Op, Scalar, Value};

/// Bytes that outputs are filled with before a run: two, so that no right result is both. The first one
/// is -1 397 969 748 as an i32 and -4.9e-12 as an f32.
pub const POISONS: [u8; 2] = [0xac, 0x55];

/// The one of them that outputs are filled with before a run that is timed.
pub const POISON: u8 = POISONS[0];

/// What a wrong kernel gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planted {
    /// What it does, as a verb with its object.
    pub what: &'static str,
    /// The result that comes out.
    pub value: Value,
}

impl Expected {
    /// What wrong kernels make of the elements: one that does nothing or returns what it found in its
    /// output, which is poison or the identity; one that drops the last element; and one that returns
    /// infinity: of integers the ends of the type, and an index that no element has.
    ///
    /// Nothing is dropped of no elements, nor of one that has no other answer; and the sum of no
    /// elements is 0, which is the identity and an end of unsigned types.
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

    /// A wrong kernel that [`check`](Self::check) would accept at this depth. One that drops the last
    /// element must stay wrong even if its own rounding errors made up for as much of that as is
    /// allowed.
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
