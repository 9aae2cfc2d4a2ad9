//! 16-byte loads from global memory, with a cache hint.

use core::arch::asm;

use super::Word;

/// How a 16-byte load treats the caches. One type per hint, because the hint is part of the
/// instruction.
pub trait CacheHint {
    /// Four 32-bit words.
    #[doc(hidden)]
    unsafe fn load_4x32(address: *const u32) -> [u32; 4];
    /// Two 64-bit words.
    #[doc(hidden)]
    unsafe fn load_2x64(address: *const u64) -> [u64; 2];
}

macro_rules! cache_hints {
    ($($(#[$attr:meta])* $name:ident = $hint:literal;)*) => {$(
        $(#[$attr])*
        pub struct $name;

        impl CacheHint for $name {
            #[inline(always)]
            unsafe fn load_4x32(address: *const u32) -> [u32; 4] {
                let (a, b, c, d);
                // SAFETY: the caller's contract (`load16`).
                unsafe {
                    asm!(
                        concat!("ld.global", $hint, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                [a, b, c, d]
            }

            #[inline(always)]
            unsafe fn load_2x64(address: *const u64) -> [u64; 2] {
                let (a, b);
                // SAFETY: the caller's contract (`load16`).
                unsafe {
                    asm!(
                        concat!("ld.global", $hint, ".v2.b64 {{{0}, {1}}}, [{2}];"),
                        out(reg64) a, out(reg64) b, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                [a, b]
            }
        }
    )*};
}

cache_hints! {
    /// Cached everywhere, the default.
    Cached = "";
    /// Read once: not kept in L1 (`L1::no_allocate`).
    Streaming = ".L1::no_allocate";
    /// Kept in L1 only until something else wants the line (`L1::evict_first`).
    EvictFirst = ".L1::evict_first";
}

/// Element types of which 16 bytes hold a whole number.
pub trait Lanes16: Word {
    /// As many elements as 16 bytes hold.
    type Lanes: AsRef<[Self]> + Copy;
    #[doc(hidden)]
    unsafe fn load<H: CacheHint>(address: *const Self) -> Self::Lanes;
}

macro_rules! lanes {
    ($load:ident, $bits:ty, $lanes:literal: $($ty:ty)*) => {$(
        impl Lanes16 for $ty {
            type Lanes = [$ty; $lanes];
            #[inline(always)]
            unsafe fn load<H: CacheHint>(address: *const Self) -> Self::Lanes {
                // SAFETY: the caller's contract (`load16`).
                unsafe { H::$load(address.cast::<$bits>()) }.map(<$ty as Word>::from_bits)
            }
        }
    )*};
}

lanes!(load_4x32, u32, 4: u32 i32 f32);
lanes!(load_2x64, u64, 2: u64 i64 f64);

/// Loads 16 bytes from global memory in one instruction.
///
/// # Safety
/// `address` must point to 16 readable bytes of global memory, be a multiple of 16, and no thread
/// may write them while this one could still read.
#[inline(always)]
pub unsafe fn load16<T: Lanes16, H: CacheHint>(address: *const T) -> T::Lanes {
    // SAFETY: the caller's contract.
    unsafe { T::load::<H>(address) }
}
