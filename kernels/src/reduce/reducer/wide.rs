//! Sums in a wider type than [`Item::Total`].

use core::{convert::identity, marker::PhantomData};

use warpfold_device::{
    combined_by,
    op::{self, Number},
    reduction::{Reduction, Unrolled, Vector},
    thread::Few,
};

use super::item::{Bf16, F16, Item, Unpacked};

pub(super) trait Widest: Item {
    /// The wider type, which holds each element exactly.
    type Widest: Number;
    fn widest(self) -> Self::Widest;
    /// Returns the sum of a vector, which is zero for a vector of zeros.
    fn sum_widest(group: Vector) -> Self::Widest;
    /// The output format; results are aligned to 8 bytes.
    type Output: Copy + 'static;
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
    // Each lane has a variable, because LLVM 7 keeps an array in local memory if `map` is called on it.
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

/// Returns the words of a sum, lower word first, because a `u128` would be aligned to 16 bytes.
#[inline(always)]
fn words(sum: u128) -> [u64; 2] {
    [sum as u64, (sum >> 64) as u64]
}

pub(super) type WideSum<T> = Unrolled<WideSumOf<T>>;
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
