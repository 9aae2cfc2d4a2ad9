//! `libcuda.so.1` without a GPU: exports the simulator's driver to programs that link against CUDA's
//! driver or open it.
//!
//! ```text
//! cargo build --release --manifest-path sim/libcuda/Cargo.toml
//! mkdir -p lib && cp sim/libcuda/target/release/libcuda.so lib/libcuda.so.1
//! LD_LIBRARY_PATH=$PWD/lib the-program
//! ```
//!
//! Functions that `warpfold_sim_driver` does not simulate return `CUDA_ERROR_NOT_SUPPORTED`. Functions
//! that `warpfold_driver` does not declare do so as well, and report the call on stderr.
//! `cuGetProcAddress_v2` finds all of them.

// Printing macros panic if standard output or error is closed or full.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod absent;
mod watching;

use std::sync::LazyLock;

use warpfold_driver::sys::*;
use warpfold_driver::{Api, for_each_function};
use warpfold_sim_driver::{driver, find_absent, set_frees_wait, with_default_of_thread};

macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, simulated.")]
        ///
        /// # Safety
        /// The contract of the driver's function of this name.
        // SAFETY: name and type are those of the driver's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the caller keeps the contract of the driver's function.
            unsafe { (api().$name)($($argument),*) }
        }

        export_per_thread!([$($per_thread)?] $name($($argument: $kind),*));
    )*};
}

/// Exports the form of a function for which stream 0 is the calling thread's default stream, if there is
/// one.
macro_rules! export_per_thread {
    ([] $($function:tt)*) => {};
    ([$per_thread:ident] $name:ident($($argument:ident: $kind:ty),*)) => {
        #[doc = concat!("`", stringify!($per_thread), "`, simulated.")]
        ///
        /// # Safety
        /// The contract of the driver's function of this name.
        // SAFETY: name and type are those of the driver's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $per_thread($($argument: $kind),*) -> c_int {
            // SAFETY: the caller keeps the contract of the driver's function.
            with_default_of_thread(|| unsafe { (api().$name)($($argument),*) })
        }
    };
}

/// Returns the simulated driver's functions. The first call applies the environment's settings, and
/// makes frees wait for pending work, as programs for NVIDIA's driver expect.
fn api() -> &'static Api {
    static API: LazyLock<&Api> = LazyLock::new(|| {
        set_frees_wait(true);
        find_absent(absent::find);
        watching::begin();
        driver().api()
    });
    &API
}

for_each_function!(export);
