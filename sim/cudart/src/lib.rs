//! `libcudart.so.13`: CUDA's runtime interface over the documented interface of any CUDA driver. With
//! the simulator's `libcuda.so.1` beside it, programs that nvcc has built with `-cudart shared` and PTX
//! (`-arch=compute_90`) run unmodified without a GPU.
//!
//! Unlike NVIDIA's runtime, it needs no private tables of the driver (`cuGetExportTable`), so that it
//! also runs over drivers that lack them. Programs that contain NVIDIA's runtime, as nvcc links it
//! without `-cudart shared`, do not use this library; the simulator's driver has the tables for them.
//!
//! Unsupported functions return `cudaErrorNotSupported` and report that on stderr, in one line and once.
// Printing macros panic if standard output or error is closed or full.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![allow(non_snake_case, reason = "these are the names of C")]
#![allow(clippy::too_many_arguments, reason = "they are those of C")]
#![allow(unreachable_pub, reason = "C code finds them by their names")]

mod absent;
mod array;
mod device;
mod errors;
mod graph;
mod graph_nodes;
mod launch;
mod memory;
mod pool;
mod registry;
mod runtime;
mod stream;
mod texture;
mod types;

/// Defines functions of the runtime. Each returns a code; an error code becomes the thread's last error.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, as the runtime's manual says.")]
        ///
        /// # Safety
        /// The contract of the runtime's function of this name.
        // SAFETY: name and type are those of the runtime's function.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some do nothing that is unsafe")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
            unsafe fn body($($argument: $kind),*) -> $crate::errors::Outcome {
                // SAFETY: the caller keeps the contract of the runtime's function: each pointer is null,
                // or valid for the reads and writes that CUDA's manual states. The driver's functions
                // get these arguments, or values that the driver returned, and so their contracts hold.
                unsafe { $body }
            }
            // SAFETY: `body` has the contract of the runtime's function, which the caller keeps.
            let done = unsafe { body($($argument),*) };
            $crate::errors::noted(done)
        }
    )*};
}
pub(crate) use functions;
