//! `libcuda.so.1` without a GPU: exports the simulator's driver to programs that are linked against
//! CUDA's or open it.
//!
//! ```text
//! cargo build --release --manifest-path sim/libcuda/Cargo.toml
//! mkdir -p lib && cp sim/libcuda/target/release/libcuda.so lib/libcuda.so.1
//! LD_LIBRARY_PATH=$PWD/lib the-program
//! ```
//!
//! What `warpfold_sim_driver` does not simulate answers `CUDA_ERROR_NOT_SUPPORTED`, and so does each
//! function of CUDA 13.0 that is not in its table: these say on stderr that they were called.
//! `cuGetProcAddress_v2` finds what is in the table.

// Standard output and error may be closed or full, which is no reason to panic.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod absent;
mod watching;

use std::sync::LazyLock;

use warpfold_driver::sys::*;
use warpfold_driver::{Api, for_each_function};
use warpfold_sim_driver::{driver, set_frees_wait};

macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, simulated.")]
        ///
        /// # Safety
        /// That of the driver's function.
        // SAFETY: the name is that of the driver's function, and so is the type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the caller keeps the contract of the driver's function.
            unsafe { (api().$name)($($argument),*) }
        }
    )*};
}

/// The simulated driver's functions, set up for programs that were made for NVIDIA's.
fn api() -> &'static Api {
    static API: LazyLock<&Api> = LazyLock::new(|| {
        set_frees_wait(true);
        watching::begin();
        driver().api()
    });
    &API
}

for_each_function!(export);
