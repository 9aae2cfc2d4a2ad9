//! The place in a kernel where the host inserts an expression of elements.

use core::arch::asm;

use crate::op::Number;

/// A number that an expression maps to another one of the same type.
pub trait Mapped: Number {
    /// Returns the number unchanged, by a block of one `mov` that declares the predicate `expression`.
    /// The host replaces such blocks in the PTX.
    fn mapped(self) -> Self;
}

macro_rules! mapped {
    ($($ty:ty: $register:ident $mov:literal;)*) => {$(
        impl Mapped for $ty {
            #[inline(always)]
            fn mapped(self) -> Self {
                let mapped;
                // SAFETY: the instruction only copies a register; those of an expression only compute on
                // registers.
                unsafe {
                    asm!(
                        concat!("{{ .reg .pred expression; ", $mov, " {0}, {1}; }}"),
                        out($register) mapped, in($register) self,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                mapped
            }
        }
    )*};
}

mapped! {
    f32: reg32 "mov.b32";
    f64: reg64 "mov.b64";
    i64: reg64 "mov.b64";
    u64: reg64 "mov.b64";
}
