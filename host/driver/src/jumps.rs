//! Symbols of functions that the table of types does not have: for each a slot, a jump through it, and
//! what stands in the slot while nothing else does.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{EntryPoint, NOT_LOADED, NOT_PRESENT};

/// Points every slot at what `find` returns for its name; where that is nothing, at what answers so.
///
/// # Safety
/// What `find` returns for a name must be the CUDA driver's function of that name, and must stay loaded
/// until the process ends.
pub(super) unsafe fn bind_others(find: impl Fn(&str) -> Option<NonNull<c_void>>) {
    for &(name, slot, _) in ROWS {
        slot.set(find(name).map_or(not_present as *mut c_void, NonNull::as_ptr));
    }
}

pub(super) fn others() -> impl Iterator<Item = EntryPoint> {
    ROWS.iter().map(|&(name, _, trampoline)| EntryPoint { name, address: trampoline as *const c_void })
}

/// Where a trampoline jumps to. Always a function: the stand-in first, then what `bind_others` puts
/// there.
#[repr(transparent)]
struct Slot(AtomicPtr<c_void>);

impl Slot {
    /// `Release`, to pair with the trampolines' load: what the dynamic linker wrote while it loaded the
    /// driver is seen by whoever sees the driver's function.
    fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Release);
    }
}

/// Jumps to the function in a slot and leaves registers and stack as the caller set them, so that one
/// form serves every signature. Only the scratch registers of the ABI are touched.
///
/// On x86-64 every load acquires. On AArch64 `ldar` does; x16 is one of the two registers that a
/// linker's veneer may clobber between a call and its target, so no caller keeps anything there.
///
/// The symbol is hidden, as the typed ones are.
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

/// Makes slots, trampolines and rows of the list in `other_symbols.rs`.
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
                // SAFETY: a symbol of this name is declared as the driver's function. What answers here
                // takes the same call: the driver's function, or one that reads no arguments.
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

// These two declare no parameters, whatever the function that they stand for takes. In both calling
// conventions (System V x86-64 and AAPCS64) the caller places the arguments and removes them, so a
// function that reads none is a valid target of a jump with any.

extern "C" fn not_loaded() -> c_int {
    NOT_LOADED
}

extern "C" fn not_present() -> c_int {
    NOT_PRESENT
}
