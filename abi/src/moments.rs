//! Means and variances whose bits do not depend on the order of the elements.
//!
//! The variance of n numbers is (n * sum of squares - square of the sum) / n^2. In floats, rounding
//! leaves little of this difference of large numbers. Here the numbers are integers times a unit, so
//! that both sums and the difference are exact.
//!
//! # The result
//! For integers, the numbers are the elements. For floats, they are the elements as in a
//! [binned sum](crate::binned), each rounded to a multiple of the unit that the largest magnitude
//! determines. Let A be their sum and B the sum of their squares:
//!
//! - The mean is A, rounded to `f64`, divided by n.
//! - The variance is n * B - A^2, never below 0, rounded to `f64`, divided by n, and by n again.
//! - If any element is not finite, the variance is NaN and the mean the binned sum's special value.
//!
//! Roundings are to nearest, ties to even. (The unit is a power of two, by which results are multiplied
//! last. This rounds only results that are subnormal or too large.) If all elements are equal, the unit
//! divides them, and the variance is exactly 0.
//!
//! This defines the result by the set of elements, in any order.
//!
//! ```
//! use warpfold_abi::{binned::Running, moments::{MeanAndVariance, OfSingles}};
//!
//! let (mut here, mut there) = (Running::<OfSingles>::new(), Running::<OfSingles>::new());
//! here.add([1e6_f32, 1e6 + 1.0]);
//! there.add([1e6 + 2.0, 1e6 + 3.0]);
//! let both = here.close().plus(there.close()).moments(4);
//! assert_eq!(both, MeanAndVariance { mean: 1e6 + 1.5, variance: 1.25 });
//! ```
//!
//! # How it is computed
//! A rounded element is the sum of its K digits of W bits, as integers times their places. Its square is
//! the sum of the products of all pairs of digits, times both places. So the sums of these K(K + 1) / 2
//! products are kept as integers, besides the sums of the digits. When the [first bin](crate::binned)
//! rises by one, each digit becomes the next one, and the last is dropped. The sum of products of digits
//! i and k becomes that of digits i + 1 and k + 1. As for digits, the new sums are what the new first
//! bin would have given from the start.
//!
//! A product has 2W - 2 bits and a sign, and a sum over 2^35 elements 35 bits more. The sum is kept in
//! two integers; the lower one is carried into the upper one before it can overflow or is exchanged.
//!
//! `f16` elements need no bins: all are multiples of 2^-24 and below 2^16, so no unit would round them.
//! Each square is split into a front, a multiple of 2^-8, and the rest, and both are summed.
//!
//! A `bf16` has 8 significant bits, and therefore two digits unless it is far below the largest element.
//! The three sums of products of these two digits have a fast path; all others are computed as for
//! `f32`.

mod bfloats;
mod halves;

use crate::binned::{Each, Float, Partial, Sums, leading_zeros, power_f32, power_f64};

pub use bfloats::{KeptOfBfloats, OfBfloats};
pub use halves::{KeptOfHalves, OfHalves};

/// Mean and population variance, the mean squared distance from the mean. Both are NaN for no elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanAndVariance {
    /// Mean of the elements.
    pub mean: f64,
    /// Variance of the elements.
    pub variance: f64,
}

impl MeanAndVariance {
    /// Computes mean and variance from the sum of `count` integers, and from the sums of the lower and
    /// of the upper 64 bits of their squares.
    #[inline(always)]
    pub fn of_integers(count: u64, sum: i128, lower: u128, upper: u128) -> Self {
        let [low, high] = halves(sum.cast_unsigned());
        let sign = (high.cast_signed() >> (i64::BITS - 1)).cast_unsigned();
        let sum = Words([low, high, sign, sign, sign, sign]);
        let ([a, b], [c, d]) = (halves(lower), halves(upper));
        let squares = Words([a, b, 0, 0, 0, 0]).plus(Words([0, c, d, 0, 0, 0]));
        mean_and_variance(count, sum, squares)
    }
}

#[inline(always)]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// Computes mean and variance from a sum of at most three words and a sum of squares of at most five.
#[inline(always)]
fn mean_and_variance(count: u64, sum: Words, squares: Words) -> MeanAndVariance {
    let is_negative = sum.is_negative();
    let sum = if is_negative { Words::NOTHING.minus(sum) } else { sum };
    let difference = squares.times(count).minus(sum.squared());
    let n = count as f64;
    let mean = sum.nearest() / n;
    MeanAndVariance {
        mean: if is_negative { -mean } else { mean },
        variance: difference.nearest() / n / n,
    }
}

/// A signed integer in 64-bit words, the lowest first. Has room for 2^35 elements with 128-bit squares,
/// and for n * B - A^2 (see [`moments`](self)) of `f64`, which is below 2^292. Each word is a variable,
/// because an array that a loop indexes may be placed in a GPU's local memory.
#[derive(Clone, Copy)]
struct Words([u64; 6]);

impl Words {
    const NOTHING: Self = Self([0; 6]);

    #[inline(always)]
    fn is_negative(self) -> bool {
        self.0[5].cast_signed() < 0
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (Self([a, b, c, d, e, f]), Self([g, h, i, j, k, l])) = (self, other);
        let (a, carry) = a.overflowing_add(g);
        let (b, carry) = with_carry(b, h, carry);
        let (c, carry) = with_carry(c, i, carry);
        let (d, carry) = with_carry(d, j, carry);
        let (e, carry) = with_carry(e, k, carry);
        let (f, _) = with_carry(f, l, carry);
        Self([a, b, c, d, e, f])
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let (Self([a, b, c, d, e, f]), Self([g, h, i, j, k, l])) = (self, other);
        let (a, borrow) = a.overflowing_sub(g);
        let (b, borrow) = with_borrow(b, h, borrow);
        let (c, borrow) = with_borrow(c, i, borrow);
        let (d, borrow) = with_borrow(d, j, borrow);
        let (e, borrow) = with_borrow(e, k, borrow);
        let (f, _) = with_borrow(f, l, borrow);
        Self([a, b, c, d, e, f])
    }

    /// Multiplies by 2^`bits`; `bits` is less than 64.
    #[inline(always)]
    fn raised(self, bits: u32) -> Self {
        if bits == 0 {
            return self;
        }
        let (Self([a, b, c, d, e, f]), down) = (self, u64::BITS - bits);
        Self([
            a << bits,
            b << bits | a >> down,
            c << bits | b >> down,
            d << bits | c >> down,
            e << bits | d >> down,
            f << bits | e >> down,
        ])
    }

    /// Appends a signed digit of `width` bits.
    #[inline(always)]
    fn then(self, digit: i64, width: u32) -> Self {
        let sign = (digit >> (i64::BITS - 1)).cast_unsigned();
        self.raised(width).plus(Self([digit.cast_unsigned(), sign, sign, sign, sign, sign]))
    }

    /// Multiplies a number of at most five words. The product must fit in five words, too.
    #[inline(always)]
    fn times(self, number: u64) -> Self {
        let Self([a, b, c, d, e, _]) = self;
        let ([a, b], [c, d], [f, g], [h, i]) =
            (product(a, number), product(b, number), product(c, number), product(d, number));
        let [e, _] = product(e, number);
        Self([a, b, f, g, e, 0]).plus(Self([0, c, d, h, i, 0]))
    }

    /// Squares a number of at most three words.
    #[inline(always)]
    fn squared(self) -> Self {
        let Self([a, b, c, ..]) = self;
        let ([d, e], [f, g], [h, i]) = (product(a, a), product(b, b), product(c, c));
        let ([j, k], [l, m], [n, o]) = (product(a, b), product(a, c), product(b, c));
        let mixed = Self([0, j, k, n, o, 0]).plus(Self([0, 0, l, m, 0, 0]));
        Self([d, e, f, g, h, i]).plus(mixed.raised(1))
    }

    /// Returns the `f64` nearest to a non-negative number.
    #[inline(always)]
    fn nearest(self) -> f64 {
        let Self([a, b, c, d, e, f]) = self;
        let front = Front { high: f, low: 0, behind: 0, rest: false };
        let Front { high, low, behind, rest } = front.then(e).then(d).then(c).then(b).then(a);
        let zeros = leading_zeros(high);
        let value = high << zeros | low >> 1 >> (u64::BITS - 1 - zeros);
        let value = value | u64::from(rest | (low << zeros != 0));
        if high == 0 {
            return 0.0;
        }
        value as f64 * power_f64((behind * u64::BITS) as i32 - zeros as i32)
    }
}

/// Leading words of a number that is built word by word, the highest first.
#[derive(Clone, Copy)]
struct Front {
    /// Highest word that is not 0.
    high: u64,
    low: u64,
    /// Number of words appended after `high`.
    behind: u32,
    rest: bool,
}

impl Front {
    #[inline(always)]
    fn then(self, word: u64) -> Self {
        let Self { high, low, behind, rest } = self;
        if high == 0 {
            Self { high: word, low: 0, behind: 0, rest: false }
        } else if behind == 0 {
            Self { low: word, behind: 1, ..self }
        } else {
            Self { high, low, behind: behind + 1, rest: rest | (word != 0) }
        }
    }
}

#[inline(always)]
fn with_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, over) = a.overflowing_add(b);
    let (sum, more) = sum.overflowing_add(carry.into());
    (sum, over | more)
}

#[inline(always)]
fn with_borrow(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let (rest, under) = a.overflowing_sub(b);
    let (rest, more) = rest.overflowing_sub(borrow.into());
    (rest, under | more)
}

/// Returns the 128-bit product, the low half first. Does not multiply in `u128`, for which rust-cuda's
/// compiler computes only the product of the low halves.
#[inline(always)]
pub fn product(a: u64, b: u64) -> [u64; 2] {
    const LOW: u64 = 0xffff_ffff;
    let (low, high) = ((a & LOW) * (b & LOW), (a >> 32) * (b >> 32));
    let (left, right) = ((a >> 32) * (b & LOW), (a & LOW) * (b >> 32));
    let middle = (low >> 32) + (left & LOW) + (right & LOW);
    [low & LOW | middle << 32, high + (left >> 32) + (right >> 32) + (middle >> 32)]
}

/// Returns `number * 2^exponent`; the power alone may be out of range. The number is 0 or from 2^-71 to
/// 2^293. (1 / n^2, for n = 2^35, is 2^-70.)
#[inline(always)]
fn scaled(number: f64, exponent: i32) -> f64 {
    // Only the second product rounds, because the first is never subnormal. Exponents outside of the
    // clamped range make every number overflow or become 0.
    let first = Ord::clamp(exponent, -950, 950);
    let second = Ord::clamp(exponent - first, -550, 250);
    number * power_f64(first) * power_f64(second)
}

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn with_product(sum: i64, a: i32, b: i32) -> i64 {
    let all;
    // In assembly, because compilers would multiply 64 bits if a factor was the lower half of an `f64`.
    // SAFETY: the instruction only computes on registers.
    unsafe {
        core::arch::asm!(
            "mad.wide.s32 {0}, {1}, {2}, {3};",
            out(reg64) all, in(reg32) a, in(reg32) b, in(reg64) sum,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    all
}

#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
fn with_product(sum: i64, a: i32, b: i32) -> i64 {
    sum.wrapping_add(i64::from(a) * i64::from(b))
}

/// Returns `sum + a * b`; the product and the sum must be exact.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn with_product_f64(sum: f64, a: f64, b: f64) -> f64 {
    let all;
    // SAFETY: the instruction only computes on registers.
    unsafe {
        core::arch::asm!(
            "fma.rn.f64 {0}, {1}, {2}, {3};",
            out(reg64) all, in(reg64) a, in(reg64) b, in(reg64) sum,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    all
}

#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
fn with_product_f64(sum: f64, a: f64, b: f64) -> f64 {
    sum + a * b
}

/// Sums that determine means and variances.
pub trait Moments: Sums {
    /// Returns the mean and variance of `count` finite elements.
    fn of(digits: Self::Digits, bin: u32, count: u64) -> MeanAndVariance;
}

impl<S: Moments> Partial<S> {
    /// Returns the mean and variance of the `count` elements.
    #[inline(always)]
    pub fn moments(self, count: u64) -> MeanAndVariance {
        if self.specials == 0 {
            return S::of(self.digits, self.bin, count);
        }
        MeanAndVariance { mean: f64::special(self.specials), variance: f64::NAN }
    }
}

/// Sums of K digits, and of the P products of any two digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Products<const K: usize, const P: usize> {
    digits: [i64; K],
    low: [i64; P],
    /// Upper parts of the sums, in units of 2^`CARRIED`. After a carry, `low` is below one unit.
    high: [i32; P],
}

/// Implements [`Moments`]. Digits and products are variables, because an array that a loop indexes may
/// be placed in a GPU's local memory.
macro_rules! moments {
    ($(
        $(#[$attr:meta])*
        $Name:ident: digits of $Float:ident [$($digit:ident $place:literal)*], next [$($next:expr),*];
        products [$($product:ident $at:literal = $i:literal $k:literal)*], next [$($behind:expr),*];
        by place $([$($times:literal $of_place:ident)*])*;
        low ones of $carried:literal bits, kept $kept:ident;
    )*) => {$(
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $Name;

        impl $Name {
            const PRODUCTS: usize = [$($at),*].len();
            const DIGITS: usize = [$($place),*].len();
            /// Number of bits of a low sum after a carry.
            const CARRIED: u32 = $carried;

            /// Carries low sums into the high ones. `carry` shifts a low sum right by `CARRIED` bits.
            #[inline(always)]
            fn carried(
                Products { digits, low, high }: <Self as Sums>::Digits,
                carry: impl Fn(i64) -> i64,
            ) -> <Self as Sums>::Digits {
                Products {
                    digits,
                    low: [$(low[$at] & ((1 << Self::CARRIED) - 1)),*],
                    high: [$(high[$at].wrapping_add(carry(low[$at]) as i32)),*],
                }
            }
        }

        const _: () = {
            assert!($Name::DIGITS as u32 == $Float::PLACES);
            let bits = 2 * ($Float::WIDTH - 1);
            // A low sum has room for a carried low sum and `CAPACITY` products.
            assert!(<$Name as Sums>::CAPACITY as u64 <= (1 << (63 - bits)) - (1 << ($Name::CARRIED - bits)));
            // A high sum has room for 2^35 terms, and 64 bits have room for a warp's low sums.
            assert!(bits + 35 - $Name::CARRIED < 31 && $Name::CARRIED + 5 <= 64);
        };

        impl Sums for $Name {
            type Term = $Float;
            const WORDS: u32 = (2 * Self::DIGITS + 3 * Self::PRODUCTS) as u32;
            type Digits = Products<{ Self::DIGITS }, { Self::PRODUCTS }>;
            const NOTHING: Self::Digits =
                Products { digits: [0; Self::DIGITS], low: [0; Self::PRODUCTS], high: [0; Self::PRODUCTS] };

            #[inline(always)]
            fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits {
                let sums = Products {
                    digits: [$(a.digits[$place].wrapping_add(b.digits[$place])),*],
                    low: [$(a.low[$at].wrapping_add(b.low[$at])),*],
                    high: [$(a.high[$at].wrapping_add(b.high[$at])),*],
                };
                Self::carried(sums, |low| low >> Self::CARRIED)
            }

            #[inline(always)]
            fn lowered(mut digits: Self::Digits, bins: u32) -> Self::Digits {
                let mut left = Ord::min(bins, $Float::PLACES);
                while left > 0 {
                    digits = Products {
                        #[allow(unused_variables)] // The last ones are dropped.
                        digits: { let [$($digit),*] = digits.digits; [$($next),*] },
                        #[allow(unused_variables)]
                        low: { let [$($product),*] = digits.low; [$($behind),*] },
                        #[allow(unused_variables)]
                        high: { let [$($product),*] = digits.high; [$($behind),*] },
                    };
                    left -= 1;
                }
                digits
            }

            #[inline(always)]
            fn map(digits: Self::Digits, of: &mut impl Each) -> Self::Digits {
                Products {
                    digits: [$(of.double(digits.digits[$place])),*],
                    low: [$(of.double(digits.low[$at])),*],
                    high: [$(of.single(digits.high[$at])),*],
                }
            }

            #[inline(always)]
            fn of_lanes(digits: Self::Digits) -> Self::Digits {
                Self::carried(digits, |low| (low.cast_unsigned() >> Self::CARRIED).cast_signed())
            }

            moments!(@kept $kept $Float [$($place)*] [$($at $i $k)*]);
        }

        impl Moments for $Name {
            #[inline(always)]
            fn of(digits: Self::Digits, bin: u32, count: u64) -> MeanAndVariance {
                let Products { digits: [$($digit),*], low, high } = digits;
                let sum = Words::NOTHING$(.then($digit, $Float::WIDTH))*;
                let squares = |[$($product),*]: [i64; Self::PRODUCTS]| {
                    Words::NOTHING$(.then(0 $(+ $times * $of_place)*, $Float::WIDTH))*
                };
                let high = squares([$(high[$at].into()),*]).raised(Self::CARRIED);
                let MeanAndVariance { mean, variance } =
                    mean_and_variance(count, sum, squares(low).plus(high));
                // Exponent of the sum's unit.
                let unit = ($Float::LOWEST + bin as i32 + 1 - $Float::PLACES as i32) * $Float::WIDTH as i32;
                MeanAndVariance { mean: scaled(mean, unit), variance: scaled(variance, 2 * unit) }
            }
        }
    )*};
    // Sums of products as integers.
    (@kept i64 $Float:ident [$($place:literal)*] [$($at:literal $i:literal $k:literal)*]) => {
        const CAPACITY: u32 =
            (1 << (65 - 2 * $Float::WIDTH)) - (1 << (Self::CARRIED + 2 - 2 * $Float::WIDTH));
        type Near = [i32; Self::DIGITS];
        type Kept = Self::Digits;

        #[inline(always)]
        fn digits(scaled: $Float) -> Self::Near {
            let digits = $Float::digits(scaled);
            [$(digits[$place] as i32),*]
        }

        #[inline(always)]
        fn deposit(kept: &mut Self::Kept, digits: Self::Near) {
            // Does not write `high`, not even unchanged: rust-cuda's compiler would split it into bytes.
            kept.digits = [$(with_product(kept.digits[$place], digits[$place], 1)),*];
            kept.low = [$(with_product(kept.low[$at], digits[$i], digits[$k])),*];
        }

        #[inline(always)]
        fn keep(digits: Self::Digits, _bin: u32) -> Self::Kept {
            digits
        }

        #[inline(always)]
        fn total(kept: Self::Kept) -> Self::Digits {
            Self::carried(kept, |low| low >> Self::CARRIED)
        }
    };
    // Sums of products in double precision, in units of a power of two. A GPU computes these four times
    // as fast as integers, and they are exact below 2^53 units.
    (@kept f64 $Float:ident [$($place:literal)*] [$($at:literal $i:literal $k:literal)*]) => {
        const CAPACITY: u32 =
            (1 << (55 - 2 * $Float::WIDTH)) - (1 << (Self::CARRIED + 2 - 2 * $Float::WIDTH));
        type Near = InDoubles;
        type Kept = KeptInDoubles;

        #[inline(always)]
        fn digits(scaled: $Float) -> Self::Near {
            InDoubles::of(scaled)
        }

        #[inline(always)]
        fn deposit(kept: &mut Self::Kept, InDoubles { digits, doubles }: Self::Near) {
            kept.near = [$(kept.near[$place].wrapping_add(digits[$place])),*];
            kept.products = [$(with_product_f64(kept.products[$at], doubles[$i], doubles[$k])),*];
        }

        #[inline(always)]
        fn keep(Products { digits, low, high }: Self::Digits, _bin: u32) -> Self::Kept {
            let products = [$(low[$at] as f64 * const { InDoubles::unit($i) * InDoubles::unit($k) }),*];
            KeptInDoubles { near: [0; Self::DIGITS], products, digits, high }
        }

        #[inline(always)]
        fn total(KeptInDoubles { near, products, digits, high }: Self::Kept) -> Self::Digits {
            let digits = [$(digits[$place].wrapping_add(near[$place].into())),*];
            let low = [$(
                (products[$at] * const { 1.0 / (InDoubles::unit($i) * InDoubles::unit($k)) }) as i64
            ),*];
            Self::carried(Products { digits, low, high }, |low| low >> Self::CARRIED)
        }
    };
}

/// Digits of an `f32`, as integers and in double precision.
#[derive(Debug, Clone, Copy)]
pub struct InDoubles {
    digits: [i32; 3],
    /// The digits times their [units](Self::unit).
    doubles: [f64; 3],
}

impl InDoubles {
    /// Returns the value in `doubles` of a digit of 1: 2^-W for the second digit, otherwise 1.
    const fn unit(digit: usize) -> f64 {
        if digit == 1 { power_f64(-(f32::WIDTH as i32)) } else { 1.0 }
    }

    /// Constants so large that adding one to a number rounds to the place of a digit.
    const LARGE: [f32; 3] = [Self::large(0), Self::large(1), Self::large(2)];

    const fn large(place: i32) -> f32 {
        1.5 * power_f32(f32::MANTISSA_DIGITS as i32 - 1 - place * f32::WIDTH as i32)
    }

    /// Extracts the digit from the low bits of a sum with a constant of [`LARGE`](Self::LARGE).
    #[inline(always)]
    fn digit(sum: f32, place: usize) -> i32 {
        sum.to_bits().wrapping_sub(Self::LARGE[place].to_bits()).cast_signed()
    }

    #[inline(always)]
    fn of(scaled: f32) -> Self {
        /// Returns 2^52 + `bits`.
        const fn behind(bits: u32) -> f64 {
            f64::from_bits((0x433_u64 << 52) | bits as u64)
        }
        let a = scaled + Self::LARGE[0];
        let first = a - Self::LARGE[0];
        let rest = scaled - first;
        let b = rest + Self::LARGE[1];
        let second = b - Self::LARGE[1];
        let c = rest - second + Self::LARGE[2];
        // Avoids a conversion instruction, whose throughput is low on a GPU.
        let third = behind(c.to_bits()) - const { behind(Self::LARGE[2].to_bits()) };
        let digits = [Self::digit(a, 0), Self::digit(b, 1), Self::digit(c, 2)];
        Self { digits, doubles: [first.into(), second.into(), third] }
    }
}

/// A thread's sums for [`OfSingles`].
#[derive(Debug, Clone, Copy)]
pub struct KeptInDoubles {
    near: [i32; 3],
    products: [f64; 6],
    digits: [i64; 3],
    high: [i32; 6],
}

moments! {
    /// Sums for means and variances of `f32`, in double precision where that is faster.
    OfSingles: digits of f32 [a 0 b 1 c 2], next [0, a, b];
        products [aa 0 = 0 0  ab 1 = 0 1  ac 2 = 0 2  bb 3 = 1 1  bc 4 = 1 2  cc 5 = 2 2],
            next [0, 0, 0, aa, ab, bb];
        by place [1 aa] [2 ab] [2 ac 1 bb] [2 bc] [1 cc];
        low ones of 50 bits, kept f64;
    /// Sums for means and variances of `f64`, as integers.
    OfDoubles: digits of f64 [a 0 b 1 c 2 d 3], next [0, a, b, c];
        products [aa 0 = 0 0  ab 1 = 0 1  ac 2 = 0 2  ad 3 = 0 3  bb 4 = 1 1  bc 5 = 1 2  bd 6 = 1 3
                cc 7 = 2 2  cd 8 = 2 3  dd 9 = 3 3],
            next [0, 0, 0, 0, aa, ab, ac, bb, bc, cc];
        by place [1 aa] [2 ab] [2 ac 1 bb] [2 ad 2 bc] [2 bd 1 cc] [2 cd] [1 dd];
        low ones of 59 bits, kept i64;
}
