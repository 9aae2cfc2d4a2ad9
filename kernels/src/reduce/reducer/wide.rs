//! Sums in a wider type than the usual one.

use core::{convert::identity, marker::PhantomData};

use warpfold_device::{
    combined_by,
    op::{self, Number},
    reduction::{Reduction, Unrolled, Vector},
    thread::Few,
};

use super::item::{Bf16, F16, Item, Unpacked};

/// A type whose elements can be added in a wider one.
pub(super) trait Widest: Item {
    /// The type that is wide enough.
    type Widest: Number;
    /// The element in it, exactly.
    fn widest(self) -> Self::Widest;
    /// The sum of a group; of zeros, zero.
    fn sum_widest(group: Vector) -> Self::Widest;
    /// A sum as it is written, at a multiple of 8.
    type Output: Copy + 'static;
    /// Returns it.
    fn output(sum: Self::Widest) -> Self::Output;
}

macro_rules! widest {
    ($($ty:ident in $wide:ident: $lanes:tt, written as $output:ty: $finish:expr;)*) => {$(
        impl Widest for $ty {
            type Widest = $wide;
            type Output = $output;

            #[inline(always)]
            fn widest(self) -> $wide {
                self.widen().into()
            }

            #[inline(always)]
            fn sum_widest(group: Vector) -> $wide {
                widest!(@ $lanes in $wide = <Self as Unpacked>::unpack(group))
            }

            #[inline(always)]
            fn output(sum: $wide) -> $output {
                $finish(sum)
            }
        }
    )*};
    // With names, because an array that `map` owns would lie in local memory where LLVM 7 compiles it.
    (@ [$($lane:ident)*] in $wide:ident = $unpacked:expr) => {{
        let [$($lane),*] = $unpacked;
        [$($wide::from($lane)),*].tree_reduce(Number::add)
    }};
}

widest! {
    F16 in f64: [a b c d e f g h], written as f64: identity;
    Bf16 in f64: [a b c d e f g h], written as f64: identity;
    f32 in f64: [a b c d], written as f64: identity;
    i64 in i128: [a b], written as [u64; 2]: |sum: i128| words(sum.cast_unsigned());
    u64 in u128: [a b], written as [u64; 2]: words;
}

/// The words of a sum of 128 bits, from the lowest one on: a result need not be at a multiple of 16.
#[inline(always)]
fn words(sum: u128) -> [u64; 2] {
    [sum as u64, (sum >> 64) as u64]
}

/// The sum of the elements in the wider type.
pub(super) type WideSum<T> = Unrolled<WideSumOf<T>>;
/// The same, as a thread maps and combines them.
pub(super) struct WideSumOf<T>(PhantomData<T>);

impl<T: Widest> Reduction for WideSumOf<T> {
    type Element = T;
    type Partial = T::Widest;
    type Output = T::Output;
    combined_by!(op::Sum);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Widest {
        element.widest()
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> T::Widest {
        T::sum_widest(vector)
    }

    #[inline(always)]
    fn finish(sum: T::Widest) -> T::Output {
        T::output(sum)
    }
}
