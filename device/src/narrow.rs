//! Arithmetic on elements of one and two bytes, packed in 32-bit words.

use core::arch::asm;

macro_rules! dot_products {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $instruction:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name(a: u32, b: u32, sum: $ty) -> $ty {
            let result;
            // SAFETY: the instruction only computes on registers.
            unsafe {
                asm!(
                    concat!($instruction, " {0}, {1}, {2}, {3};"),
                    out(reg32) result, in(reg32) a, in(reg32) b, in(reg32) sum,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            result
        }
    )*};
}

dot_products! {
    /// Returns `sum` plus the dot product of the words' four signed bytes, in one instruction.
    dot_i8: i32 = "dp4a.s32.s32";
    /// Returns `sum` plus the dot product of the words' four unsigned bytes, in one instruction.
    dot_u8: u32 = "dp4a.u32.u32";
}

/// Converts the two half-precision numbers of a word to `f32`, exactly; the lower half is first.
#[inline(always)]
pub fn widen_f16x2(word: u32) -> [f32; 2] {
    let (low, high);
    // SAFETY: the instruction only computes on registers.
    unsafe {
        asm!(
            "{{",
            ".reg .b16 low, high;",
            "mov.b32 {{low, high}}, {2};",
            "cvt.f32.f16 {0}, low;",
            "cvt.f32.f16 {1}, high;",
            "}}",
            out(reg32) low, out(reg32) high, in(reg32) word,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// Returns the bits of the nearest IEEE half-precision number.
#[inline(always)]
pub fn narrow_f16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: the instruction only computes on registers.
    unsafe {
        asm!(
            "cvt.rn.f16.f32 {0}, {1};",
            out(reg16) bits, in(reg32) value,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    bits
}
