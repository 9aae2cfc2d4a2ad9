//! The `cu*` symbols: for each line of the table a slot, a jump through it, and a fallback.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::driver::Driver;
use crate::error::DriverError;
use crate::sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_INITIALIZED, CUDA_SUCCESS, Code,
};

/// What every entry point returns while no driver is loaded: `CUDA_ERROR_NOT_INITIALIZED`.
pub const NOT_LOADED: c_int = CUDA_ERROR_NOT_INITIALIZED;

/// What an entry point returns that the loaded driver does not have: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_PRESENT: c_int = CUDA_ERROR_NOT_FOUND;

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

/// The driver that the symbols are bound to. Held while slots are filled, so that one thread does it,
/// once.
static BOUND: Mutex<Option<&'static Driver>> = Mutex::new(None);

impl Driver {
    /// Points the `cu*` symbols of this program at this driver's functions, until the process ends. To
    /// do it again for the same driver changes nothing.
    ///
    /// # Errors
    /// [`DriverError::AlreadyBound`], if they are bound to another driver.
    pub fn bind_symbols(&'static self) -> Result<(), DriverError> {
        // A thread that panicked in here has at most left some slots bound; they are bound again.
        let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
        match *bound {
            Some(driver) if ptr::eq(driver, self) => Ok(()),
            Some(driver) => Err(DriverError::AlreadyBound {
                bound: driver.name().to_owned(),
                asked: self.name().to_owned(),
            }),
            None => {
                // SAFETY: whoever made the driver answers for its functions, and that they stay.
                unsafe { bind(|name| self.find(name)) };
                *bound = Some(self);
                Ok(())
            }
        }
    }
}

/// Loads the CUDA driver of this machine ([`Driver::load`]) and binds the symbols to it.
///
/// # Errors
/// As [`Driver::load`] and [`Driver::bind_symbols`]. Neither binds anything, and another attempt may
/// follow.
pub fn load() -> Result<&'static Driver, DriverError> {
    let driver = Driver::load()?;
    driver.bind_symbols()?;
    Ok(driver)
}

/// The driver that the symbols are bound to, if they are. Never opens anything.
pub fn loaded() -> Option<&'static Driver> {
    *BOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Points every slot at what `find` returns for its name; where that is nothing, at what answers so.
///
/// # Safety
/// What `find` returns for a name must be the CUDA driver's function of that name, and must stay
/// loaded until the process ends.
unsafe fn bind(find: impl Fn(&str) -> Option<NonNull<c_void>>) {
    for row in ROWS {
        row.slot.set(find(row.name).map_or(row.when_missing, NonNull::as_ptr));
    }
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
        return CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so by this function's contract it may be written.
    unsafe { out.write(text.as_ptr()) };
    CUDA_SUCCESS
}

/// Name and description of a code: those that come from here in words that say so.
fn describe(code: c_int) -> (&'static CStr, &'static CStr) {
    match (code, Code::of(code)) {
        (NOT_LOADED, Some(known)) => (known.c_name(), c"no CUDA driver is loaded"),
        (NOT_PRESENT, Some(known)) => (known.c_name(), c"the CUDA driver does not have this function"),
        (_, Some(known)) => (known.c_name(), known.c_text()),
        (_, None) => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text() {
        for code in [0, 1, 3, 34, 100, 500, 999, 100_100, -1] {
            let mut text = ptr::null();
            // SAFETY: `text` is a local variable of the type that the function writes.
            assert_eq!(unsafe { error_string(code, &mut text) }, CUDA_SUCCESS);
            assert!(!text.is_null());
            // SAFETY: as above.
            assert_eq!(unsafe { error_name(code, &mut text) }, CUDA_SUCCESS);
            assert!(!text.is_null());
        }
    }

    #[test]
    fn nowhere_to_write_is_an_error() {
        // SAFETY: null is allowed.
        let code = unsafe { error_string(0, ptr::null_mut()) };
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    }
}
