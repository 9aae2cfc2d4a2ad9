//! Sums in a wider type than the usual one.

use warpfold_device::{
    op::{self, Number},
    reduction::Group,
    thread::Few,
};

use super::{
    item::{Bf16, F16, Item, Unpacked},
    op::{Each, InChains},
};

/// A type whose elements can be added in a wider one.
pub(super) trait Widest: Item {
    /// The type that is wide enough.
    type Widest: Number;
    /// The element in it, exactly.
    fn widest(self) -> Self::Widest;
    /// The sum of a group; of zeros, zero.
    fn sum_widest(group: Group) -> Self::Widest;
    /// Writes a sum.
    ///
    /// # Safety
    /// There are as many bytes to be written, at a multiple of 8.
    unsafe fn write(sum: Self::Widest, output: *mut u64);
}

macro_rules! widest {
    ($($ty:ident in $wide:ident: $lanes:tt, written by $write:ident;)*) => {$(
        impl Widest for $ty {
            type Widest = $wide;

            #[inline(always)]
            fn widest(self) -> $wide {
                self.widen().into()
            }

            #[inline(always)]
            fn sum_widest(group: Group) -> $wide {
                widest!(@ $lanes in $wide = <Self as Unpacked>::unpack(group))
            }

            #[inline(always)]
            unsafe fn write(sum: $wide, output: *mut u64) {
                // SAFETY: the caller's contract.
                unsafe { $write(sum, output) };
            }
        }
    )*};
    // With names, because an array that `map` owns would lie in local memory where LLVM 7 compiles it.
    (@ [$($lane:ident)*] in $wide:ident = $unpacked:expr) => {{
        let [$($lane),*] = $unpacked;
        [$($wide::from($lane)),*].in_pairs(Number::add)
    }};
}

widest! {
    F16 in f64: [a b c d e f g h], written by write_double;
    Bf16 in f64: [a b c d e f g h], written by write_double;
    f32 in f64: [a b c d], written by write_double;
    i64 in i128: [a b], written by write_signed;
    u64 in u128: [a b], written by write_unsigned;
}

/// # Safety
/// There are 8 bytes to be written, at a multiple of 8.
#[inline(always)]
unsafe fn write_double(sum: f64, output: *mut u64) {
    // SAFETY: the caller's contract.
    unsafe { *output.cast() = sum };
}

/// # Safety
/// There are 16 bytes to be written, at a multiple of 8, which need not be one of 16.
#[inline(always)]
unsafe fn write_unsigned(sum: u128, output: *mut u64) {
    // SAFETY: the caller's contract.
    unsafe {
        *output = sum as u64;
        *output.add(1) = (sum >> 64) as u64;
    }
}

/// # Safety
/// As [`write_unsigned`].
#[inline(always)]
unsafe fn write_signed(sum: i128, output: *mut u64) {
    // SAFETY: the caller's contract.
    unsafe { write_unsigned(sum.cast_unsigned(), output) };
}

/// The sum of the elements in the wider type.
pub(super) type WideSum<T> = InChains<T, SumInWidest>;
/// The same, of what each element is there.
pub(super) struct SumInWidest;

impl<T: Widest> Each<T> for SumInWidest {
    type Partial = T::Widest;
    type Combine = op::Sum;
    const COMBINE: op::Sum = op::Sum;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn of(element: T) -> T::Widest {
        element.widest()
    }

    #[inline(always)]
    fn of_group(group: Group) -> T::Widest {
        T::sum_widest(group)
    }

    #[inline(always)]
    unsafe fn write(sum: T::Widest, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe { T::write(sum, output) };
    }
}
