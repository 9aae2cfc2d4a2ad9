//! Exact numbers: an integer of any size times a power of two. Sums, differences and products are again
//! such numbers, so nothing is rounded. This module shares no code with the library.

use std::{cmp::Ordering, fmt};

use num_bigint::{BigInt, Sign};

#[derive(Clone)]
pub(crate) struct Dyadic {
    significand: BigInt,
    exponent: i64,
}

impl Dyadic {
    pub(crate) const ZERO: Self = Self { significand: BigInt::ZERO, exponent: 0 };

    pub(crate) fn of(number: f64) -> Self {
        assert!(number.is_finite(), "{number} has no exact value");
        let (bits, hidden) = (number.to_bits(), 1_u64 << 52);
        let (fraction, biased) = (bits % hidden, (bits >> 52) as i64 % 2048);
        let magnitude = if biased > 0 { fraction + hidden } else { fraction };
        let zeros = magnitude.trailing_zeros() % 64;
        let significand = BigInt::from(magnitude >> zeros);
        let significand = if number < 0.0 { -significand } else { significand };
        Self { significand, exponent: biased.max(1) - 1075 + i64::from(zeros) }
    }

    pub(crate) fn integer(number: impl Into<BigInt>) -> Self {
        Self { significand: number.into(), exponent: 0 }
    }

    pub(crate) fn power(exponent: i64) -> Self {
        Self { significand: BigInt::from(1), exponent }
    }

    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let shifted = |one: &Self| &one.significand << (one.exponent - exponent);
        (shifted(self), shifted(other), exponent)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        if self.is_zero() {
            return other.clone();
        } else if other.is_zero() {
            return self.clone();
        }
        let (one, other, exponent) = self.aligned(other);
        Self { significand: one + other, exponent }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.plus(&Self { significand: -&other.significand, exponent: other.exponent })
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let exponent = self.exponent + other.exponent;
        Self { significand: &self.significand * &other.significand, exponent }
    }

    /// Returns the reciprocal of a nonzero number, with a relative error of at most 2^-160.
    pub(crate) fn reciprocal(&self) -> Self {
        let bits = self.significand.bits() as i64 + 160;
        let significand = (BigInt::from(1) << bits) / &self.significand;
        Self { significand, exponent: -self.exponent - bits }
    }

    /// Returns the product of all factors, multiplied as a balanced tree so that long factors have
    /// similar lengths.
    pub(crate) fn product(factors: &[Self]) -> Self {
        match factors {
            [] => Self::integer(1),
            [one] => one.clone(),
            _ => {
                let (first, second) = factors.split_at(factors.len() / 2);
                Self::product(first).times(&Self::product(second))
            }
        }
    }

    pub(crate) fn magnitude(&self) -> Self {
        Self { significand: self.significand.magnitude().clone().into(), exponent: self.exponent }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.significand.sign() == Sign::NoSign
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.significand.sign() == Sign::Minus
    }

    /// Returns the least e such that the magnitude is below `2^e`; `i64::MIN` for zero.
    pub(crate) fn top(&self) -> i64 {
        if self.is_zero() { i64::MIN } else { self.significand.bits() as i64 + self.exponent }
    }

    /// Returns the largest e such that the number is a multiple of `2^e`; `i64::MAX` for zero.
    pub(crate) fn unit(&self) -> i64 {
        self.significand.trailing_zeros().map_or(i64::MAX, |zeros| zeros as i64 + self.exponent)
    }

    /// Returns an integer modulo `2^64`.
    pub(crate) fn wrapped(&self) -> u64 {
        assert!(self.exponent >= 0, "{self} is not an integer");
        let low = (&self.significand << self.exponent) & BigInt::from(u64::MAX);
        u64::try_from(low).expect("it has 64 bits")
    }

    pub(crate) fn integer_value(&self) -> i128 {
        i128::try_from(&self.significand << self.exponent).expect("it fits 128 bits")
    }
}

impl PartialEq for Dyadic {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let signs = (self.significand.sign(), other.significand.sign());
        if signs.0 != signs.1 || self.is_zero() {
            return signs.0.partial_cmp(&signs.1);
        }
        // Numbers of different sizes are not aligned, because exponents of products are large.
        let by_size = self.top().cmp(&other.top());
        if by_size != Ordering::Equal {
            return Some(if self.is_negative() { by_size.reverse() } else { by_size });
        }
        let (one, other, _) = self.aligned(other);
        one.partial_cmp(&other)
    }
}

/// Prints the leading 17 digits.
impl fmt::Display for Dyadic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let bits = self.significand.bits() as i64;
        let cut = (bits - 64).max(0);
        let leading = u64::try_from(self.significand.magnitude() >> cut).expect("it has 64 bits");
        let exponent = self.exponent + cut;
        let sign = if self.is_negative() { "-" } else { "" };
        if (-1000..950).contains(&exponent) {
            let (half, rest) = (exponent / 2, exponent - exponent / 2);
            let value = leading as f64 * 2_f64.powi(half as i32) * 2_f64.powi(rest as i32);
            return write!(f, "{sign}{value:e}");
        }
        write!(f, "{sign}{leading}*2^{exponent}")
    }
}

#[test]
fn dyadic_numbers_are_exact() {
    let of = Dyadic::of;
    assert!(of(0.1).plus(&of(0.2)) != of(0.3));
    assert!(of(1e300).plus(&of(5e-324)).minus(&of(1e300)) == of(5e-324));
    assert!(of(-3.0).times(&of(0.5)) == of(-1.5));
    assert!(of(5e-324) == Dyadic::power(-1074) && of(-2.0) < of(-1.0) && of(-1.0) < Dyadic::ZERO);
    assert_eq!((of(6.0).top(), of(6.0).unit(), of(-0.75).unit()), (3, 1, -2));
    assert!(of(-0.25).reciprocal() == of(-4.0) && of(3.0).reciprocal().times(&of(6.0)) < of(2.0));
    assert!(Dyadic::product(&[of(0.1), of(-4.0), of(2.5)]) == of(0.1).times(&of(-10.0)));
    assert_eq!(Dyadic::integer(-1).wrapped(), u64::MAX);
    assert_eq!(of(1e20).plus(&Dyadic::integer(7)).wrapped(), (10_u128.pow(20) + 7) as u64);
    assert_eq!((of(0.1).to_string(), of(-1e300).to_string()), ("1e-1".into(), "-1e300".into()));
}
