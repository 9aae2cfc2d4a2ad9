//! Element types as they lie in memory, 16 bytes at a time.

use core::convert::identity;

use super::{super::Element, partial::Partial};
use crate::gpu::*;

/// 16 bytes as they are loaded.
pub(super) type Group = [u32; 4];

/// An element type in memory.
pub(super) trait Item: Copy + 'static {
    /// What elements are compared in: holds every one of them exactly.
    type Wide: Ordered + Partial;
    /// What they are added in.
    type Total: Element + Partial;
    /// Elements of a group.
    const LANES: u64 = 16 / size_of::<Self>() as u64;
    /// The element as it is compared.
    fn wide(self) -> Self::Wide;
    /// The element as it is added.
    fn total(self) -> Self::Total;
    /// The element that was widened.
    fn narrow(wide: Self::Wide) -> Self;
    /// The sum of a group; of zeros, zero.
    fn sum(group: Group) -> Self::Total;
    /// The sum of a group's squares; of zeros, zero.
    fn sum_squares(group: Group) -> Self::Total;
    /// The smallest element of a group; NaN if there is one.
    fn least(group: Group) -> Self::Wide;
    /// The largest element of a group; NaN if there is one.
    fn greatest(group: Group) -> Self::Wide;
    /// Whether the place of an extreme in its group is found along with it. Of many lanes that would take longer
    /// than the memory does.
    const LOCATES: bool;
    /// The first smallest element of a group, or its first NaN, and its place there if this type locates; else
    /// as [`least`](Self::least), and 0.
    fn first_least(group: Group) -> (Self::Wide, u64);
    /// The same of the largest.
    fn first_greatest(group: Group) -> (Self::Wide, u64);
}

/// Order with the rule of numpy's `argmin` and `argmax`: a NaN comes before all numbers.
pub(super) trait Ordered: Element {
    /// Whether this takes the other's place as the minimum.
    fn below(self, other: Self) -> bool;
    /// Whether this takes the other's place as the maximum.
    fn above(self, other: Self) -> bool;
    /// Whether neither comes before the other.
    fn same(self, other: Self) -> bool;
}

macro_rules! ordered {
    (integers: $($int:ty)*; floats: $($float:ty)*) => {
        $(impl Ordered for $int {
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

ordered!(integers: i32 u32 i64 u64; floats: f32 f64);

/// Values combined in pairs, the front half with the back half: a short chain of dependent steps. Written
/// out, because an array that a loop walks through would lie in local memory.
pub(super) trait InPairs<A> {
    /// All into one.
    fn in_pairs(self, combine: impl Fn(A, A) -> A) -> A;
}

impl<A: Copy> InPairs<A> for [A; 2] {
    #[inline(always)]
    fn in_pairs(self, combine: impl Fn(A, A) -> A) -> A {
        combine(self[0], self[1])
    }
}

impl<A: Copy> InPairs<A> for [A; 4] {
    #[inline(always)]
    fn in_pairs(self, combine: impl Fn(A, A) -> A) -> A {
        let [a, b, c, d] = self;
        [combine(a, c), combine(b, d)].in_pairs(combine)
    }
}

impl<A: Copy> InPairs<A> for [A; 8] {
    #[inline(always)]
    fn in_pairs(self, combine: impl Fn(A, A) -> A) -> A {
        let [a, b, c, d, e, f, g, h] = self;
        [combine(a, e), combine(b, f), combine(c, g), combine(d, h)].in_pairs(combine)
    }
}

/// The first of the lanes that none of the others comes before, and its place.
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

/// Types whose groups are unpacked into lanes.
macro_rules! unpacked {
    ($($ty:ty: $wide:ty, $widen:expr, $narrow:expr, $lanes:expr, $place:ident;)*) => {$(
        impl Item for $ty {
            type Wide = $wide;
            type Total = $wide;
            #[inline(always)]
            fn wide(self) -> $wide {
                $widen(self)
            }
            #[inline(always)]
            fn total(self) -> $wide {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                $narrow(wide)
            }
            #[inline(always)]
            fn sum(group: Group) -> $wide {
                $lanes(group).in_pairs(Element::add)
            }
            #[inline(always)]
            fn sum_squares(group: Group) -> $wide {
                $lanes(group).map(Element::square).in_pairs(Element::add)
            }
            #[inline(always)]
            fn least(group: Group) -> $wide {
                $lanes(group).in_pairs(Element::least)
            }
            #[inline(always)]
            fn greatest(group: Group) -> $wide {
                $lanes(group).in_pairs(Element::greatest)
            }
            unpacked!(@$place $wide, $lanes);
        }
    )*};
    (@located $wide:ty, $lanes:expr) => {
        const LOCATES: bool = true;
        #[inline(always)]
        fn first_least(group: Group) -> ($wide, u64) {
            $lanes(group).first(Ordered::below)
        }
        #[inline(always)]
        fn first_greatest(group: Group) -> ($wide, u64) {
            $lanes(group).first(Ordered::above)
        }
    };
    (@in_group $wide:ty, $lanes:expr) => {
        const LOCATES: bool = false;
        #[inline(always)]
        fn first_least(group: Group) -> ($wide, u64) {
            (Self::least(group), 0)
        }
        #[inline(always)]
        fn first_greatest(group: Group) -> ($wide, u64) {
            (Self::greatest(group), 0)
        }
    };
}

/// IEEE half precision, as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

/// bfloat16: the upper half of a single-precision number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bf16(u16);

impl F16 {
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
    fn lanes([a, b, c, d]: Group) -> [f32; 8] {
        let ([a, b], [c, d], [e, f], [g, h]) =
            (widen_f16x2(a), widen_f16x2(b), widen_f16x2(c), widen_f16x2(d));
        [a, b, c, d, e, f, g, h]
    }
}

impl Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Of a number that was one.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self((value.to_bits() >> 16) as u16)
    }

    #[inline(always)]
    fn lanes(group: Group) -> [f32; 8] {
        let [a, c, e, g] = group.map(|word| f32::from_bits(word << 16));
        let [b, d, f, h] = group.map(|word| f32::from_bits(word & 0xffff_0000));
        [a, b, c, d, e, f, g, h]
    }
}

/// Lanes of four bytes.
#[inline(always)]
fn words<T: Word<Bits = u32>>(group: Group) -> [T; 4] {
    group.map(T::from_bits)
}

/// Lanes of eight bytes.
#[inline(always)]
fn double_words<T: Word<Bits = u64>>([a, b, c, d]: Group) -> [T; 2] {
    [(a, b), (c, d)].map(|(low, high)| T::from_bits(u64::from(high) << 32 | u64::from(low)))
}

unpacked! {
    i32: i32, identity, identity, words, located;
    u32: u32, identity, identity, words, located;
    f32: f32, identity, identity, words, located;
    i64: i64, identity, identity, double_words, located;
    u64: u64, identity, identity, double_words, located;
    f64: f64, identity, identity, double_words, located;
    F16: f32, F16::widen, F16::narrow, F16::lanes, in_group;
    Bf16: f32, Bf16::widen, Bf16::narrow, Bf16::lanes, in_group;
}

/// Single bytes: dot products add four at a time. For the extremes each byte of a word in turn is shifted
/// to the top, where it rules the comparison of whole words; what lies below it does no harm.
macro_rules! bytes {
    ($($ty:ty: $wide:ty, $total:ty, $dot:ident, $of_bits:expr;)*) => {$(
        impl Item for $ty {
            type Wide = $wide;
            type Total = $total;
            #[inline(always)]
            fn wide(self) -> $wide {
                self.into()
            }
            #[inline(always)]
            fn total(self) -> $total {
                self.into()
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn sum(group: Group) -> $total {
                group.iter().fold(0, |sum, &word| $dot(word, 0x0101_0101, sum)).into()
            }
            #[inline(always)]
            fn sum_squares(group: Group) -> $total {
                group.iter().fold(0, |sum, &word| $dot(word, word, sum)).into()
            }
            #[inline(always)]
            fn least(group: Group) -> $wide {
                let tops = [24, 16, 8, 0].map(|shift| {
                    group.map(|word| $of_bits(word << shift)).in_pairs(Element::least)
                });
                tops.in_pairs(Element::least) >> 24
            }
            #[inline(always)]
            fn greatest(group: Group) -> $wide {
                let tops = [24, 16, 8, 0].map(|shift| {
                    group.map(|word| $of_bits(word << shift)).in_pairs(Element::greatest)
                });
                tops.in_pairs(Element::greatest) >> 24
            }
            unpacked!(@in_group $wide, ());
        }
    )*};
}

bytes! {
    i8: i32, i64, dot_i8, u32::cast_signed;
    u8: u32, u64, dot_u8, identity;
}
