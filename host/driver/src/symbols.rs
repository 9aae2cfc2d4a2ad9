//! The `cu*` symbols: for each line of the table a slot, a jump through it, and a fallback.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What every entry point returns while no driver is loaded: `CUDA_ERROR_NOT_INITIALIZED`.
pub const NOT_LOADED: c_int = 3;

/// What an entry point returns that the loaded driver does not have: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_PRESENT: c_int = 500;

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;

/// One `cu*` symbol that this crate defines.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint {
    /// The name that the linker sees, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// The function of that name: a jump to the driver's, or to the fallback. It takes and returns
    /// what the driver's function does, so cast it to that type before calling it.
    pub trampoline: unsafe extern "C" fn(),
}

/// The `cu*` symbols that this crate defines, in the order of `cuda.h`.
pub fn entry_points() -> impl ExactSizeIterator<Item = EntryPoint> {
    ROWS.iter().map(|row| EntryPoint { name: row.name, trampoline: row.trampoline })
}

/// Points every slot at what `find` returns for its name, and returns the names it has nothing for.
///
/// # Safety
/// What `find` returns for a name must be the CUDA driver's function of that name, and must stay
/// loaded until the process ends.
pub(crate) unsafe fn bind(find: impl Fn(&str) -> Option<NonNull<c_void>>) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for row in ROWS {
        match find(row.name) {
            Some(function) => row.slot.set(function.as_ptr()),
            None => {
                row.slot.set(row.when_missing);
                missing.push(row.name);
            }
        }
    }
    missing
}

/// Where a trampoline jumps to. Always a function: the fallback first, then what `bind` puts there.
#[repr(transparent)]
struct Slot(AtomicPtr<c_void>);

impl Slot {
    /// `Release`, to pair with the trampolines' load: what the dynamic linker wrote while it loaded
    /// the driver is seen by whoever sees the driver's function.
    fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Release);
    }
}

struct Row {
    name: &'static str,
    slot: &'static Slot,
    trampoline: unsafe extern "C" fn(),
    when_missing: *mut c_void,
}

// SAFETY: the only field that is not `Sync` by itself is `when_missing`, the address of a function
// of this program; it is never written and nothing is read through it.
unsafe impl Sync for Row {}

/// Jumps to the function in a slot and leaves registers and stack as the caller set them, so that
/// one form serves every signature. Only the scratch registers of the ABI are touched.
///
/// On x86-64 every load acquires. On AArch64 `ldar` does; x16 is one of the two registers that a
/// linker's veneer may clobber between a call and its target, so no caller keeps anything there.
///
/// The symbol is hidden: defined for the program or library that is linked, and in no dynamic symbol
/// table. Were it exported, calls inside `libcuda.so.1` could be bound to it.
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

/// The fallback while nothing is loaded.
macro_rules! before {
    () => {
        not_loaded as *mut c_void
    };
    ($fallback:ident) => {
        $fallback as *mut c_void
    };
}

/// The fallback once a driver is loaded that does not have the symbol.
macro_rules! absent {
    () => {
        not_present as *mut c_void
    };
    ($fallback:ident) => {
        $fallback as *mut c_void
    };
}

/// Makes slots, trampolines and rows of the table in `table.rs`.
macro_rules! symbols {
    ($($name:ident $(=> $fallback:ident)?,)*) => {
        #[allow(non_upper_case_globals)]
        mod slots {
            use super::*;

            $(pub(super) static $name: Slot = Slot(AtomicPtr::new(before!($($fallback)?)));)*
        }

        #[allow(non_snake_case)]
        mod trampolines {
            use super::slots;

            $(
                // SAFETY: a symbol of this name is declared by cust_raw alone, as the driver's
                // function. What answers here takes the same call: the driver's function, or a
                // fallback that reads no arguments it was not declared with.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn $name() {
                    jump_through!($name, slots::$name)
                }
            )*
        }

        static ROWS: &[Row] = &[$(
            Row {
                name: stringify!($name),
                slot: &slots::$name,
                trampoline: trampolines::$name,
                when_missing: absent!($($fallback)?),
            },
        )*];
    };
}

include!("table.rs");

// These two declare no parameters, whatever the function that they stand for takes. In both calling
// conventions (System V x86-64 and AAPCS64) the caller places the arguments and removes them, so a
// function that reads none is a valid target of a call with any.

extern "C" fn not_loaded() -> c_int {
    NOT_LOADED
}

extern "C" fn not_present() -> c_int {
    NOT_PRESENT
}

/// `cuGetErrorString`: unlike the driver's it has a text for every code, because cust dereferences
/// the pointer without looking.
unsafe extern "C" fn error_string(code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller keeps the contract of cuGetErrorString, which is that of `answer`.
    unsafe { answer(text, describe(code).1) }
}

/// `cuGetErrorName`.
unsafe extern "C" fn error_name(code: c_int, name: *mut *const c_char) -> c_int {
    // SAFETY: the caller keeps the contract of cuGetErrorName, which is that of `answer`.
    unsafe { answer(name, describe(code).0) }
}

/// # Safety
/// `out` is null or valid for writing a pointer.
unsafe fn answer(out: *mut *const c_char, text: &'static CStr) -> c_int {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so by this function's contract it may be written.
    unsafe { out.write(text.as_ptr()) };
    SUCCESS
}

/// Name and description of the codes that come from here.
fn describe(code: c_int) -> (&'static CStr, &'static CStr) {
    match code {
        SUCCESS => (c"CUDA_SUCCESS", c"no error"),
        INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        NOT_LOADED => (c"CUDA_ERROR_NOT_INITIALIZED", c"no CUDA driver is loaded"),
        NOT_PRESENT => (c"CUDA_ERROR_NOT_FOUND", c"the CUDA driver does not have this function"),
        _ => (c"CUDA_ERROR_UNKNOWN", c"unknown error (no CUDA driver is loaded to describe it)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text() {
        for code in [0, 1, 3, 34, 100, 500, 999, 100_100, -1] {
            let mut text = std::ptr::null();
            // SAFETY: `text` is a local variable of the type that the function writes.
            assert_eq!(unsafe { error_string(code, &mut text) }, SUCCESS);
            assert!(!text.is_null());
            // SAFETY: as above.
            assert_eq!(unsafe { error_name(code, &mut text) }, SUCCESS);
            assert!(!text.is_null());
        }
    }

    #[test]
    fn nowhere_to_write_is_an_error() {
        // SAFETY: null is allowed.
        let code = unsafe { error_string(0, std::ptr::null_mut()) };
        assert_eq!(code, INVALID_VALUE);
    }
}
