//! Symbols of driver functions that are not in [`Api`](crate::Api). Each symbol is a trampoline: it
//! jumps to an address that is stored in a slot. Until a driver is bound, that is a stand-in's address.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{EntryPoint, NOT_LOADED, NOT_PRESENT};

/// Points every slot at the function that `find` returns, or at a stand-in if there is none.
///
/// # Safety
/// Each function that `find` returns must be the CUDA driver's function of that name, and must stay
/// loaded until the process ends.
pub(super) unsafe fn bind_others(find: impl Fn(&str) -> Option<NonNull<c_void>>) {
    for &(name, slot, _) in ROWS {
        slot.set(find(name).map_or(not_present as *mut c_void, NonNull::as_ptr));
    }
}

pub(super) fn others() -> impl Iterator<Item = EntryPoint> {
    ROWS.iter().map(|&(name, _, trampoline)| EntryPoint { name, address: trampoline as *const c_void })
}

/// The address that a trampoline jumps to: that of a stand-in until `bind_others` replaces it.
#[repr(transparent)]
struct Slot(AtomicPtr<c_void>);

impl Slot {
    /// Stores with `Release` ordering, which pairs with the trampolines' load: a thread that sees the
    /// driver's function also sees the dynamic linker's writes from loading the driver.
    fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Release);
    }
}

/// Jumps to the function in a slot. Argument registers and stack stay as the caller set them, so that
/// the same code works for every signature. Only scratch registers of the ABI are changed.
///
/// The load has acquire ordering: on x86-64 every load has it, on AArch64 `ldar` has it. `x16` is one of
/// the two registers that the AArch64 ABI lets a linker veneer overwrite before a call reaches its
/// target, so callers keep nothing in it.
///
/// The symbol is hidden, like the symbols of the functions in [`Api`](crate::Api).
macro_rules! jump_through {
    ($name:ident, $slot:path) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "jmp qword ptr [rip + {slot}]",
            slot = sym $slot,
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "adrp x16, {slot}",
            "add x16, x16, :lo12:{slot}",
            "ldar x16, [x16]",
            "br x16",
            slot = sym $slot,
        );
    }};
}

/// Defines a slot, a trampoline and a row of `ROWS` for each name in `other_symbols.rs`.
macro_rules! other_symbols {
    ($($name:ident,)*) => {
        #[allow(non_upper_case_globals, reason = "these are the names of C")]
        mod slots {
            use super::*;

            $(pub(super) static $name: Slot = Slot(AtomicPtr::new(not_loaded as *mut c_void));)*
        }

        #[allow(non_snake_case, reason = "these are the names of C")]
        mod trampolines {
            use super::slots;

            $(
                // SAFETY: users of a symbol of this name declare it as the driver's function. The jump's
                // target accepts the same call: it is that function, or one that reads no argument.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn $name() {
                    jump_through!($name, slots::$name)
                }
            )*
        }

        static ROWS: &[(&str, &Slot, unsafe extern "C" fn())] =
            &[$((stringify!($name), &slots::$name, trampolines::$name),)*];
    };
}

include!("other_symbols.rs");

// The stand-ins declare no parameters, whatever the real function takes. In both calling conventions
// (System V x86-64 and AAPCS64) the caller places and removes the arguments, so a function that reads
// none is a valid target for any signature.

extern "C" fn not_loaded() -> c_int {
    NOT_LOADED
}

extern "C" fn not_present() -> c_int {
    NOT_PRESENT
}
