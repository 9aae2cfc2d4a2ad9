//! The exponential function and the logarithm, of instructions that round alike on every device.

use std::f64::consts::LOG2_E;

use super::compile::{Compiler, Value};

/// The parameters of a float type.
struct Format {
    mantissa_bits: u32,
    bias: i64,
    /// Above the upper bound the exponential is ∞, below the lower one 0.
    exp_bounds: [f64; 2],
    exp_degree: u32,
    /// ln 2 in two parts; the first part has trailing zeros.
    ln_2: [f64; 2],
    /// The bits of the largest number that is not above √½.
    root_half: i64,
    log_terms: u32,
    /// An exponent that makes a subnormal number normal.
    normalizing: i32,
    smallest_normal: f64,
}

const SINGLE: Format = Format {
    mantissa_bits: f32::MANTISSA_DIGITS - 1,
    bias: 127,
    exp_bounds: [-104.0, 89.0],
    exp_degree: 7,
    ln_2: [0.693_138_122_558_593_8, 9.058_000_614_459_743e-6],
    root_half: 0x3F35_04F3,
    log_terms: 5,
    normalizing: 24,
    smallest_normal: f32::MIN_POSITIVE as f64,
};

const DOUBLE: Format = Format {
    mantissa_bits: f64::MANTISSA_DIGITS - 1,
    bias: 1023,
    exp_bounds: [-746.0, 710.0],
    exp_degree: 13,
    ln_2: [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10],
    root_half: 0x3FE6_A09E_667F_3BCC,
    log_terms: 10,
    normalizing: 54,
    smallest_normal: f64::MIN_POSITIVE,
};

impl Compiler<'_> {
    fn format(&self) -> &'static Format {
        if self.number.bits == 32 { &SINGLE } else { &DOUBLE }
    }

    fn float(&self, value: f64) -> String {
        self.number.constant(value, 0)
    }

    /// Emits an instruction on floats.
    fn on_floats(&mut self, instruction: &str, operands: &[&str]) -> String {
        self.emit(&format!("{instruction}.{}", self.number.name), operands)
    }

    /// Emits an instruction on integers of as many bits as the floats.
    fn on_bits(&mut self, instruction: &str, operands: &[&str]) -> String {
        self.emit(&format!("{instruction}{}", self.number.bits), operands)
    }

    fn select(&mut self, condition: &Value, yes: &str, no: &str) -> String {
        let Value::Condition(condition) = condition else { unreachable!("a comparison is one") };
        self.on_floats("selp", &[yes, no, condition])
    }

    /// Emits a polynomial, whose coefficients begin with the highest.
    fn polynomial(&mut self, coefficients: impl Iterator<Item = f64>, x: &str) -> String {
        let coefficients: Vec<String> = coefficients.map(|one| self.float(one)).collect();
        let mut coefficients = coefficients.into_iter();
        let first = coefficients.next().expect("a polynomial has a coefficient");
        coefficients.fold(first, |sum, next| self.on_floats("fma.rn", &[&sum, x, &next]))
    }

    /// Emits e^x: 2^n·e^r with |r| ≤ ln 2 / 2, by a Taylor polynomial.
    pub(super) fn exp(&mut self, x: &str) -> String {
        let Format { mantissa_bits, bias, exp_bounds: [least, most], exp_degree, ln_2, .. } =
            *self.format();
        let (least, most, log2_e) = (self.float(least), self.float(most), self.float(LOG2_E));
        let [high, low] = ln_2.map(|part| self.float(-part));
        let bounded = self.on_floats("min", &[x, &most]);
        let bounded = self.on_floats("max", &[&bounded, &least]);
        let n = self.on_floats("mul.rn", &[&bounded, &log2_e]);
        let n = self.on_floats(&format!("cvt.rni.{}", self.number.name), &[&n]);
        let r = self.on_floats("fma.rn", &[&n, &high, &bounded]);
        let r = self.on_floats("fma.rn", &[&n, &low, &r]);
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        let power = self.polynomial((0..=exp_degree).rev().map(|n| 1.0 / factorial(n)), &r);
        // 2^n in two factors, which are normal numbers.
        let n = self.on_floats(&format!("cvt.rzi.s{}", self.number.bits), &[&n]);
        let half = self.on_bits("shr.s", &[&n, "1"]);
        let rest = self.on_bits("sub.s", &[&n, &half]);
        let mut result = power;
        for exponent in [half, rest] {
            let exponent = self.on_bits("add.s", &[&exponent, &bias.to_string()]);
            let factor = self.on_bits("shl.b", &[&exponent, &mantissa_bits.to_string()]);
            result = self.on_floats("mul.rn", &[&result, &factor]);
        }
        let is_nan = self.condition(&format!("setp.nan.{}", self.number.name), &[x, x]);
        self.select(&is_nan, x, &result)
    }

    /// Emits the natural logarithm: k·ln 2 + ln(1 + f) with 1 + f from √½ to √2, and s = f / (2 + f), by
    /// the series of 2·artanh(s), as in Sun's fdlibm.
    pub(super) fn log(&mut self, x: &str) -> String {
        let Format { mantissa_bits, ln_2, root_half, log_terms, normalizing, smallest_normal, .. } =
            *self.format();
        let compare = |this: &mut Self, how: &str, with: f64| {
            let with = this.float(with);
            this.condition(&format!("setp.{how}.{}", this.number.name), &[x, &with])
        };
        let is_small = compare(self, "lt", smallest_normal);
        let (scale, zero) = (self.float(2_f64.powi(normalizing)), self.float(0.0));
        let scaled = self.on_floats("mul.rn", &[x, &scale]);
        let normal = self.select(&is_small, &scaled, x);
        let of_scale = self.float(f64::from(-normalizing));
        let of_scale = self.select(&is_small, &of_scale, &zero);

        let k = self.on_bits("sub.s", &[&normal, &root_half.to_string()]);
        let k = self.on_bits("shr.s", &[&k, &mantissa_bits.to_string()]);
        let exponent = self.on_bits("shl.b", &[&k, &mantissa_bits.to_string()]);
        let one_and_f = self.on_bits("sub.s", &[&normal, &exponent]);
        let k = self.emit(&format!("cvt.rn.{}.s{}", self.number.name, self.number.bits), &[&k]);
        let k = self.on_floats("add.rn", &[&k, &of_scale]);

        let (minus_one, two, half) = (self.float(-1.0), self.float(2.0), self.float(0.5));
        let f = self.on_floats("add.rn", &[&one_and_f, &minus_one]);
        let divisor = self.on_floats("add.rn", &[&f, &two]);
        let s = self.on_floats("div.rn", &[&f, &divisor]);
        let z = self.on_floats("mul.rn", &[&s, &s]);
        let series = (1..=log_terms).rev().map(|term| 2.0 / f64::from(2 * term + 1));
        let series = self.polynomial(series, &z);
        let square = self.on_floats("mul.rn", &[&f, &f]);
        let half_square = self.on_floats("mul.rn", &[&square, &half]);
        // ln(1 + f) = f - f²/2 + s·(f²/2 + z·series)
        let inner = self.on_floats("fma.rn", &[&z, &series, &half_square]);
        let [high, low] = ln_2.map(|part| self.float(part));
        let low = self.on_floats("mul.rn", &[&k, &low]);
        let inner = self.on_floats("fma.rn", &[&s, &inner, &low]);
        let correction = self.on_floats("sub.rn", &[&inner, &half_square]);
        let rest = self.on_floats("add.rn", &[&f, &correction]);
        let result = self.on_floats("fma.rn", &[&k, &high, &rest]);

        let is_finite = compare(self, "lt", f64::INFINITY);
        let result = self.select(&is_finite, &result, x);
        let (infinity, nan) = (self.float(f64::NEG_INFINITY), self.float(f64::NAN));
        let is_zero = compare(self, "eq", 0.0);
        let result = self.select(&is_zero, &infinity, &result);
        let is_negative = compare(self, "lt", 0.0);
        self.select(&is_negative, &nan, &result)
    }
}
