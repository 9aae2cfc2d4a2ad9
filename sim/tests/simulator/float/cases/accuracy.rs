//! Required accuracy of results: the PTX manual's bounds for approximate instructions.

use super::instruction::{Instruction, Shape};

/// The allowed difference between an instruction's result and the correctly rounded one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Accuracy {
    Exact,
    Ulps(u32),
    Relative(f64),
    Absolute(f64),
    /// `sin` and `cos`: an absolute error that grows with the angle.
    Trigonometric,
    /// `lg2`: an absolute error near 1, a relative one elsewhere.
    Logarithm,
    /// `div.approx`: two units in the last place, for divisors from 2^-126 to 2^126.
    Quotient,
    /// Instructions that compute only the upper word of a double. The manual has no bound; 2^-18 is a
    /// few units in the last place of that word's 20 fraction bits.
    Upper,
}

/// Returns a float's value; infinity maps to the first power of two past the format's range.
fn value(shape: Shape, bits: u64) -> f64 {
    let magnitude = bits & (shape.sign() - 1);
    let fraction = magnitude & ((1 << shape.fraction) - 1);
    let exponent = (magnitude >> shape.fraction) as i64;
    let (significand, exponent) =
        if exponent == 0 { (fraction, 1) } else { (fraction | 1 << shape.fraction, exponent) };
    let scale = exponent - shape.bias() - i64::from(shape.fraction);
    // Two factors, because the smallest doubles are below the least normal power of two.
    let number =
        significand as f64 * 2_f64.powi(scale as i32 / 2) * 2_f64.powi((scale - scale / 2) as i32);
    if bits & shape.sign() == 0 { number } else { -number }
}

fn ulp(shape: Shape, bits: u64) -> f64 {
    let magnitude = (bits & (shape.sign() - 1)).min(shape.infinity() - 1);
    value(shape, (magnitude | 1).max(magnitude)) - value(shape, magnitude & !1)
}

impl Instruction {
    pub(crate) fn allows(&self, operands: [u64; 3], expected: u64, got: u64) -> bool {
        if expected == got {
            return true;
        }
        let Some(shape) = self.to.shape() else { return false };
        if self.to.half().is_none() {
            return self.close(shape, operands, expected, got);
        }
        let halves = [0, 16].map(|at| {
            let half = |bits: u64| bits >> at & 0xffff;
            half(expected) == half(got)
                || self.close(shape, operands.map(half), half(expected), half(got))
        });
        halves == [true; 2]
    }

    fn close(&self, shape: Shape, operands: [u64; 3], expected: u64, got: u64) -> bool {
        let Some(mut tolerance) = self.tolerance(shape, operands, expected) else { return false };
        if shape.is_nan(expected) || shape.is_nan(got) {
            return false;
        }
        let least_normal = value(shape, 1 << shape.fraction);
        let (number, other) = (value(shape, expected), value(shape, got));
        if number == 0.0 && other == 0.0 {
            return false;
        }
        if self.mode.ftz && number.abs() <= least_normal {
            tolerance = tolerance.max(least_normal);
        }
        (number - other).abs() <= tolerance
    }

    /// Returns the maximum distance from the correctly rounded result; `None` if all bits must be equal.
    fn tolerance(&self, shape: Shape, [a, b, _]: [u64; 3], expected: u64) -> Option<f64> {
        let rounding = ulp(shape, expected) / 2.0;
        let number = value(shape, expected).abs();
        let operand = self.from.shape().map_or(0.0, |shape| value(shape, a).abs());
        let within = |bound: f64| Some(bound + rounding);
        match self.accuracy {
            Accuracy::Exact => None,
            Accuracy::Ulps(count) => within(f64::from(count) * 2.0 * rounding),
            Accuracy::Relative(power) => within(number * power.exp2()),
            Accuracy::Absolute(power) => within(power.exp2()),
            Accuracy::Trigonometric if operand <= std::f64::consts::TAU => within((-20.5_f64).exp2()),
            Accuracy::Trigonometric if operand <= 50.0 * std::f64::consts::TAU => {
                within((-14.7_f64).exp2())
            }
            Accuracy::Trigonometric => within(2.0),
            Accuracy::Logarithm if operand > 0.5 && operand < 2.0 => within((-22_f64).exp2()),
            Accuracy::Logarithm => within(number * (-22_f64).exp2()),
            Accuracy::Quotient => match value(shape, b).abs() {
                divisor if divisor > 126_f64.exp2() || divisor == 0.0 => None,
                divisor if divisor < (-126_f64).exp2() => within(f64::INFINITY),
                _ => within(4.0 * rounding),
            },
            Accuracy::Upper => within(number * (-18_f64).exp2()),
        }
    }
}
