//! The `cu*` symbols: for each function a definition that calls the driver that is bound, or answers
//! that none is.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::api::Api;
use crate::driver::Driver;
use crate::error::DriverError;
use crate::for_each_function;
use crate::stand_in::stand_in;
use crate::sys::*;

/// What every entry point returns while no driver is bound: `CUDA_ERROR_NOT_INITIALIZED`.
pub const NOT_LOADED: c_int = CUDA_ERROR_NOT_INITIALIZED;

/// What an entry point returns that the bound driver does not have: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_PRESENT: c_int = CUDA_ERROR_NOT_FOUND;

/// One `cu*` symbol that this crate defines.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint {
    /// The name that the linker sees, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// Where the symbol is.
    pub address: *const c_void,
}

/// The `cu*` symbols that this crate defines: those of the table of typed functions, then all others
/// that cust can refer to.
pub fn entry_points() -> impl Iterator<Item = EntryPoint> {
    typed().chain(others())
}

/// The driver that the symbols are bound to. Held while they are bound, so that one thread does it,
/// once.
static BOUND: Mutex<Option<&'static Driver>> = Mutex::new(None);

impl Driver {
    /// Points the `cu*` symbols of this program at this driver's functions, until the process ends. To
    /// do it again for the same driver changes nothing.
    ///
    /// # Errors
    /// [`DriverError::AlreadyBound`], if they are bound to another driver.
    pub fn bind_symbols(&'static self) -> Result<(), DriverError> {
        // A thread that panicked in here has at most left some symbols bound; they are bound again.
        let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
        match *bound {
            Some(driver) if ptr::eq(driver, self) => Ok(()),
            Some(driver) => Err(DriverError::AlreadyBound {
                bound: driver.name().to_owned(),
                asked: self.name().to_owned(),
            }),
            None => {
                // SAFETY: whoever made the driver answers for its functions, and that they stay.
                unsafe { bind_others(|name| self.find(name)) };
                CURRENT.store(ptr::from_ref(self.api()).cast_mut(), Ordering::Release);
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

/// The functions that typed symbols call: those of [`UNBOUND`], then the bound driver's.
static CURRENT: AtomicPtr<Api> = AtomicPtr::new(ptr::from_ref(&UNBOUND).cast_mut());

fn current() -> &'static Api {
    // `Acquire` pairs with the store in `bind_symbols`: what was written while the driver was loaded is
    // seen by whoever sees its functions.
    // SAFETY: it points at `UNBOUND` or into a driver, which both stay and which nothing writes.
    unsafe { &*CURRENT.load(Ordering::Acquire) }
}

/// Hides a symbol, inside the function that it names: it is defined for the program or library that is
/// linked, and in no dynamic symbol table. Were it exported, calls inside `libcuda.so.1` could be bound
/// to it.
macro_rules! hide {
    ($name:ident) => {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        // SAFETY: this is a word to the assembler and no instruction.
        unsafe {
            std::arch::asm!(concat!(".hidden ", stringify!($name)), options(nomem, nostack))
        };
    };
}

macro_rules! define_symbols {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        /// What answers while no driver is bound.
        static UNBOUND: Api = Api { $($name: unbound::$name,)* };

        #[allow(non_snake_case, reason = "these are the names of C")]
        mod unbound {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    stand_in!($name($($argument),*) NOT_LOADED)
                }
            )*
        }

        #[allow(non_snake_case, reason = "these are the names of C")]
        mod definitions {
            use super::*;

            $(
                // SAFETY: a symbol of this name is declared as the driver's function, by cust_raw or
                // whoever else asked for the symbols. What answers here takes the same call.
                #[unsafe(no_mangle)]
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    hide!($name);
                    // SAFETY: the caller keeps the contract of the driver's function of this name, which
                    // is the one that is called.
                    reported(unsafe { (current().$name)($($argument),*) })
                }
            )*
        }

        fn typed() -> impl Iterator<Item = EntryPoint> {
            let symbols = [$((stringify!($name), definitions::$name as *const c_void)),*];
            symbols.into_iter().map(|(name, address)| EntryPoint { name, address })
        }
    };
}

for_each_function!(define_symbols);

thread_local! {
    /// The last code of a typed symbol on this thread that cust has no error for.
    static UNNAMED: Cell<c_int> = const { Cell::new(CUDA_SUCCESS) };
}

/// What a typed symbol returns for a code of the driver's: the code itself, if cust's enum can hold it.
/// A number that is no variant of an enum is undefined behaviour in Rust, so that another stands for it.
fn reported(code: c_int) -> c_int {
    if code == CUDA_SUCCESS || cust_names(code) {
        return code;
    }
    UNNAMED.set(code);
    if cust_holds(code) { code } else { CUDA_ERROR_UNKNOWN }
}

/// Whether `cust::error::CudaError` has a variant for an error, other than `UnknownError`.
fn cust_names(code: c_int) -> bool {
    matches!(
        code,
        1..=8
            | 100..=101
            | 200..=202
            | 205..=220
            | 300..=304
            | 400
            | 500
            | 600
            | 700..=705
            | 708..=719
            | 800..=801
    )
}

/// Whether `cust::sys::CUresult`, which ends at CUDA 11.5, has a variant for an error that `CudaError`
/// does not name.
fn cust_holds(code: c_int) -> bool {
    matches!(code, 34 | 102 | 221..=224 | 401 | 720 | 802..=809 | 900..=911 | 999)
}

/// The true code behind the last `CUDA_ERROR_UNKNOWN`, or `UnknownError` of cust's, that a typed symbol
/// brought about on this thread; `CUDA_ERROR_UNKNOWN` if there was none since this was last asked.
pub fn take_unnamed_code() -> c_int {
    match UNNAMED.take() {
        CUDA_SUCCESS => CUDA_ERROR_UNKNOWN,
        code => code,
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use others::{bind_others, others};

/// Entry points without a type, each of which is a jump.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "jumps.rs"]
mod others;

// Elsewhere nothing can be built that refers to them: cust_raw's build script finds no CUDA there.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn others() -> impl Iterator<Item = EntryPoint> {
    std::iter::empty()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn bind_others(_: impl Fn(&str) -> Option<ptr::NonNull<c_void>>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_no_enum_of_cust_holds_is_replaced_and_kept() {
        for code in [46, 226, 402, 912, 4242, -1] {
            assert_eq!(reported(code), CUDA_ERROR_UNKNOWN);
            assert_eq!(take_unnamed_code(), code);
        }
        for code in [34, 222, 720, 803, 901] {
            assert_eq!(reported(code), code);
            assert_eq!(take_unnamed_code(), code);
        }
        for code in [0, 1, 2, 3, 100, 700, 719, 801] {
            assert_eq!(reported(code), code);
            assert_eq!(take_unnamed_code(), CUDA_ERROR_UNKNOWN, "there was none");
        }
    }
}
