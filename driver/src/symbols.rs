//! Definitions of the `cu*` symbols. Each calls the bound driver, or fails while none is bound.

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

/// The result of every entry point while no driver is bound: `CUDA_ERROR_NOT_INITIALIZED`.
pub const NOT_LOADED: c_int = CUDA_ERROR_NOT_INITIALIZED;

/// The result of an entry point that the bound driver lacks: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_PRESENT: c_int = CUDA_ERROR_NOT_FOUND;

/// One `cu*` symbol that this crate defines.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint {
    /// The name that the linker sees, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// The address of the symbol.
    pub address: *const c_void,
}

/// Returns the `cu*` symbols that this crate defines: those of the functions in [`Api`], then all others
/// that cust can refer to.
pub fn entry_points() -> impl Iterator<Item = EntryPoint> {
    typed().chain(others())
}

/// The driver that the symbols are bound to. Locked during binding, so that the symbols are bound once.
static BOUND: Mutex<Option<&'static Driver>> = Mutex::new(None);

impl Driver {
    /// Binds the `cu*` symbols of this program to this driver until the process ends. Binding the same
    /// driver again has no effect.
    ///
    /// # Errors
    /// Returns [`DriverError::AlreadyBound`] if the symbols are bound to another driver.
    pub fn bind_symbols(&'static self) -> Result<(), DriverError> {
        // A panic in this function leaves at most some symbols bound, and the next call binds them
        // again, so poisoning is ignored.
        let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
        match *bound {
            Some(driver) if ptr::eq(driver, self) => Ok(()),
            Some(driver) => Err(DriverError::AlreadyBound {
                bound: driver.name().to_owned(),
                asked: self.name().to_owned(),
            }),
            None => {
                // SAFETY: the creator of the driver guarantees that its functions are valid and never
                // unloaded.
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
/// Returns the errors of [`Driver::load`] and [`Driver::bind_symbols`]. After an error nothing is bound,
/// and the call may be repeated.
pub fn load() -> Result<&'static Driver, DriverError> {
    let driver = Driver::load()?;
    driver.bind_symbols()?;
    Ok(driver)
}

/// Returns the driver that the symbols are bound to, if any. Never opens a library.
pub fn loaded() -> Option<&'static Driver> {
    *BOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions that the symbols in `definitions` call: those of [`UNBOUND`] until a driver is bound.
static CURRENT: AtomicPtr<Api> = AtomicPtr::new(ptr::from_ref(&UNBOUND).cast_mut());

fn current() -> &'static Api {
    // `Acquire` pairs with the store in `bind_symbols`, so that a thread that sees the driver's
    // functions also sees the writes from loading it.
    // SAFETY: the pointer is to `UNBOUND` or into a driver; neither is ever freed or written.
    unsafe { &*CURRENT.load(Ordering::Acquire) }
}

/// Gives the symbol of the enclosing function hidden visibility: it is defined in the program or
/// library, but not exported. If it were exported, calls inside `libcuda.so.1` could bind to it.
macro_rules! hide {
    ($name:ident) => {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        // SAFETY: the text is an assembler directive, not an instruction.
        unsafe {
            std::arch::asm!(concat!(".hidden ", stringify!($name)), options(nomem, nostack))
        };
    };
}

macro_rules! define_symbols {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
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
                // SAFETY: users of a symbol of this name, such as cust_raw, declare it as the driver's
                // function. This definition has the same signature.
                #[unsafe(no_mangle)]
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    hide!($name);
                    // SAFETY: the caller keeps the contract of the driver's function of this name. The
                    // call goes to that function, or to a stand-in that also allows these arguments.
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
    /// The last code on this thread that [`reported`] has received and `CudaError` does not name.
    static UNNAMED: Cell<c_int> = const { Cell::new(CUDA_SUCCESS) };
}

/// Returns the code if cust's result enum has a variant for it, otherwise `CUDA_ERROR_UNKNOWN`: an enum
/// value without a variant would be undefined behaviour in Rust.
fn reported(code: c_int) -> c_int {
    if code == CUDA_SUCCESS || cust_names(code) {
        return code;
    }
    UNNAMED.set(code);
    if cust_holds(code) { code } else { CUDA_ERROR_UNKNOWN }
}

/// Returns whether `cust::error::CudaError` has a variant for an error, other than `UnknownError`.
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

/// Returns whether `cust::sys::CUresult`, which ends at CUDA 11.5, has a variant for an error that
/// `CudaError` does not name.
fn cust_holds(code: c_int) -> bool {
    matches!(code, 34 | 102 | 221..=224 | 401 | 720 | 802..=809 | 900..=911 | 999)
}

/// Returns the driver's code for the last `CUDA_ERROR_UNKNOWN` or `CudaError::UnknownError` that a
/// function in [`Api`] caused on this thread, but only once; after that, returns `CUDA_ERROR_UNKNOWN`.
pub fn take_unnamed_code() -> c_int {
    match UNNAMED.take() {
        CUDA_SUCCESS => CUDA_ERROR_UNKNOWN,
        code => code,
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use others::{bind_others, others};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "jumps.rs"]
mod others;

// On other targets the crate defines only the symbols of `Api`: cust_raw's build script finds no CUDA
// there, so nothing refers to the others.

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
    fn code_without_a_cust_variant_is_replaced_and_kept() {
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
