//! `libcuda.so.1` without a GPU: exports the simulator's driver to programs that are linked against
//! CUDA's or open it.
//!
//! ```text
//! cargo build --release --manifest-path sim/libcuda/Cargo.toml
//! mkdir -p lib && cp sim/libcuda/target/release/libcuda.so lib/libcuda.so.1
//! LD_LIBRARY_PATH=$PWD/lib the-program
//! ```
//!
//! What `warpfold_sim_driver` does not simulate answers `CUDA_ERROR_NOT_SUPPORTED`; a function that is
//! not in the driver's table is not exported. `cuGetProcAddress_v2` finds all that is.

use warpfold_driver::for_each_function;
use warpfold_driver::sys::*;
use warpfold_sim_driver::driver;

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
            unsafe { (driver().api().$name)($($argument),*) }
        }
    )*};
}

for_each_function!(export);
