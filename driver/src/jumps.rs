//! Symbols of functions outside the typed table: for each a slot, a jump through the slot, and a
//! stand-in that fills the slot until a driver is bound.

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

/// The target of a trampoline. Always a function: a stand-in until `bind_others` replaces it.
#[repr(transparent)]
struct Slot(AtomicPtr<c_void>);

impl Slot {
    /// `Release` pairs with the trampolines' load: a thread that sees the driver's function also sees
    /// the dynamic linker's writes from loading the driver.
    fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Release);
    }
}

/// Jumps to the function in a slot and leaves registers and stack as the caller set them, so that one
/// form serves every signature. Only the scratch registers of the ABI are touched.
///
/// On x86-64 every load acquires. On AArch64 `ldar` does; x16 is one of the two registers that a linker
/// veneer may clobber between a call and its target, so callers keep nothing there.
///
/// The symbol is hidden, like the typed ones.
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

/// Defines slots, trampolines and rows for the list in `other_symbols.rs`.
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
                // SAFETY: a symbol of this name is declared as the driver's function. The jump's target
                // accepts the same call: it is the driver's function, or a stand-in that reads no
                // arguments.
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
