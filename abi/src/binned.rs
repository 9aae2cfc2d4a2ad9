//! Binned sums: sums of floats whose bits depend on no order.
//!
//! # The result
//! The terms are numbers of the type in which the sum is given, `f32` or `f64`. With the constants of
//! the table, a term belongs to *bin* t if t is the least integer, of those from the lowest bin on, with
//! |term| < 2^((t + 1)W - 1). Let t be the highest bin that any term belongs to. The sum is that of all
//! terms, each rounded to a multiple of the *unit* 2^((t - K + 1)W): they are added exactly, and the sum
//! is rounded once to the type. Both roundings are to nearest, and to even where two are equally near;
//! what is too large becomes an infinity. A sum of 0 is +0. If any term is NaN, or there are infinities
//! of both signs, the sum is NaN; else it is the infinity, if there is one.
//!
//! | type | W: bits of a bin | K: digits that are kept | bins | unit over the largest magnitude |
//! |---|--:|--:|---|---|
//! | `f32` | 23 | 3 | -5 to 5 | at most 2^-45 |
//! | `f64` | 28 | 4 | -36 to 36 | at most 2^-83 |
//!
//! All of that is said of the terms as a set. So the sum depends neither on their order nor on who adds
//! which of them, and another program on another machine has the same one.
//!
//! A term is off by half a unit at most: n terms by n * 2^-46 of the largest magnitude in `f32`, and by
//! n * 2^-84 of it in `f64`, besides the rounding of the result. Where the unit divides all terms, the
//! result is their exact sum, rounded once: so it is for half-precision numbers, for integers below 2^68
//! in `f32` and below 2^111 in `f64`, and for numbers that all belong to the lowest bin, whose unit
//! divides the smallest number that there is.
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
//! A term is scaled by 2^(-tW), and its digits are split off from the front. An `f32` plus 1.5 * 2^23 is
//! rounded to an integer, of two equally near ones to the even one, which is in the last places of the
//! sum: that is the first digit. What remains is exact, and at most a half; plus 1.5 * 2^(23 - W), it
//! gives the next W bits, and so on. Digits are added as integers.
//!
//! (A scaled term is exact unless it is so small that all its digits are 0, whatever its last bits are.
//! So the digits are the same where a compiler fuses the scaling with the addition behind it.)
//!
//! Nobody has to know the highest bin before. Whoever adds begins with the lowest one as the first. When
//! a term belongs to a higher one, that becomes the first; the digits move down by as many places, and
//! those that fall out at the end are dropped. What is left is what would have been kept from the start:
//!
//! - The digits of a term down to any place make up the term rounded to a multiple of that place. For
//!   what is split off in front of it is a multiple of the place before, and so an even multiple of this
//!   one: the nearest multiple to the whole term is it and the nearest one to the remainder, and of two
//!   equally near ones the even one of both is the same.
//! - So the digits make up the same whichever bin is the first, as long as the term belongs to no higher
//!   one.
//! - The places behind a new first bin are old places, whose digits stay, or places above them. At those
//!   a term that came before has the digit 0: it is less than half of the place above its bin.
//!
//! Nor does it matter in which of several parts of a sum a term is: two parts meet with the higher of
//! their first bins as the first of both.
//!
//! A digit is at most 2^(W - 1) in magnitude, so that an `i64` holds the sums of those of 2^35 terms.
//!
//! (Sums in bins of a fixed grid, of which the highest few are kept: J. Demmel and H. D. Nguyen,
//! *Parallel Reproducible Summation*, IEEE Transactions on Computers 64, 2015. There sums of digits are
//! floats, which are renormalised.)

/// What is kept of terms: the sums of their digits. An `f32` or an `f64` stands for those of binned
/// sums.
pub trait Sums: Copy + 'static {
    /// What the terms are.
    type Term: Float;
    /// 32-bit words that the sums are handed on in.
    const WORDS: u32;
    /// Terms whose digits [`Kept`](Self::Kept) holds for sure, besides what it was made of.
    const CAPACITY: u32;
    /// The digits of a term, the highest first.
    type Near: Copy;
    /// The sums of the digits of 2^35 terms.
    type Digits: Copy;
    /// The sums of the digits of what one thread adds.
    type Kept: Copy;
    /// The digits of no terms.
    const NOTHING: Self::Digits;

    /// The digits of a scaled term that [fits](Self::fits) and [is short](Self::is_short).
    fn digits(scaled: Self::Term) -> Self::Near;
    /// Adds the digits of a term.
    fn deposit(kept: &mut Self::Kept, digits: Self::Near);
    /// What is kept where the sums are these, and this bin, counted from the lowest, is the first.
    fn keep(digits: Self::Digits, bin: u32) -> Self::Kept;
    /// The sums of all that was added.
    fn total(kept: Self::Kept) -> Self::Digits;
    /// The sums of two.
    fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits;
    /// The sums, where the first bin is `bins` bins above the one before.
    fn lowered(digits: Self::Digits, bins: u32) -> Self::Digits;
    /// Each integer that the sums are, by a function.
    fn map(digits: Self::Digits, of: &mut impl Each) -> Self::Digits;

    /// The sums, where each of those integers has been added up over the lanes of a warp.
    #[inline(always)]
    fn of_lanes(digits: Self::Digits) -> Self::Digits {
        digits
    }

    /// Whether a scaled term that fits has no other digits than [`digits`](Self::digits) gives.
    #[inline(always)]
    fn is_short(_kept: &Self::Kept, _scaled: Self::Term) -> bool {
        true
    }

    /// Adds the other digits that a few scaled terms have, and gives the terms without them.
    #[inline(always)]
    fn shortened<T: Terms<Self::Term>>(_kept: &mut Self::Kept, scaled: T) -> T {
        scaled
    }

    /// The scale of a bin, counted from the lowest: what terms are measured by where it is the first.
    #[inline(always)]
    fn scale(bin: u32) -> Self::Term {
        Float::scale(bin)
    }

    /// A term in the scale of the first bin.
    #[inline(always)]
    fn scaled(term: Self::Term, scale: Self::Term) -> Self::Term {
        term.times(scale)
    }

    /// Whether a scaled term belongs to the first bin, which has this scale, or to a lower one. What is
    /// not finite does not.
    #[inline(always)]
    fn fits(scaled: Self::Term, _scale: Self::Term) -> bool {
        scaled.fits()
    }

    /// The bin of a finite term, counted from the lowest.
    #[inline(always)]
    fn bin(term: Self::Term) -> u32 {
        term.bin()
    }
}

/// What is done with each of some integers.
pub trait Each {
    /// With one of 64 bits.
    fn double(&mut self, number: i64) -> i64;
    /// With one of 32 bits.
    fn single(&mut self, number: i32) -> i32;
}

/// The words of integers, each passed through a function: of those of 64 bits the low one first.
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

/// The type of a binned sum and of its terms: `f32` or `f64`.
pub trait Float: Sums<Term = Self> {
    /// Bits of a bin.
    const WIDTH: u32;
    /// Digits that are kept.
    const PLACES: u32;
    /// The lowest bin. The highest one is as far above 0.
    const LOWEST: i32;
    /// The exponent of the power of two by which no sum of 2^35 terms is too large for an `f64`.
    const HEADROOM: i32;
    /// The number 0 of the type.
    const ZERO: Self;

    /// The number of the larger magnitude; no NaN may be among them.
    #[must_use]
    fn larger(self, other: Self) -> Self;
    /// The bin of a finite number, counted from the lowest.
    fn bin(self) -> u32;
    /// What of [`Partial::specials`] this number sets: nothing if it is finite.
    fn specials(self) -> u32;
    /// What terms are multiplied by where this bin, counted from the lowest, is the first.
    fn scale(bin: u32) -> Self;
    /// The product of a term and a scale.
    fn times(self, scale: Self) -> Self;
    /// Whether a scaled term belongs to the first bin or a lower one. A NaN does not.
    fn fits(self) -> bool;
    /// The nearest number to the sum of finite terms.
    fn nearest(digits: Self::Digits, bin: u32) -> Self;
    /// Returns whether the sum of finite terms is negative, and a value and an exponent such that
    /// `value * 2^exponent` rounds as the sum's magnitude does.
    fn front(digits: Self::Digits, bin: u32) -> (bool, u64, i32);
    /// The sum of terms that are not all finite.
    fn special(specials: u32) -> Self;
}

/// In [`Partial::specials`]: a term is +infinity.
const POSITIVE: u32 = 1;
/// In [`Partial::specials`]: a term is -infinity. Both: or one is NaN.
const NEGATIVE: u32 = 2;

/// The front of a sum: `value * 2^exponent`. Where the value has 64 bits, its lowest one is also set if
/// anything behind it is.
#[derive(Clone, Copy)]
struct Front {
    value: u64,
    exponent: i32,
}

impl Front {
    /// With `digit` behind it, the next digit, which has `width` bits.
    #[inline(always)]
    fn then(self, digit: u64, width: u32) -> Self {
        // For how many of the digit's bits there is room; if not for all, there is none afterwards.
        let room = Ord::min(leading_zeros(self.value), width);
        let left = width - room;
        let lost = digit & ((1 << left) - 1) != 0;
        let value = self.value << room | digit >> left | u64::from(lost);
        Self { value, exponent: self.exponent - room as i32 }
    }
}

/// The zeros in front of a number's highest bit; of 0 one less than there are. `u64::leading_zeros`
/// cannot be asked: rust-cuda's compiler takes it to be more than any digit has bits, whatever the
/// number is.
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

/// Digits have names, because an array that a loop goes over may lie in local memory on a GPU.
macro_rules! floats {
    ($(
        $Float:ident as $Bits:ident, $power:ident: bins of $width:literal bits, up to $highest:literal;
        $places:literal digits $digits:tt, carried $carried:tt, kept $kept:tt;
    )*) => {$(
        /// A power of two that is a normal number.
        pub(crate) const fn $power(exponent: i32) -> $Float {
            let biased = exponent + $Float::MAX_EXP - 1;
            $Float::from_bits((biased as $Bits) << ($Float::MANTISSA_DIGITS - 1))
        }

        const _: () = {
            // The highest bin takes the largest number, and its scale is a normal number.
            assert!(($highest + 1) * $width > $Float::MAX_EXP);
            assert!($highest * $width < $Float::MAX_EXP - 1);
            // The lowest unit divides the smallest number.
            let smallest = $Float::MIN_EXP - $Float::MANTISSA_DIGITS as i32;
            assert!(($highest + <$Float as Float>::PLACES as i32 - 1) * $width >= -smallest);
            // A digit of either sign has room in the last places of a sum.
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
                // The least biased exponent of the second bin is this and WIDTH.
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
            // All but the first from 0 to 2^WIDTH - 1.
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
            // That is the one rounding: a sum so small that the product is subnormal is a multiple of
            // the smallest number, as all terms are. In two steps, as the power alone may be too small.
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
            /// So large that the last place of sums with it is that of a digit.
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
            // Of a term that does not fit there are no digits, and the sum is thrown away.
            [a[$first_place].wrapping_add(b[$first_place]) $(, a[$place].wrapping_add(b[$place]))*]
        }

        #[inline(always)]
        fn lowered(mut digits: Self::Digits, bins: u32) -> Self::Digits {
            let mut left = Ord::min(bins, Self::PLACES);
            while left > 0 {
                #[allow(unused_variables)] // The last one falls out.
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
    // In 64 bits at once.
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
    // In 32 bits, which is cheaper, and from time to time in 64.
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

/// Where the specials begin in the word that has the bin, too.
const SPECIALS_FROM: u32 = 16;

/// The sum of some terms, to which others can be added. 2^35 terms have room.
#[derive(Debug, Clone, Copy)]
pub struct Partial<S: Sums> {
    /// The sums of the terms' digits, the first of them in units of 2^(tW) for the first bin t.
    pub digits: S::Digits,
    /// The first bin, counted from the lowest: no finite term belongs to a higher one.
    pub bin: u32,
    /// What terms are not finite: 1 for +infinity, 2 for -infinity, 3 for both of them or NaN.
    pub specials: u32,
}

impl<S: Sums> Partial<S> {
    /// The sum of no terms. All its words are 0.
    pub const ZERO: Self = Self { digits: S::NOTHING, bin: 0, specials: 0 };
    /// Words that it is handed on in: those of the sums, and one that has the bin and the specials.
    pub const WORDS: u32 = S::WORDS + 1;

    /// The sum whose words are those of this one, each passed through a function.
    #[inline(always)]
    #[must_use]
    pub fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        let digits = S::map(self.digits, &mut EachWord(&mut *through));
        let word = through(self.bin | self.specials << SPECIALS_FROM);
        Self { digits, bin: word % (1 << SPECIALS_FROM), specials: word >> SPECIALS_FROM }
    }

    /// The sum of a single term.
    #[inline(always)]
    pub fn of(term: S::Term) -> Self {
        let mut sum = Self::ZERO;
        sum.add(term);
        sum
    }

    /// Adds a term: for who has no [`Running`] sum.
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

    /// Behind another first bin, which is no lower.
    #[inline(always)]
    #[must_use]
    pub fn behind(self, bin: u32) -> Self {
        Self { digits: S::lowered(self.digits, bin - self.bin), bin, ..self }
    }

    /// Of the terms of both.
    #[inline(always)]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let bin = Ord::max(self.bin, other.bin);
        let digits = S::plus(self.behind(bin).digits, other.behind(bin).digits);
        Self { digits, bin, specials: self.specials | other.specials }
    }
}

impl<S: Float> Partial<S> {
    /// The sum of the terms.
    #[inline(always)]
    pub fn sum(self) -> S {
        if self.specials == 0 { S::nearest(self.digits, self.bin) } else { S::special(self.specials) }
    }

    /// The sum of the terms, rounded to `f64`, over the number of elements: NaN of none.
    #[inline(always)]
    pub fn mean(self, count: u64) -> f64 {
        self.scaled(count, 0)
    }

    /// The sum of the terms, times 2^-[`HEADROOM`](Float::HEADROOM), rounded to `f64`.
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
    /// How many terms there are.
    const LEN: u32;
    /// Hands them over one by one.
    fn each(self, take: impl FnMut(S));
    /// Each of them changed.
    #[must_use]
    fn map(self, of: impl FnMut(S) -> S) -> Self;
}

/// Written out, for the reason that [`floats`] has.
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

/// A sum of terms that come a few at a time: what a thread keeps.
#[derive(Clone, Copy)]
pub struct Running<S: Sums> {
    kept: S::Kept,
    /// That of the first bin.
    scale: S::Term,
    bin: u32,
    specials: u32,
    /// Terms that there is room for.
    room: u32,
}

impl<S: Sums> Running<S> {
    /// Makes the sum of no terms.
    #[inline(always)]
    pub fn new() -> Self {
        Self::of(Partial::ZERO)
    }

    /// Of the terms of a partial sum.
    #[inline(always)]
    fn of(Partial { digits, bin, specials }: Partial<S>) -> Self {
        let (kept, scale) = (S::keep(digits, bin), S::scale(bin));
        Self { kept, scale, bin, specials, room: S::CAPACITY }
    }

    /// Adds a few terms, of which there are 2^35 in all at most.
    #[inline(always)]
    pub fn add<T: Terms<S::Term>>(&mut self, terms: T) {
        self.add_unless_nan::<T, false>(terms);
    }

    /// Adds those of a few terms that are not NaN, and tells how many there are of them.
    #[inline(always)]
    pub fn add_numbers<T: Terms<S::Term>>(&mut self, terms: T) -> u32 {
        self.add_unless_nan::<T, true>(terms)
    }

    /// Adds a few terms, where `SKIPS` those that are not NaN, and tells how many.
    #[inline(always)]
    fn add_unless_nan<T: Terms<S::Term>, const SKIPS: bool>(&mut self, terms: T) -> u32 {
        const { assert!(T::LEN <= S::CAPACITY) };
        let mut added = T::LEN;
        let mut scaled = self.scaled(terms);
        let mut fit = self.has_room_for(scaled);
        let mut short = true;
        scaled.each(|term| short &= S::is_short(&self.kept, term));
        // One branch, as hardly any terms take it. Those that are NaN do, so that no other is asked.
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

    /// Terms in the scale of the first bin.
    #[inline(always)]
    fn scaled<T: Terms<S::Term>>(&self, terms: T) -> T {
        terms.map(|term| S::scaled(term, self.scale))
    }

    /// Whether scaled terms all belong to the first bin or a lower one, and can be added now.
    #[inline(always)]
    fn has_room_for<T: Terms<S::Term>>(&self, scaled: T) -> bool {
        let mut fit = S::CAPACITY == u32::MAX || self.room >= T::LEN;
        scaled.each(|term| fit &= S::fits(term, self.scale));
        fit
    }

    /// Makes terms fit, which is seldom needed: takes note of those that are not finite, and leaves them
    /// out.
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

    /// The sum of the terms.
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
