//! Bitwise operations. A lane of a word is not looked at before the end.

use core::marker::PhantomData;

use warpfold_device::{Value, op, op::Operation, reduction::Group, thread::Few};

use super::{
    item::Item,
    op::{Each, InChains},
};

/// An integer as bits.
pub(super) trait Bits: Item {
    /// As many bits as elements are combined in.
    type Word: Value;
    /// An element as the lowest bits of a word.
    fn word(self) -> Self::Word;
    /// A group in one word.
    fn fold<O: Operation<Self::Word> + Operation<u32>>(group: Group) -> Self::Word;
    /// The lanes of a word in its lowest one.
    fn fold_lanes<O: Operation<Self::Word>>(word: Self::Word) -> Self::Word;
    /// The lowest lane of a word.
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
            fn fold<O: Operation<$word> + Operation<u32>>($group: Group) -> $word {
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
    i8 as u8 in u32: [16, 8], |group| group.in_pairs(<O as Operation<u32>>::combine);
    u8 as u8 in u32: [16, 8], |group| group.in_pairs(<O as Operation<u32>>::combine);
    i16 as u16 in u32: [16], |group| group.in_pairs(<O as Operation<u32>>::combine);
    u16 as u16 in u32: [16], |group| group.in_pairs(<O as Operation<u32>>::combine);
    i32 as u32 in u32: [], |group| group.in_pairs(<O as Operation<u32>>::combine);
    u32 as u32 in u32: [], |group| group.in_pairs(<O as Operation<u32>>::combine);
    i64 as u64 in u64: [], |group| double_word(group.in_halves(<O as Operation<u32>>::combine));
    u64 as u64 in u64: [], |group| double_word(group.in_halves(<O as Operation<u32>>::combine));
}

/// Eight bytes of two words.
#[inline(always)]
fn double_word([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The halves of a group into one.
trait Halves {
    fn in_halves(self, combine: impl Fn(u32, u32) -> u32) -> [u32; 2];
}

impl Halves for Group {
    #[inline(always)]
    fn in_halves(self, combine: impl Fn(u32, u32) -> u32) -> [u32; 2] {
        let [a, b, c, d] = self;
        [combine(a, c), combine(b, d)]
    }
}

/// An operation on bits.
pub(super) trait Bitwise: Operation<u32> + Operation<u64> + 'static {
    /// The operation as a value.
    const OP: Self;
    /// Whether zeros change nothing.
    const TAKES_ZEROS: bool;
}

macro_rules! bitwise {
    ($($Op:ident: $takes_zeros:literal)*) => {$(
        impl Bitwise for op::$Op {
            const OP: Self = Self;
            const TAKES_ZEROS: bool = $takes_zeros;
        }
    )*};
}

bitwise!(And: false Or: true Xor: true);

/// The elements, bit by bit.
pub(super) struct BitsOf<O>(PhantomData<O>);
/// The bits that all elements have.
pub(super) type And<T> = InChains<T, BitsOf<op::And>>;
/// The bits that any element has.
pub(super) type Or<T> = InChains<T, BitsOf<op::Or>>;
/// The bits that an odd number of elements have.
pub(super) type Xor<T> = InChains<T, BitsOf<op::Xor>>;

impl<T: Bits, O: Bitwise + Operation<T::Word>> Each<T> for BitsOf<O> {
    type Partial = T::Word;
    type Combine = O;
    const COMBINE: O = O::OP;
    const RESULT_BYTES: u64 = size_of::<T>() as u64;
    const TAKES_ZEROS: bool = <O as Bitwise>::TAKES_ZEROS;

    #[inline(always)]
    fn of(element: T) -> T::Word {
        element.word()
    }

    #[inline(always)]
    fn of_group(group: Group) -> T::Word {
        T::fold::<O>(group)
    }

    #[inline(always)]
    fn close(word: T::Word) -> T::Word {
        T::fold_lanes::<O>(word)
    }

    #[inline(always)]
    unsafe fn write(word: T::Word, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe { *output.cast() = T::lane(word) };
    }
}
