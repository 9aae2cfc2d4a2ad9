//! Binned sums: sums of floats whose bits do not depend on the order of the terms.
//!
//! # The result
//! Terms have the type of the sum, `f32` or `f64`. With the constants of the table, a term belongs to
//! the lowest *bin* t with |term| < 2^((t + 1)W - 1). From here on, t is the highest bin of all terms.
//! Each term is rounded to a multiple of the *unit* 2^((t - K + 1)W), the rounded terms are added
//! exactly, and the sum is rounded once to the type. Both roundings are to nearest, ties to even; a sum
//! that is too large becomes an infinity. A sum of 0 is +0. If any term is NaN, or there are infinities
//! of both signs, the sum is NaN; otherwise, if there is an infinity, the sum is that infinity.
//!
//! | type | W: bits of a bin | K: digits kept | bins | unit / largest magnitude |
//! |---|--:|--:|---|---|
//! | `f32` | 23 | 3 | -5 to 5 | at most 2^-45 |
//! | `f64` | 28 | 4 | -36 to 36 | at most 2^-83 |
//!
//! This defines the sum by the set of its terms. It depends neither on their order nor on their
//! distribution over threads, and is the same in other programs and on other machines.
//!
//! The error of a term is at most half a unit. For n terms, the error is at most n * 2^-46 of the
//! largest magnitude in `f32` and n * 2^-84 in `f64`, plus the rounding of the result. If the unit
//! divides all terms, the result is their exact sum, rounded once. This holds for half-precision
//! numbers, for integers below 2^68 in `f32` and below 2^111 in `f64`, and for terms that all belong to
//! the lowest bin, whose unit divides the smallest number.
//!
//! ```
//! use warpfold_abi::binned::Running;
//!
//! let (mut here, mut there) = (Running::<f32>::new(), Running::<f32>::new());
//! here.add([1e8_f32, 1.0]);
//! there.add([0.25, -1e8]);
//! assert_eq!(here.close().plus(there.close()).sum(), 1.25);
//! ```
//!
//! # How it is computed
//! A term is scaled by 2^(-tW), and its digits are extracted, the most significant first. Adding
//! 1.5 * 2^23 rounds an `f32` to an integer, ties to even, in the low bits of the sum: this is the first
//! digit. The remainder is exact and at most one half; adding 1.5 * 2^(23 - W) gives the next W bits,
//! and so on. Digits are added as integers.
//!
//! (Scaling is exact unless the scaled term is so small that all its digits are 0. So the digits are the
//! same if a compiler fuses the scaling with the addition.)
//!
//! The highest bin need not be known in advance. Addition starts with the lowest bin as the *first bin*.
//! A term of a higher bin makes that the first bin: the sums of digits move down by the difference in
//! places, and sums past the last place are dropped. The remaining sums are what the new first bin would
//! have given from the start:
//!
//! - The digits of a term down to any place add up to the term, rounded to a multiple of that place: the
//!   digits extracted before add up to a multiple of the place above, which is an even multiple of this
//!   place. Rounding the remainder and rounding the whole term therefore agree, also for ties.
//! - So the digits down to a place have the same sum for every first bin from the term's bin on.
//! - The places of a new first bin are old places, which keep their digits, or places above them. At the
//!   places above, earlier terms have the digit 0, because they are below half of such a place.
//!
//! A term may be added to any of several partial sums, because two partial sums are added with the
//! higher of their first bins.
//!
//! A digit is at most 2^(W - 1) in magnitude, so that an `i64` holds the sum of 2^35 of them.
//!
//! (The fixed grid of bins, with only the highest few kept, is from J. Demmel and H. D. Nguyen,
//! *Parallel Reproducible Summation*, IEEE Transactions on Computers 64, 2015. There, sums of digits are
//! floats, which are renormalised.)

/// Sums of the digits of terms. `f32` and `f64` implement it for [binned sums](self).
pub trait Sums: Copy + 'static {
    /// Type of the terms.
    type Term: Float;
    /// Number of 32-bit words in which threads exchange the sums.
    const WORDS: u32;
    /// Number of terms that can be added to a new [`Kept`](Self::Kept) before it overflows.
    const CAPACITY: u32;
    /// Digits of a term, the highest first.
    type Near: Copy;
    /// Sums of the digits of up to 2^35 terms.
    type Digits: Copy;
    /// A thread's running sums of digits, to which terms are added.
    type Kept: Copy;
    /// The sums of no terms.
    const NOTHING: Self::Digits;

    /// Returns the digits of a scaled term that [fits](Self::fits) and [is short](Self::is_short).
    fn digits(scaled: Self::Term) -> Self::Near;
    /// Adds the digits of a term.
    fn deposit(kept: &mut Self::Kept, digits: Self::Near);
    /// Converts sums with [first bin](self) `bin`, counted from the lowest, to a thread's sums.
    fn keep(digits: Self::Digits, bin: u32) -> Self::Kept;
    /// Converts a thread's sums to [`Digits`](Self::Digits).
    fn total(kept: Self::Kept) -> Self::Digits;
    /// Adds two sums with the same first bin.
    fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits;
    /// Returns the sums with the [first bin](self) raised, and so the digits moved down, by `bins`.
    fn lowered(digits: Self::Digits, bins: u32) -> Self::Digits;
    /// Applies a function to each integer of the sums.
    fn map(digits: Self::Digits, of: &mut impl Each) -> Self::Digits;

    /// Normalises sums after each of their integers has been added up over the lanes of a warp.
    #[inline(always)]
    fn of_lanes(digits: Self::Digits) -> Self::Digits {
        digits
    }

    /// Returns whether [`digits`](Self::digits) returns all digits of a scaled term that fits.
    #[inline(always)]
    fn is_short(_kept: &Self::Kept, _scaled: Self::Term) -> bool {
        true
    }

    /// Adds the digits that [`digits`](Self::digits) does not return, and removes them from the terms.
    #[inline(always)]
    fn shortened<T: Terms<Self::Term>>(_kept: &mut Self::Kept, scaled: T) -> T {
        scaled
    }

    /// Returns the `scale` argument of [`scaled`](Self::scaled) and [`fits`](Self::fits) for a [first
    /// bin](self), counted from the lowest.
    #[inline(always)]
    fn scale(bin: u32) -> Self::Term {
        Float::scale(bin)
    }

    /// Scales a term for the [first bin](self).
    #[inline(always)]
    fn scaled(term: Self::Term, scale: Self::Term) -> Self::Term {
        term.times(scale)
    }

    /// Returns whether a scaled term is finite and belongs to the [first bin](self) or a lower one.
    #[inline(always)]
    fn fits(scaled: Self::Term, _scale: Self::Term) -> bool {
        scaled.fits()
    }

    /// Returns the bin of a finite term, counted from the lowest.
    #[inline(always)]
    fn bin(term: Self::Term) -> u32 {
        term.bin()
    }
}

/// A function on 64-bit and 32-bit integers.
pub trait Each {
    /// Maps a 64-bit integer.
    fn double(&mut self, number: i64) -> i64;
    /// Maps a 32-bit integer.
    fn single(&mut self, number: i32) -> i32;
}

/// A function on integers that maps their 32-bit words, the low word first.
struct EachWord<'a, F>(&'a mut F);

impl<F: FnMut(u32) -> u32> Each for EachWord<'_, F> {
    #[inline(always)]
    fn double(&mut self, number: i64) -> i64 {
        let bits = number.cast_unsigned();
        let (low, high) = (self.0(bits as u32), self.0((bits >> 32) as u32));
        (u64::from(high) << 32 | u64::from(low)).cast_signed()
    }

    #[inline(always)]
    fn single(&mut self, number: i32) -> i32 {
        self.0(number.cast_unsigned()).cast_signed()
    }
}

/// Types of binned sums and their terms: `f32` and `f64`.
pub trait Float: Sums<Term = Self> {
    /// Bits per bin.
    const WIDTH: u32;
    /// Number of digits that each term has.
    const PLACES: u32;
    /// Lowest bin. The highest bin is `-LOWEST`.
    const LOWEST: i32;
    /// Exponent h such that no sum of 2^35 terms, divided by 2^h, overflows an `f64`.
    const HEADROOM: i32;
    /// The number 0.
    const ZERO: Self;

    /// Returns the number of larger magnitude; neither number may be NaN.
    #[must_use]
    fn larger(self, other: Self) -> Self;
    /// Returns the bin of a finite number, counted from the lowest.
    fn bin(self) -> u32;
    /// Returns the [`Partial::specials`] flags of this number; 0 if it is finite.
    fn specials(self) -> u32;
    /// Returns the factor that scales terms for this [first bin](self), counted from the lowest.
    fn scale(bin: u32) -> Self;
    /// Returns the product of a term and a scale.
    fn times(self, scale: Self) -> Self;
    /// Returns whether a scaled term belongs to the [first bin](self) or a lower one. False for NaN.
    fn fits(self) -> bool;
    /// Returns the number nearest to the sum of finite terms.
    fn nearest(digits: Self::Digits, bin: u32) -> Self;
    /// Returns whether the sum of finite terms is negative, and a value and an exponent such that
    /// `value * 2^exponent` rounds to the same float as the sum's magnitude.
    fn front(digits: Self::Digits, bin: u32) -> (bool, u64, i32);
    /// Returns the sum of terms with these [`Partial::specials`] flags, which are not 0.
    fn special(specials: u32) -> Self;
}

/// Flag for +infinity in [`Partial::specials`].
const POSITIVE: u32 = 1;
/// Flag for -infinity in [`Partial::specials`]. With both flags, the sum is NaN.
const NEGATIVE: u32 = 2;

/// Leading bits of a sum: `value * 2^exponent`. With 64 bits, bit 0 is also set if a dropped bit is 1.
#[derive(Clone, Copy)]
struct Front {
    value: u64,
    exponent: i32,
}

impl Front {
    /// Appends the next digit, of `width` bits.
    #[inline(always)]
    fn then(self, digit: u64, width: u32) -> Self {
        // Number of the digit's bits that fit. If not all of them fit, no later digit fits at all.
        let room = Ord::min(leading_zeros(self.value), width);
        let left = width - room;
        let lost = digit & ((1 << left) - 1) != 0;
        let value = self.value << room | digit >> left | u64::from(lost);
        Self { value, exponent: self.exponent - room as i32 }
    }
}

/// Returns the number of leading zeros, 63 for 0. Replaces `u64::leading_zeros`, because rust-cuda's
/// compiler assumes that its result always exceeds the width of a digit.
#[inline(always)]
pub(crate) fn leading_zeros(mut number: u64) -> u32 {
    let (mut zeros, mut step) = (0, u64::BITS / 2);
    while step > 0 {
        if number >> (u64::BITS - step) == 0 {
            number <<= step;
            zeros += step;
        }
        step /= 2;
    }
    zeros
}

/// Implements binned sums. Each digit is a variable, because an array that a loop indexes may be placed
/// in a GPU's local memory.
macro_rules! floats {
    ($(
        $Float:ident as $Bits:ident, $power:ident: bins of $width:literal bits, up to $highest:literal;
        $places:literal digits $digits:tt, carried $carried:tt, kept $kept:tt;
    )*) => {$(
        /// Returns 2^`exponent`, which must be a normal number.
        pub(crate) const fn $power(exponent: i32) -> $Float {
            let biased = exponent + $Float::MAX_EXP - 1;
            $Float::from_bits((biased as $Bits) << ($Float::MANTISSA_DIGITS - 1))
        }

        const _: () = {
            // The highest bin holds the largest number, and its scale is a normal number.
            assert!(($highest + 1) * $width > $Float::MAX_EXP);
            assert!($highest * $width < $Float::MAX_EXP - 1);
            // The unit of the lowest bin divides the smallest subnormal number.
            let smallest = $Float::MIN_EXP - $Float::MANTISSA_DIGITS as i32;
            assert!(($highest + <$Float as Float>::PLACES as i32 - 1) * $width >= -smallest);
            // A signed digit fits in the mantissa of the sum that extracts it.
            assert!($width < $Float::MANTISSA_DIGITS);
        };

        impl Float for $Float {
            const WIDTH: u32 = $width;
            const PLACES: u32 = $places;
            const LOWEST: i32 = -$highest;
            const HEADROOM: i32 = if $Float::MAX_EXP < f64::MAX_EXP { 0 } else { 64 };
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if other.abs() > self.abs() { other } else { self }
            }

            #[inline(always)]
            fn bin(self) -> u32 {
                // Least biased exponent of the second bin, minus WIDTH.
                const FIRST: u32 = ($Float::MAX_EXP - 2 - $highest * $width) as u32;
                let exponent = (self.abs().to_bits() >> ($Float::MANTISSA_DIGITS - 1)) as u32;
                exponent.saturating_sub(FIRST) / $width
            }

            #[inline(always)]
            fn specials(self) -> u32 {
                if self.is_nan() {
                    POSITIVE | NEGATIVE
                } else if self == Self::INFINITY {
                    POSITIVE
                } else if self == Self::NEG_INFINITY {
                    NEGATIVE
                } else {
                    0
                }
            }

            #[inline(always)]
            fn scale(bin: u32) -> Self {
                $power(-(Self::LOWEST + bin as i32) * $width)
            }

            #[inline(always)]
            fn times(self, scale: Self) -> Self {
                self * scale
            }

            #[inline(always)]
            fn fits(self) -> bool {
                self.abs() < const { $power($width - 1) }
            }

            #[inline(always)]
            fn special(specials: u32) -> Self {
                match specials {
                    POSITIVE => Self::INFINITY,
                    NEGATIVE => Self::NEG_INFINITY,
                    _ => Self::NAN,
                }
            }

            floats!(@nearest $Float $power $width $digits $carried);
        }

        impl Sums for $Float {
            type Term = Self;

            floats!(@digits $Float $power $width $digits);
            floats!(@kept $kept);
        }
    )*};
    (@nearest $Float:ident $power:ident $width:literal
        [$Near:ident: $first:ident $first_place:literal
            $(, $digit:ident $place:literal below $above:ident)*]
        [$($from:ident to $to:ident),*]) => {
        #[inline(always)]
        fn front(digits: Self::Digits, bin: u32) -> (bool, u64, i32) {
            // Carries from the last digit up, so that all digits but the first are in 0..2^WIDTH.
            let carried = |digits: Self::Digits| {
                let [mut $first $(, mut $digit)*] = digits;
                $(
                    $to += $from >> $width;
                    $from &= (1 << $width) - 1;
                )*
                [$first $(, $digit)*]
            };
            let sum = carried(digits);
            let negative = sum[0] < 0;
            let [$first $(, $digit)*] =
                if negative { carried([-digits[$first_place] $(, -digits[$place])*]) } else { sum };
            let exponent = (Self::LOWEST + bin as i32) * $width;
            let front = Front { value: $first.cast_unsigned(), exponent };
            $(let front = front.then($digit.cast_unsigned(), $width);)*
            (negative, front.value, front.exponent)
        }

        #[inline(always)]
        fn nearest(digits: Self::Digits, bin: u32) -> Self {
            let (negative, value, exponent) = Self::front(digits, bin);
            // Only the conversion of `value` rounds: a subnormal product is exact, because the sum, like
            // all terms, is a multiple of the smallest subnormal number. Two factors, because one power
            // may underflow.
            let half = exponent / 2;
            let magnitude = value as Self * $power(half) * $power(exponent - half);
            if negative { -magnitude } else { magnitude }
        }
    };
    (@digits $Float:ident $power:ident $width:literal
        [$Near:ident: $first:ident $first_place:literal
            $(, $digit:ident $place:literal below $above:ident)*]) => {
        const WORDS: u32 = 2 * <Self as Float>::PLACES;
        type Near = [$Near; Self::PLACES as usize];
        type Digits = [i64; Self::PLACES as usize];
        const NOTHING: Self::Digits = [0; Self::PLACES as usize];

        #[inline(always)]
        fn digits(scaled: Self) -> Self::Near {
            /// Returns a constant so large that adding it to a number rounds to the digit's place.
            const fn large(place: i32) -> $Float {
                1.5 * $power($Float::MANTISSA_DIGITS as i32 - 1 - place * $width)
            }
            let split = |number: $Float, large: $Float| {
                let sum = number + large;
                (sum.to_bits().wrapping_sub(large.to_bits()) as $Near, number - (sum - large))
            };
            let ($first, rest) = split(scaled, const { large($first_place) });
            $(let ($digit, rest) = split(rest, const { large($place) });)*
            let _ = rest;
            [$first $(, $digit)*]
        }

        #[inline(always)]
        fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits {
            // Wraps, because a term that does not fit has meaningless digits, which are discarded.
            [a[$first_place].wrapping_add(b[$first_place]) $(, a[$place].wrapping_add(b[$place]))*]
        }

        #[inline(always)]
        fn lowered(mut digits: Self::Digits, bins: u32) -> Self::Digits {
            let mut left = Ord::min(bins, Self::PLACES);
            while left > 0 {
                #[allow(unused_variables)] // The last one is dropped.
                let [$first $(, $digit)*] = digits;
                digits = [0 $(, $above)*];
                left -= 1;
            }
            digits
        }

        #[inline(always)]
        fn map(digits: Self::Digits, of: &mut impl Each) -> Self::Digits {
            [of.double(digits[$first_place]) $(, of.double(digits[$place]))*]
        }
    };
    // A thread adds up digits in 64 bits.
    (@kept [i64 $($place:literal)*]) => {
        const CAPACITY: u32 = u32::MAX;
        type Kept = Self::Digits;

        #[inline(always)]
        fn deposit(kept: &mut Self::Kept, digits: Self::Near) {
            *kept = Self::plus(*kept, digits);
        }

        #[inline(always)]
        fn keep(digits: Self::Digits, _bin: u32) -> Self::Kept {
            digits
        }

        #[inline(always)]
        fn total(kept: Self::Kept) -> Self::Digits {
            kept
        }
    };
    // A thread adds up digits in 32 bits, which is cheaper, and moves the sums before they overflow.
    (@kept [i32 $($place:literal)*]) => {
        const CAPACITY: u32 = (i32::MAX >> (<Self as Float>::WIDTH - 1)) as u32;
        type Kept = (Self::Near, Self::Digits);

        #[inline(always)]
        fn deposit((near, _): &mut Self::Kept, digits: Self::Near) {
            *near = [$(near[$place].wrapping_add(digits[$place])),*];
        }

        #[inline(always)]
        fn keep(digits: Self::Digits, _bin: u32) -> Self::Kept {
            ([0; Self::PLACES as usize], digits)
        }

        #[inline(always)]
        fn total((near, digits): Self::Kept) -> Self::Digits {
            Self::plus(digits, [$(near[$place] as i64),*])
        }
    };
}

floats! {
    f32 as u32, power_f32: bins of 23 bits, up to 5;
        3 digits [i32: a 0, b 1 below a, c 2 below b], carried [c to b, b to a], kept [i32 0 1 2];
    f64 as u64, power_f64: bins of 28 bits, up to 36;
        4 digits [i64: a 0, b 1 below a, c 2 below b, d 3 below c], carried [d to c, c to b, b to a],
        kept [i64 0 1 2 3];
}

/// Lowest bit of [`Partial::specials`] in the word that also holds [`Partial::bin`].
const SPECIALS_FROM: u32 = 16;

/// Unrounded sum of up to 2^35 terms.
#[derive(Debug, Clone, Copy)]
pub struct Partial<S: Sums> {
    /// Sums of the terms' digits, the first in units of 2^(tW) for the first bin t.
    pub digits: S::Digits,
    /// First bin, counted from the lowest: no finite term belongs to a higher bin.
    pub bin: u32,
    /// Flags of terms that are not finite: 1 for +infinity, 2 for -infinity, 3 for both or NaN.
    pub specials: u32,
}

impl<S: Sums> Partial<S> {
    /// The sum of no terms, whose words are all 0.
    pub const ZERO: Self = Self { digits: S::NOTHING, bin: 0, specials: 0 };
    /// Number of 32-bit words: those of the sums, and one for the bin and the specials.
    pub const WORDS: u32 = S::WORDS + 1;

    /// Returns the sum with `through` applied to each 32-bit word.
    #[inline(always)]
    #[must_use]
    pub fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        let digits = S::map(self.digits, &mut EachWord(&mut *through));
        let word = through(self.bin | self.specials << SPECIALS_FROM);
        Self { digits, bin: word % (1 << SPECIALS_FROM), specials: word >> SPECIALS_FROM }
    }

    /// Returns the sum of a single term.
    #[inline(always)]
    pub fn of(term: S::Term) -> Self {
        let mut sum = Self::ZERO;
        sum.add(term);
        sum
    }

    /// Adds a term. A [`Running`] sum adds many terms faster.
    #[inline(always)]
    pub fn add(&mut self, term: S::Term) {
        let scale = S::scale(self.bin);
        let mut scaled = S::scaled(term, scale);
        if !S::fits(scaled, scale) {
            let specials = term.specials();
            self.specials |= specials;
            let term = if specials == 0 { term } else { S::Term::ZERO };
            *self = self.behind(Ord::max(self.bin, S::bin(term)));
            scaled = S::scaled(term, S::scale(self.bin));
        }
        let mut kept = S::keep(self.digits, self.bin);
        S::shortened(&mut kept, [scaled]).each(|term| S::deposit(&mut kept, S::digits(term)));
        self.digits = S::total(kept);
    }

    /// Returns the sum with its first bin raised to `bin`.
    #[inline(always)]
    #[must_use]
    pub fn behind(self, bin: u32) -> Self {
        Self { digits: S::lowered(self.digits, bin - self.bin), bin, ..self }
    }

    /// Returns the sum of the terms of both sums.
    #[inline(always)]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let bin = Ord::max(self.bin, other.bin);
        let digits = S::plus(self.behind(bin).digits, other.behind(bin).digits);
        Self { digits, bin, specials: self.specials | other.specials }
    }
}

impl<S: Float> Partial<S> {
    /// Returns the sum of the terms.
    #[inline(always)]
    pub fn sum(self) -> S {
        if self.specials == 0 { S::nearest(self.digits, self.bin) } else { S::special(self.specials) }
    }

    /// Returns the sum of the terms, rounded to `f64`, divided by the number of elements; NaN for none.
    #[inline(always)]
    pub fn mean(self, count: u64) -> f64 {
        self.scaled(count, 0)
    }

    /// Returns the sum of the terms, times 2^-[`HEADROOM`](Float::HEADROOM), rounded to `f64`.
    #[inline(always)]
    pub fn wide(self) -> f64 {
        self.scaled(1, -S::HEADROOM)
    }

    #[inline(always)]
    fn scaled(self, over: u64, exponent: i32) -> f64 {
        if self.specials != 0 {
            return f64::special(self.specials);
        }
        let (negative, value, own) = S::front(self.digits, self.bin);
        let exponent = own + exponent;
        let half = exponent / 2;
        let magnitude = value as f64 / over as f64 * power_f64(half) * power_f64(exponent - half);
        if negative { -magnitude } else { magnitude }
    }
}

/// A few terms, which are added together.
pub trait Terms<S>: Copy {
    /// Number of terms.
    const LEN: u32;
    /// Calls `take` with each term.
    fn each(self, take: impl FnMut(S));
    /// Returns the terms with `of` applied to each.
    #[must_use]
    fn map(self, of: impl FnMut(S) -> S) -> Self;
}

/// Implements [`Terms`] without loops, for which a GPU would place the array in local memory.
macro_rules! terms {
    ($([$($term:ident)*];)*) => {$(
        impl<S: Copy> Terms<S> for [S; [$(stringify!($term)),*].len()] {
            const LEN: u32 = [$(stringify!($term)),*].len() as u32;

            #[inline(always)]
            fn each(self, mut take: impl FnMut(S)) {
                let [$($term),*] = self;
                $(take($term);)*
            }

            #[inline(always)]
            fn map(self, mut of: impl FnMut(S) -> S) -> Self {
                let [$($term),*] = self;
                [$(of($term)),*]
            }
        }
    )*};
}

terms! {
    [a];
    [a b];
    [a b c d];
    [a b c d e f g h];
}

/// A thread's sum, to which a few terms at a time are added.
#[derive(Clone, Copy)]
pub struct Running<S: Sums> {
    kept: S::Kept,
    scale: S::Term,
    bin: u32,
    specials: u32,
    /// Number of terms that can be added before the thread's sums may overflow.
    room: u32,
}

impl<S: Sums> Running<S> {
    /// Creates the sum of no terms.
    #[inline(always)]
    pub fn new() -> Self {
        Self::of(Partial::ZERO)
    }

    #[inline(always)]
    fn of(Partial { digits, bin, specials }: Partial<S>) -> Self {
        let (kept, scale) = (S::keep(digits, bin), S::scale(bin));
        Self { kept, scale, bin, specials, room: S::CAPACITY }
    }

    /// Adds terms, up to 2^35 in all.
    #[inline(always)]
    pub fn add<T: Terms<S::Term>>(&mut self, terms: T) {
        self.add_unless_nan::<T, false>(terms);
    }

    /// Adds the terms that are not NaN, and returns their number.
    #[inline(always)]
    pub fn add_numbers<T: Terms<S::Term>>(&mut self, terms: T) -> u32 {
        self.add_unless_nan::<T, true>(terms)
    }

    /// Adds the terms, without NaNs if `SKIPS`, and returns the number of terms added.
    #[inline(always)]
    fn add_unless_nan<T: Terms<S::Term>, const SKIPS: bool>(&mut self, terms: T) -> u32 {
        const { assert!(T::LEN <= S::CAPACITY) };
        let mut added = T::LEN;
        let mut scaled = self.scaled(terms);
        let mut fit = self.has_room_for(scaled);
        let mut short = true;
        scaled.each(|term| short &= S::is_short(&self.kept, term));
        // A single branch, which few terms take. NaN does not fit, so terms that fit need no check for
        // it.
        if !(fit & short) {
            let mut terms = terms;
            if SKIPS && !fit {
                terms = terms.map(|term| {
                    let is_nan = term.specials() == POSITIVE | NEGATIVE;
                    added -= u32::from(is_nan);
                    if is_nan { S::Term::ZERO } else { term }
                });
                scaled = self.scaled(terms);
                fit = self.has_room_for(scaled);
            }
            if !fit {
                let terms = self.make_room(terms);
                scaled = self.scaled(terms);
            }
            scaled = S::shortened(&mut self.kept, scaled);
        }
        scaled.each(|term| S::deposit(&mut self.kept, S::digits(term)));
        self.room = self.room.wrapping_sub(T::LEN);
        added
    }

    #[inline(always)]
    fn scaled<T: Terms<S::Term>>(&self, terms: T) -> T {
        terms.map(|term| S::scaled(term, self.scale))
    }

    /// Returns whether the scaled terms belong to the first bin or a lower one, and fit in `room`.
    #[inline(always)]
    fn has_room_for<T: Terms<S::Term>>(&self, scaled: T) -> bool {
        let mut fit = S::CAPACITY == u32::MAX || self.room >= T::LEN;
        scaled.each(|term| fit &= S::fits(term, self.scale));
        fit
    }

    /// Raises the first bin and moves narrow sums to wide ones, so that the terms fit (slow path).
    /// Records the flags of terms that are not finite, and replaces these terms by 0.
    #[inline(always)]
    fn make_room<T: Terms<S::Term>>(&mut self, terms: T) -> T {
        let mut sum = self.close();
        let mut largest = S::Term::ZERO;
        let finite = terms.map(|term| {
            let specials = term.specials();
            sum.specials |= specials;
            let term = if specials == 0 { term } else { S::Term::ZERO };
            largest = largest.larger(term);
            term
        });
        *self = Self::of(sum.behind(Ord::max(sum.bin, S::bin(largest))));
        finite
    }

    /// Returns the sum of the terms.
    #[inline(always)]
    pub fn close(self) -> Partial<S> {
        Partial { digits: S::total(self.kept), bin: self.bin, specials: self.specials }
    }
}

impl<S: Sums> Default for Running<S> {
    fn default() -> Self {
        Self::new()
    }
}
