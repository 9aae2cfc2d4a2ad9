//! Element types in memory, processed in vectors of 16 bytes.

use core::{convert::identity, ops::Shr};

use super::{
    op::Extreme,
    pairs::{DistanceSquared, PairTerm, Times},
};
use warpfold_device::{
    Word,
    narrow::{dot_i8, dot_u8, narrow_f16, widen_f16x2},
    op::Number,
    reduction::{TopKey, Vector, lanes},
    thread::Few,
};

/// An element type in memory. [`sum`](Self::sum) returns zero for a vector of zeros.
pub(super) trait Item: Copy + 'static {
    /// The type in which elements are compared, which represents each element exactly.
    type Wide: Ordered;
    type Total: Number;
    type Interval: Copy;
    const LANES: u64 = lanes::<Self>();
    fn wide(self) -> Self::Wide;
    fn total(self) -> Self::Total;
    /// Converts a value of type [`Wide`](Self::Wide) back to the element type.
    fn narrow(wide: Self::Wide) -> Self;
    fn sum(group: Vector) -> Self::Total;
    fn sum_squares(group: Vector) -> Self::Total;
    fn sum_magnitudes(group: Vector) -> Self::Total;
    fn dot(a: Vector, b: Vector) -> Self::Total;
    fn squared_distance(a: Vector, b: Vector) -> Self::Total;
    fn product(group: Vector) -> Self::Total;
    fn is_nonzero(self) -> bool;
    fn count_nonzero(group: Vector) -> u32;
    /// Returns the closed interval whose bounds are elements with these bit patterns.
    fn interval(low: u64, high: u64) -> Self::Interval;
    /// Returns whether the element is in the interval; NaN never is.
    fn lies_in(self, interval: Self::Interval) -> bool;
    /// Returns the most extreme element of a vector; `E` defines the order of NaN.
    fn extreme<E: Extreme<Self::Wide>>(group: Vector) -> Self::Wide;
    /// `true` if [`first_extreme`](Self::first_extreme) also finds the lane. For vectors of 8 or 16
    /// lanes the search would take longer than the load of the vector from memory.
    const LOCATES: bool;
    /// Returns the first most extreme element of a vector and its lane. If [`LOCATES`](Self::LOCATES) is
    /// `false`, returns [`extreme`](Self::extreme) and 0.
    fn first_extreme<E: Extreme<Self::Wide>>(group: Vector) -> (Self::Wide, u64);
}

pub(super) trait Packed: Item {
    fn count_and_sum(group: Vector, interval: Self::Interval) -> (u32, Self::Total);
}

/// The order of numpy's `argmin` and `argmax`, in which a NaN comes before all numbers.
pub(super) trait Ordered: Number + PartialOrd {
    type Key: TopKey;
    /// Returns an unsigned key that sorts in ascending order. Numbers that are the [`same`](Self::same)
    /// have equal keys, and NaN has the largest key.
    fn ascending(self) -> Self::Key;
    /// Returns an unsigned key that sorts in descending order; NaN has the largest key here, too.
    fn descending(self) -> Self::Key;
    /// Returns whether this replaces `other` as the minimum.
    fn below(self, other: Self) -> bool;
    /// Returns whether this replaces `other` as the maximum.
    fn above(self, other: Self) -> bool;
    /// Returns whether the numbers are equal or both NaN.
    fn same(self, other: Self) -> bool;
}

macro_rules! ordered {
    (integers: $($int:ty as $int_key:ty)*; floats: $($float:ty as $key:ty)*) => {
        $(impl Ordered for $int {
            type Key = $int_key;
            #[inline(always)]
            fn ascending(self) -> $int_key {
                self.wrapping_sub(Self::MIN) as $int_key
            }
            #[inline(always)]
            fn descending(self) -> $int_key {
                !self.ascending()
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                self > other
            }
            #[inline(always)]
            fn same(self, other: Self) -> bool {
                self == other
            }
        })*
        $(impl Ordered for $float {
            type Key = $key;
            #[inline(always)]
            fn ascending(self) -> $key {
                const SIGN: $key = 1 << (<$key>::BITS - 1);
                // +0 and -0 have the same key.
                let bits = if self == 0.0 { 0 } else { self.to_bits() };
                let place = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                if self.is_nan() { <$key>::MAX } else { place }
            }
            #[inline(always)]
            fn descending(self) -> $key {
                (-self).ascending()
            }
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord)] // A NaN on the left must come out true.
            fn below(self, other: Self) -> bool {
                !(self >= other) && !other.is_nan()
            }
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            fn above(self, other: Self) -> bool {
                !(self <= other) && !other.is_nan()
            }
            #[inline(always)]
            fn same(self, other: Self) -> bool {
                self == other || (self.is_nan() && other.is_nan())
            }
        })*
    };
}

ordered!(integers: i32 as u32 u32 as u32 i64 as u64 u64 as u64; floats: f32 as u32 f64 as u64);

trait First<A> {
    fn first(self, before: impl Fn(A, A) -> bool) -> (A, u64);
}

impl<A: Copy> First<A> for [A; 2] {
    #[inline(always)]
    fn first(self, before: impl Fn(A, A) -> bool) -> (A, u64) {
        let [a, b] = self;
        if before(b, a) { (b, 1) } else { (a, 0) }
    }
}

impl<A: Copy> First<A> for [A; 4] {
    #[inline(always)]
    fn first(self, before: impl Fn(A, A) -> bool) -> (A, u64) {
        let [a, b, c, d] = self;
        let ((front, i), (back, k)) = ([a, b].first(&before), [c, d].first(&before));
        if before(back, front) { (back, 2 + k) } else { (front, i) }
    }
}

pub(super) trait Unpacked: Copy + 'static {
    type Wide: Ordered;
    type Total: Number;
    type Lanes: Few<Self::Wide>;
    type Terms: Few<Self::Total>;
    const LOCATES: bool;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn term(self) -> Self::Total;
    fn unpack(group: Vector) -> Self::Lanes;
    fn terms(group: Vector, of: impl Fn(Self::Total) -> Self::Total) -> Self::Terms;
    fn each(group: Vector, take: impl FnMut(Self::Total));
    fn nonzero(group: Vector) -> u32;
    /// Returns the element that the lowest bits of `bits` represent.
    fn of_bits(bits: u64) -> Self;
    /// Returns the first most extreme element and its lane. Called only if [`LOCATES`](Self::LOCATES) is
    /// `true`.
    fn first(group: Vector, before: impl Fn(Self::Wide, Self::Wide) -> bool) -> (Self::Wide, u64);
}

impl<T: Unpacked> Item for T {
    type Wide = T::Wide;
    type Total = T::Total;
    type Interval = [T::Wide; 2];
    const LOCATES: bool = T::LOCATES;

    #[inline(always)]
    fn wide(self) -> T::Wide {
        self.widen()
    }

    #[inline(always)]
    fn total(self) -> T::Total {
        self.term()
    }

    #[inline(always)]
    fn narrow(wide: T::Wide) -> Self {
        <T as Unpacked>::narrow(wide)
    }

    #[inline(always)]
    fn sum(group: Vector) -> T::Total {
        T::terms(group, identity).tree_reduce(Number::add)
    }

    #[inline(always)]
    fn sum_squares(group: Vector) -> T::Total {
        T::terms(group, Number::square).tree_reduce(Number::add)
    }

    #[inline(always)]
    fn sum_magnitudes(group: Vector) -> T::Total {
        T::terms(group, Number::magnitude).tree_reduce(Number::add)
    }

    #[inline(always)]
    fn dot(a: Vector, b: Vector) -> T::Total {
        let (a, b) = (T::terms(a, identity), T::terms(b, identity));
        a.zipped(b, Times::of).tree_reduce(Number::add)
    }

    #[inline(always)]
    fn squared_distance(a: Vector, b: Vector) -> T::Total {
        let (a, b) = (T::terms(a, identity), T::terms(b, identity));
        a.zipped(b, DistanceSquared::of).tree_reduce(Number::add)
    }

    #[inline(always)]
    fn product(group: Vector) -> T::Total {
        T::terms(group, identity).tree_reduce(Number::multiply)
    }

    #[inline(always)]
    fn is_nonzero(self) -> bool {
        !self.widen().same(T::Wide::ZERO)
    }

    #[inline(always)]
    fn count_nonzero(group: Vector) -> u32 {
        T::nonzero(group)
    }

    #[inline(always)]
    fn interval(low: u64, high: u64) -> [T::Wide; 2] {
        [T::of_bits(low).widen(), T::of_bits(high).widen()]
    }

    #[inline(always)]
    fn lies_in(self, interval: [T::Wide; 2]) -> bool {
        between(self.widen(), interval)
    }

    #[inline(always)]
    fn extreme<E: Extreme<T::Wide>>(group: Vector) -> T::Wide {
        T::unpack(group).tree_reduce(E::combine)
    }

    #[inline(always)]
    fn first_extreme<E: Extreme<T::Wide>>(group: Vector) -> (T::Wide, u64) {
        if T::LOCATES { T::first(group, E::beats) } else { (Self::extreme::<E>(group), 0) }
    }
}

/// Returns whether a number is in a closed interval, without a branch.
#[inline(always)]
pub(super) fn between<A: PartialOrd>(number: A, [low, high]: [A; 2]) -> bool {
    (low <= number) & (number <= high)
}

/// Implements [`Unpacked`] for numbers that the hardware compares in their memory format. Each lane has
/// a variable, because LLVM 7 keeps an array in local memory if `map` is called on it.
macro_rules! native {
    ($unpack:ident $lanes:tt: $($ty:ident added in $total:ident;)*) => {
        $(native!(@one $unpack $lanes $ty $total);)*
    };
    (@one $unpack:ident [$($lane:ident)*] $ty:ident $total:ident) => {
        impl Unpacked for $ty {
            type Wide = Self;
            type Total = $total;
            type Lanes = [Self; [$(stringify!($lane)),*].len()];
            type Terms = [$total; [$(stringify!($lane)),*].len()];
            const LOCATES: bool = true;
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
            #[inline(always)]
            fn term(self) -> $total {
                self.into()
            }
            #[inline(always)]
            fn unpack(group: Vector) -> Self::Lanes {
                $unpack(group)
            }
            #[inline(always)]
            fn terms(group: Vector, of: impl Fn($total) -> $total) -> Self::Terms {
                let [$($lane),*] = $unpack::<Self>(group);
                [$(of($lane.term())),*]
            }
            #[inline(always)]
            fn each(group: Vector, mut take: impl FnMut($total)) {
                let [$($lane),*] = $unpack::<Self>(group);
                $(take($lane.term());)*
            }
            #[inline(always)]
            fn nonzero(group: Vector) -> u32 {
                let [$($lane),*] = $unpack::<Self>(group);
                0 $(+ u32::from($lane != Self::ZERO))*
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                Word::from_bits(bits as <Self as Word>::Bits)
            }
            #[inline(always)]
            fn first(group: Vector, before: impl Fn(Self, Self) -> bool) -> (Self, u64) {
                First::first($unpack::<Self>(group), before)
            }
        }
    };
}

native! { words [a b c d]:
    i32 added in i64;
    u32 added in u64;
    f32 added in f32;
}
native! { double_words [a b]:
    i64 added in i64;
    u64 added in u64;
    f64 added in f64;
}

/// Calls `take` with each of eight numbers, each in a variable for the reason given at [`native!`].
#[inline(always)]
fn each_of([a, b, c, d, e, f, g, h]: [f32; 8], mut take: impl FnMut(f32)) {
    take(a);
    take(b);
    take(c);
    take(d);
    take(e);
    take(f);
    take(g);
    take(h);
}

#[inline(always)]
fn words<T: Word<Bits = u32>>(group: Vector) -> [T; 4] {
    group.map(T::from_bits)
}

#[inline(always)]
fn double_words<T: Word<Bits = u64>>([a, b, c, d]: Vector) -> [T; 2] {
    [(a, b), (c, d)].map(|(low, high)| T::from_bits(u64::from(high) << 32 | u64::from(low)))
}

/// IEEE half precision, as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

impl Unpacked for F16 {
    type Wide = f32;
    type Total = f32;
    type Lanes = [f32; 8];
    type Terms = [f32; 8];
    const LOCATES: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        let [value, _] = widen_f16x2(u32::from(self.0));
        value
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self(narrow_f16(value))
    }

    #[inline(always)]
    fn unpack([a, b, c, d]: Vector) -> [f32; 8] {
        let ([a, b], [c, d], [e, f], [g, h]) =
            (widen_f16x2(a), widen_f16x2(b), widen_f16x2(c), widen_f16x2(d));
        [a, b, c, d, e, f, g, h]
    }

    #[inline(always)]
    fn term(self) -> f32 {
        self.widen()
    }

    #[inline(always)]
    fn terms(group: Vector, of: impl Fn(f32) -> f32) -> [f32; 8] {
        Self::unpack(group).map(of)
    }

    #[inline(always)]
    fn each(group: Vector, take: impl FnMut(f32)) {
        each_of(Self::unpack(group), take);
    }

    #[inline(always)]
    fn nonzero([a, b, c, d]: Vector) -> u32 {
        nonzero_halves(a) + nonzero_halves(b) + nonzero_halves(c) + nonzero_halves(d)
    }

    #[inline(always)]
    fn of_bits(bits: u64) -> Self {
        Self(bits as u16)
    }

    #[inline(always)]
    fn first(group: Vector, _before: impl Fn(f32, f32) -> bool) -> (f32, u64) {
        (Self::unpack(group)[0], 0)
    }
}

/// bfloat16: the upper half of a single-precision number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bf16(u16);

impl Unpacked for Bf16 {
    type Wide = f32;
    type Total = f32;
    type Lanes = [f32; 8];
    type Terms = [f32; 8];
    const LOCATES: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Truncates, which is exact for a widened bfloat16.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self((value.to_bits() >> 16) as u16)
    }

    #[inline(always)]
    fn unpack(group: Vector) -> [f32; 8] {
        let [a, c, e, g] = group.map(|word| f32::from_bits(word << 16));
        let [b, d, f, h] = group.map(|word| f32::from_bits(word & 0xffff_0000));
        [a, b, c, d, e, f, g, h]
    }

    #[inline(always)]
    fn term(self) -> f32 {
        self.widen()
    }

    #[inline(always)]
    fn terms(group: Vector, of: impl Fn(f32) -> f32) -> [f32; 8] {
        Self::unpack(group).map(of)
    }

    #[inline(always)]
    fn each(group: Vector, take: impl FnMut(f32)) {
        each_of(Self::unpack(group), take);
    }

    #[inline(always)]
    fn nonzero([a, b, c, d]: Vector) -> u32 {
        nonzero_halves(a) + nonzero_halves(b) + nonzero_halves(c) + nonzero_halves(d)
    }

    #[inline(always)]
    fn of_bits(bits: u64) -> Self {
        Self(bits as u16)
    }

    #[inline(always)]
    fn first(group: Vector, _before: impl Fn(f32, f32) -> bool) -> (f32, u64) {
        (Self::unpack(group)[0], 0)
    }
}

impl Item for i8 {
    type Wide = i32;
    type Total = i64;
    type Interval = Bytes;
    const LOCATES: bool = false;

    #[inline(always)]
    fn wide(self) -> i32 {
        self.into()
    }

    #[inline(always)]
    fn total(self) -> i64 {
        self.into()
    }

    /// Clamps, because identities of [`Item::Wide`] are out of range of the element type.
    #[inline(always)]
    fn narrow(wide: i32) -> Self {
        Ord::clamp(wide, Self::MIN.into(), Self::MAX.into()) as Self
    }

    #[inline(always)]
    fn sum(group: Vector) -> i64 {
        group.iter().fold(0, |sum, &word| dot_i8(word, ONES, sum)).into()
    }

    #[inline(always)]
    fn sum_squares(group: Vector) -> i64 {
        group.iter().fold(0, |sum, &word| dot_i8(word, word, sum)).into()
    }

    #[inline(always)]
    fn sum_magnitudes(group: Vector) -> i64 {
        group.iter().fold(0, |sum, &word| dot_u8(magnitudes(word), ONES, sum)).into()
    }

    #[inline(always)]
    fn dot([a, b, c, d]: Vector, [e, f, g, h]: Vector) -> i64 {
        dot_i8(d, h, dot_i8(c, g, dot_i8(b, f, dot_i8(a, e, 0)))).into()
    }

    /// Computes a² + b² − 2ab, whose three sums are exact.
    #[inline(always)]
    fn squared_distance(a: Vector, b: Vector) -> i64 {
        Self::sum_squares(a) + Self::sum_squares(b) - 2 * Self::dot(a, b)
    }

    #[inline(always)]
    fn product([a, b, c, d]: Vector) -> i64 {
        let of_word = |word: u32| -> i64 {
            let byte = |shift: u32| i32::from((word >> shift) as i8);
            // The product of four bytes fits in 32 bits.
            (byte(0) * byte(8) * (byte(16) * byte(24))).into()
        };
        [of_word(a), of_word(b), of_word(c), of_word(d)].tree_reduce(Number::multiply)
    }

    #[inline(always)]
    fn is_nonzero(self) -> bool {
        self != 0
    }

    #[inline(always)]
    fn count_nonzero([a, b, c, d]: Vector) -> u32 {
        nonzero_bytes(a) + nonzero_bytes(b) + nonzero_bytes(c) + nonzero_bytes(d)
    }

    #[inline(always)]
    fn interval(low: u64, high: u64) -> Bytes {
        Bytes::of(low, high)
    }

    #[inline(always)]
    fn lies_in(self, interval: Bytes) -> bool {
        interval.inside(self.cast_unsigned().into()) & 1 != 0
    }

    #[inline(always)]
    fn extreme<E: Extreme<i32>>(group: Vector) -> i32 {
        top_lanes::<i32, E, 4>(group, [24, 16, 8, 0], u32::cast_signed) >> 24
    }

    #[inline(always)]
    fn first_extreme<E: Extreme<i32>>(group: Vector) -> (i32, u64) {
        (Self::extreme::<E>(group), 0)
    }
}

impl Item for u8 {
    type Wide = u32;
    type Total = u64;
    type Interval = Bytes;
    const LOCATES: bool = false;

    #[inline(always)]
    fn wide(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn total(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn narrow(wide: u32) -> Self {
        wide as Self
    }

    #[inline(always)]
    fn sum(group: Vector) -> u64 {
        group.iter().fold(0, |sum, &word| dot_u8(word, ONES, sum)).into()
    }

    #[inline(always)]
    fn sum_squares(group: Vector) -> u64 {
        group.iter().fold(0, |sum, &word| dot_u8(word, word, sum)).into()
    }

    #[inline(always)]
    fn sum_magnitudes(group: Vector) -> u64 {
        Self::sum(group)
    }

    #[inline(always)]
    fn dot([a, b, c, d]: Vector, [e, f, g, h]: Vector) -> u64 {
        dot_u8(d, h, dot_u8(c, g, dot_u8(b, f, dot_u8(a, e, 0)))).into()
    }

    /// Computes a² + b² − 2ab, whose three sums are exact.
    #[inline(always)]
    fn squared_distance(a: Vector, b: Vector) -> u64 {
        Self::sum_squares(a) + Self::sum_squares(b) - 2 * Self::dot(a, b)
    }

    #[inline(always)]
    fn product([a, b, c, d]: Vector) -> u64 {
        let of_word = |word: u32| -> u64 {
            let byte = |shift: u32| u32::from((word >> shift) as u8);
            // The product of four bytes fits in 32 bits.
            (byte(0) * byte(8) * (byte(16) * byte(24))).into()
        };
        [of_word(a), of_word(b), of_word(c), of_word(d)].tree_reduce(Number::multiply)
    }

    #[inline(always)]
    fn is_nonzero(self) -> bool {
        self != 0
    }

    #[inline(always)]
    fn count_nonzero([a, b, c, d]: Vector) -> u32 {
        nonzero_bytes(a) + nonzero_bytes(b) + nonzero_bytes(c) + nonzero_bytes(d)
    }

    #[inline(always)]
    fn interval(low: u64, high: u64) -> Bytes {
        Bytes::of(low, high)
    }

    #[inline(always)]
    fn lies_in(self, interval: Bytes) -> bool {
        interval.inside(self.into()) & 1 != 0
    }

    #[inline(always)]
    fn extreme<E: Extreme<u32>>(group: Vector) -> u32 {
        top_lanes::<u32, E, 4>(group, [24, 16, 8, 0], identity) >> 24
    }

    #[inline(always)]
    fn first_extreme<E: Extreme<u32>>(group: Vector) -> (u32, u64) {
        (Self::extreme::<E>(group), 0)
    }
}

impl Packed for i8 {
    #[inline(always)]
    fn count_and_sum(group: Vector, interval: Bytes) -> (u32, i64) {
        let (count, sum) = group.iter().fold((0, 0), |(count, sum), &word| {
            let inside = interval.inside(word);
            (dot_u8(inside, ONES, count), dot_i8(word, inside, sum))
        });
        (count, sum.into())
    }
}

impl Packed for u8 {
    #[inline(always)]
    fn count_and_sum(group: Vector, interval: Bytes) -> (u32, u64) {
        let (count, sum) = group.iter().fold((0, 0), |(count, sum), &word| {
            let inside = interval.inside(word);
            (dot_u8(inside, ONES, count), dot_u8(word, inside, sum))
        });
        (count, sum.into())
    }
}

/// Implements [`Item`] for integers of 16 bits. The sum of a vector and the product of two elements fit
/// in 32 bits; sums of products need 64.
macro_rules! halves {
    ($($ty:ident in $wide:ident, $total:ident: $of_bits:expr;)*) => {$(
        impl Item for $ty {
            type Wide = $wide;
            type Total = $total;
            type Interval = [$wide; 2];
            const LOCATES: bool = false;

            #[inline(always)]
            fn wide(self) -> $wide {
                self.into()
            }

            #[inline(always)]
            fn total(self) -> $total {
                self.into()
            }

            /// Clamps, because identities of [`Item::Wide`] are out of range of the element type.
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                Ord::clamp(wide, Self::MIN.into(), Self::MAX.into()) as Self
            }

            #[inline(always)]
            fn sum(group: Vector) -> $total {
                let of_word = |word| pair(word, $of_bits).tree_reduce(Number::add);
                group.map(of_word).tree_reduce(Number::add).into()
            }

            #[inline(always)]
            fn sum_squares(group: Vector) -> $total {
                Self::dot(group, group)
            }

            #[inline(always)]
            fn sum_magnitudes(group: Vector) -> $total {
                let of_word = |word| {
                    let [a, b] = pair(word, $of_bits);
                    a.magnitude().add(b.magnitude())
                };
                group.map(of_word).tree_reduce(Number::add).into()
            }

            #[inline(always)]
            fn dot([a, b, c, d]: Vector, [e, f, g, h]: Vector) -> $total {
                let of_words = |first, second| {
                    let ([a, b], [c, d]) = (pair(first, $of_bits), pair(second, $of_bits));
                    $total::from(a) * $total::from(c) + $total::from(b) * $total::from(d)
                };
                [of_words(a, e), of_words(b, f), of_words(c, g), of_words(d, h)].tree_reduce(Number::add)
            }

            #[inline(always)]
            fn squared_distance([a, b, c, d]: Vector, [e, f, g, h]: Vector) -> $total {
                let of_words = |first, second| {
                    let ([a, b], [c, d]) = (pair(first, $of_bits), pair(second, $of_bits));
                    // Differences have 17 bits, sign included, and their squares overflow an `i32`.
                    let [first, second] = [(a, c), (b, d)].map(|(a, b)| i64::from(a as i32 - b as i32));
                    (first * first + second * second) as $total
                };
                [of_words(a, e), of_words(b, f), of_words(c, g), of_words(d, h)].tree_reduce(Number::add)
            }

            #[inline(always)]
            fn product([a, b, c, d]: Vector) -> $total {
                let of_word = |word| $total::from(pair(word, $of_bits).tree_reduce(Number::multiply));
                [of_word(a), of_word(b), of_word(c), of_word(d)].tree_reduce(Number::multiply)
            }

            #[inline(always)]
            fn is_nonzero(self) -> bool {
                self != 0
            }

            #[inline(always)]
            fn count_nonzero(group: Vector) -> u32 {
                group.map(nonzero_lanes::<0x7fff_7fff>).tree_reduce(Number::add)
            }

            #[inline(always)]
            fn interval(low: u64, high: u64) -> [$wide; 2] {
                [(low as Self).into(), (high as Self).into()]
            }

            #[inline(always)]
            fn lies_in(self, interval: [$wide; 2]) -> bool {
                between(self.wide(), interval)
            }

            #[inline(always)]
            fn extreme<E: Extreme<$wide>>(group: Vector) -> $wide {
                top_lanes::<$wide, E, 2>(group, [16, 0], $of_bits) >> 16
            }

            #[inline(always)]
            fn first_extreme<E: Extreme<$wide>>(group: Vector) -> ($wide, u64) {
                (Self::extreme::<E>(group), 0)
            }
        }

        impl Packed for $ty {
            #[inline(always)]
            fn count_and_sum([a, b, c, d]: Vector, interval: [$wide; 2]) -> (u32, $total) {
                let of_word = |word| {
                    let [a, b] = pair(word, $of_bits);
                    let (a_inside, b_inside) = (between(a, interval), between(b, interval));
                    let sum = if a_inside { a } else { 0 } + if b_inside { b } else { 0 };
                    (u32::from(a_inside) + u32::from(b_inside), sum)
                };
                let (a, b, c, d) = (of_word(a), of_word(b), of_word(c), of_word(d));
                ([a.0, b.0, c.0, d.0].tree_reduce(Number::add), [a.1, b.1, c.1, d.1].tree_reduce(Number::add).into())
            }
        }
    )*};
}

halves! {
    i16 in i32, i64: u32::cast_signed;
    u16 in u32, u64: identity;
}

/// Returns the lower and the upper half of a word, sign- or zero-extended.
#[inline(always)]
fn pair<A: Shr<u32, Output = A>>(word: u32, of_bits: impl Fn(u32) -> A) -> [A; 2] {
    [of_bits(word << 16) >> 16, of_bits(word) >> 16]
}

/// A one in each byte: a dot product with it sums the bytes of a word.
const ONES: u32 = 0x0101_0101;

/// An interval of signed or unsigned bytes, replicated to all four bytes of a word.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    low: u32,
    /// The upper bound minus the lower one.
    reach: u32,
}

impl Bytes {
    #[inline(always)]
    fn of(low: u64, high: u64) -> Self {
        let four = |byte: u64| (byte as u32 & 0xff) * ONES;
        Self { low: four(low), reach: four(high.wrapping_sub(low)) }
    }

    /// Returns a word with 1 in each byte that is in the interval. Modulo 256, such a byte is at most
    /// `reach` above the lower bound, whether signed or not. No carry crosses bytes.
    #[inline(always)]
    fn inside(self, word: u32) -> u32 {
        const TOP: u32 = 0x8080_8080;
        let Self { low, reach } = self;
        let distance = ((word | TOP) - (low & !TOP)) ^ ((word ^ !low) & TOP);
        // Sets the top bit of bytes in which `distance` is at most `reach`, both without their top bits.
        let lower = (reach | TOP) - (distance & !TOP);
        let inside = (reach & !distance) | (!(reach ^ distance) & lower);
        (inside >> 7) & ONES
    }
}

/// Returns the magnitudes of a word's four signed bytes, as unsigned bytes.
#[inline(always)]
fn magnitudes(word: u32) -> u32 {
    let negative = (word >> 7) & ONES;
    // No carry crosses bytes: a magnitude is at most 128.
    (word ^ (negative * 0xff)) + negative
}

#[inline(always)]
fn nonzero_bytes(word: u32) -> u32 {
    nonzero_lanes::<0x7f7f_7f7f>(word)
}

/// Counts the non-zero lanes of a word; `LOW` has all bits set but the top one of each lane.
#[inline(always)]
fn nonzero_lanes<const LOW: u32>(word: u32) -> u32 {
    ((((word & LOW) + LOW) | word) & !LOW).count_ones()
}

/// Counts the 16-bit floats of a word that are neither +0 nor -0.
#[inline(always)]
fn nonzero_halves(word: u32) -> u32 {
    const LOW: u32 = 0x7fff_7fff;
    (((word & LOW) + LOW) & !LOW).count_ones()
}

/// Returns the most extreme lane of a vector, in the top bits of a word. Shifts each lane to the top of
/// its word, where it decides the comparison of whole words. The bits below it cannot change the result.
#[inline(always)]
fn top_lanes<A: Ordered, E: Extreme<A>, const N: usize>(
    group: Vector,
    shifts: [u32; N],
    of_bits: impl Fn(u32) -> A,
) -> A
where
    [A; N]: Few<A>,
{
    shifts
        .map(|shift| group.map(|word| of_bits(word << shift)).tree_reduce(E::combine))
        .tree_reduce(E::combine)
}
