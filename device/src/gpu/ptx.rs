//! Instructions in PTX, for both code generators.

use core::arch::asm;

/// Integers that `ld.shared` and `st.shared` access. Addresses are offsets in the block's shared window
/// or, for the `…_cluster` functions, in the cluster's shared window.
pub trait SharedBits: Copy {
    unsafe fn load(address: u32) -> Self;
    unsafe fn store(self, address: u32);
    unsafe fn load_cluster(address: u32) -> Self;
    unsafe fn store_cluster(self, address: u32);
}

macro_rules! shared_bits {
    ($($ty:ty: $class:ident, $suffix:literal;)*) => {$(
        impl SharedBits for $ty {
            shared_bits!(@access load, store: $class, ".shared.", $suffix);
            shared_bits!(@access load_cluster, store_cluster: $class, ".shared::cluster.", $suffix);
        }
    )*};
    (@access $load:ident, $store:ident: $class:ident, $space:literal, $suffix:literal) => {
        #[inline(always)]
        unsafe fn $load(address: u32) -> Self {
            let value;
            // `readonly` but not `pure`: the value changes at every barrier.
            // SAFETY: the element is readable, as callers of `Shared::get` and `Remote::get` guarantee.
            unsafe {
                asm!(
                    concat!("ld", $space, $suffix, " {0}, [{1}];"),
                    out($class) value, in(reg32) address,
                    options(readonly, nostack, preserves_flags),
                );
            }
            value
        }

        #[inline(always)]
        unsafe fn $store(self, address: u32) {
            // SAFETY: the element is writable, as callers of `Shared::set` and `Remote::set` guarantee.
            unsafe {
                asm!(
                    concat!("st", $space, $suffix, " [{0}], {1};"),
                    in(reg32) address, in($class) self,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

shared_bits! {
    u32: reg32, "b32";
    u64: reg64, "b64";
}
