//! Bitwise operations on whole words. The lanes of the last word are combined at the end.

use core::marker::PhantomData;

use warpfold_device::{
    Value, combined_by, op,
    op::Operation,
    reduction::{ACCUMULATORS, Reduction, Vector, VectorReduction},
    thread::Few,
};

use super::item::Item;

pub(super) trait Bits: Item {
    type Word: Value;
    /// Returns the element as the lowest lane of a word; the other lanes are arbitrary.
    fn word(self) -> Self::Word;
    fn fold<O: Operation<Self::Word> + Operation<u32>>(group: Vector) -> Self::Word;
    /// Combines the lanes of a word into its lowest one.
    fn fold_lanes<O: Operation<Self::Word>>(word: Self::Word) -> Self::Word;
    fn lane(word: Self::Word) -> Self;
}

macro_rules! bits {
    ($($ty:ident as $unsigned:ident in $word:ident: $shifts:expr, |$group:ident| $fold:expr;)*) => {$(
        impl Bits for $ty {
            type Word = $word;

            #[inline(always)]
            fn word(self) -> $word {
                self as $unsigned as $word
            }

            #[inline(always)]
            fn fold<O: Operation<$word> + Operation<u32>>($group: Vector) -> $word {
                $fold
            }

            #[inline(always)]
            fn fold_lanes<O: Operation<$word>>(mut word: $word) -> $word {
                let shifts: &[u32] = &$shifts;
                let mut at = 0;
                while at < shifts.len() {
                    word = O::combine(word, word >> shifts[at]);
                    at += 1;
                }
                word
            }

            #[inline(always)]
            fn lane(word: $word) -> Self {
                word as Self
            }
        }
    )*};
}

bits! {
    i8 as u8 in u32: [16, 8], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    u8 as u8 in u32: [16, 8], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    i16 as u16 in u32: [16], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    u16 as u16 in u32: [16], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    i32 as u32 in u32: [], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    u32 as u32 in u32: [], |group| group.tree_reduce(<O as Operation<u32>>::combine);
    i64 as u64 in u64: [], |group| double_word(group.in_halves(<O as Operation<u32>>::combine));
    u64 as u64 in u64: [], |group| double_word(group.in_halves(<O as Operation<u32>>::combine));
}

#[inline(always)]
fn double_word([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

trait Halves {
    fn in_halves(self, combine: impl Fn(u32, u32) -> u32) -> [u32; 2];
}

impl Halves for Vector {
    #[inline(always)]
    fn in_halves(self, combine: impl Fn(u32, u32) -> u32) -> [u32; 2] {
        let [a, b, c, d] = self;
        [combine(a, c), combine(b, d)]
    }
}

pub(super) trait Bitwise: Operation<u32> + Operation<u64> + 'static {
    const ZERO_PADDABLE: bool;
}

macro_rules! bitwise {
    ($($Op:ident: $zero_paddable:literal)*) => {$(
        impl Bitwise for op::$Op {
            const ZERO_PADDABLE: bool = $zero_paddable;
        }
    )*};
}

bitwise!(And: false Or: true Xor: true);

pub(super) struct BitsOf<T, O>(PhantomData<(T, O)>);
pub(super) type And<T> = BitsOf<T, op::And>;
pub(super) type Or<T> = BitsOf<T, op::Or>;
pub(super) type Xor<T> = BitsOf<T, op::Xor>;

impl<T: Bits, O: Bitwise + Operation<T::Word>> Reduction for BitsOf<T, O> {
    type Element = T;
    type Partial = T::Word;
    type Output = T;
    combined_by!(O);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = <O as Bitwise>::ZERO_PADDABLE;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Word {
        element.word()
    }

    #[inline(always)]
    fn finish(word: T::Word) -> T {
        T::lane(word)
    }
}

impl<T: Bits, O: Bitwise + Operation<T::Word>> VectorReduction for BitsOf<T, O> {
    type Accumulator = [T::Word; ACCUMULATORS];
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [Self::IDENTITY; ACCUMULATORS]
    }

    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, chain: usize, vector: Vector, _index: u64) {
        kept[chain] = Self::combine(kept[chain], T::fold::<O>(vector));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> T::Word {
        T::fold_lanes::<O>(Self::combine(Self::combine(a, b), Self::combine(c, d)))
    }
}
