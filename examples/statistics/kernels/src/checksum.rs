//! Checksums of records, for every record size that is loaded in a different way.

use warpfold_device::{reducer, reduction::Reduction};

trait Number: Copy + 'static {
    fn bits(self) -> u64;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn bits(self) -> u64 {
                self.into()
            }
        }
    )*};
}

numbers!(u8 u16 u64);

/// Returns a word's term, which depends on the word's position, so that exchanged words are detected.
#[inline(always)]
fn term<N: Number>(number: N, place: u64) -> u64 {
    let mixed =
        (number.bits() ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

macro_rules! records {
    ($($name:ident: $Record:ident { $($field:ident)* } of $ty:ty => $Output:ty, $finish:expr;)*) => {
        $(
            /// A record of these fields.
            #[derive(Clone, Copy)]
            #[repr(C)]
            pub struct $Record {
                $($field: $ty,)*
            }

            impl Reduction for $Record {
                type Element = Self;
                type Partial = u64;
                type Output = $Output;
                const IDENTITY: u64 = 0;

                #[inline(always)]
                fn map(record: Self, index: u64) -> u64 {
                    let words = size_of::<Self>() / size_of::<$ty>();
                    let (mut sum, mut place) = (0_u64, index * words as u64);
                    $(
                        sum = sum.wrapping_add(term(record.$field, place));
                        place += 1;
                    )*
                    let _ = place;
                    sum
                }

                #[inline(always)]
                fn combine(a: u64, b: u64) -> u64 {
                    a.wrapping_add(b)
                }

                #[inline(always)]
                fn finish(sum: u64) -> $Output {
                    $finish(sum)
                }
            }
        )*

        reducer! { $($name = $Record;)* }
    };
}

#[inline(always)]
fn whole(sum: u64) -> u64 {
    sum
}

/// Returns a result of 12 bytes: in an array, only every second one begins at a multiple of 8.
#[inline(always)]
fn in_three(sum: u64) -> [u32; 3] {
    let (low, high) = (sum as u32, (sum >> 32) as u32);
    [low, high, low ^ high]
}

records! {
    checksum_1: Record1 { a } of u8 => u64, whole;
    checksum_2: Record2 { a } of u16 => u64, whole;
    checksum_3: Record3 { a b c } of u8 => [u32; 3], in_three;
    checksum_16: Record16 { a b } of u64 => u64, whole;
    checksum_64: Record64 { a b c d e f g h } of u64 => u64, whole;
}
