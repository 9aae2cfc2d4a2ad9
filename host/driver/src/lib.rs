//! The CUDA driver, bound while the program runs.
//!
//! [`cust`] is linked against `libcuda` in the ordinary way: it needs that library when a program is
//! built, and the program does not start where it is missing. This crate takes its place. It defines
//! every `cu*` symbol that `cust` and `cust::sys` can refer to as a jump through a slot, and
//! [`load`] fills the slots from the `libcuda.so.1` that it opens. So the same executable is built
//! on a machine without a CUDA toolkit, starts on one without a driver, and drives a GPU where there
//! is one.
//!
//! ```
//! use warpfold_driver::cust;
//!
//! match warpfold_driver::load() {
//!     Ok(driver) => {
//!         let (major, minor) = driver.version();
//!         println!("CUDA {major}.{minor} from {}", driver.name());
//!         if let Err(error) = cust::init(cust::CudaFlags::empty()) {
//!             println!("the driver does not start: {error}");
//!         }
//!     }
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! # Order of calls
//! 1. [`load`], once, before anything of `cust`. Later calls return the same [`Driver`].
//! 2. `cust::init`.
//! 3. `cust::device::Device::get_device`, then `cust::context::Context::new`, which retains the
//!    device's primary context and makes it current on the calling thread, on that one only. Every
//!    other thread calls `cust::context::CurrentContext::set_current(&context)` before its first
//!    CUDA call. The context must outlive all that was made in it.
//!
//! # Without a driver
//! Each slot starts at a fallback, so a call made before [`load`], or after it has failed, is safe
//! and returns `CUDA_ERROR_NOT_INITIALIZED` ([`NOT_LOADED`]; `cust` has no variant for
//! `CUDA_ERROR_STUB_LIBRARY` and would report an unknown error). An entry point that the loaded
//! driver does not have returns `CUDA_ERROR_NOT_FOUND` ([`NOT_PRESENT`]). `cuGetErrorString` and
//! `cuGetErrorName` always answer, because the `Display` of `cust::error::CudaError` relies on it.
//!
//! # Building
//! The build script of `cust` looks for a CUDA library folder. `.cargo/config.toml` points
//! `CUDA_LIBRARY_PATH` at `host/driver/link`, whose `lib64/libcuda.so` is an empty linker script.
//! Pointing the variable at a real toolkit does no harm: the symbols are defined here all the same,
//! and the program still has no need of `libcuda.so.1` to start.
//!
//! # Reaching cust
//! Use `cust` through the re-export here and depend on it nowhere else. That puts this crate in the
//! link of every program that uses `cust`; rustc then keeps its exported symbols.
//!
//! # A limit of cust
//! `cust::sys` types every result as an enum with the codes of CUDA 11, and a code outside that list
//! (`CUDA_ERROR_DEVICE_UNAVAILABLE`, 46, say) is undefined behaviour there. The calls that [`Driver`]
//! offers take the code as an integer and have no such limit; prefer [`Driver::symbol`] and
//! [`Driver::check`] for entry points newer than that.

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "warpfold-driver is for 64-bit systems: CUDA has no driver for others. Leave it out there."
);

mod api;
mod context;
mod device;
mod driver;
mod error;
mod event;
mod graph;
mod handle;
mod launch;
#[cfg(target_os = "linux")]
mod loader;
mod memory;
mod module;
mod occupancy;
mod pool;
mod provider;
mod stand_in;
mod stream;
#[cfg(feature = "symbols")]
mod symbols;
pub mod sys;
#[cfg(feature = "cust")]
mod with_cust;

#[cfg(not(target_os = "linux"))]
#[path = "nowhere.rs"]
mod loader;

pub use api::Api;
pub use context::PrimaryContextState;
#[cfg(feature = "cust")]
pub use cust;
pub use device::Device;
pub use driver::Driver;
pub use error::{CallError, DriverError, LIBRARY, PATH_VARIABLE, PtxError};
pub use handle::{Context, Event, Function, Graph, GraphExec, MemoryPool, Module, Stream};
pub use launch::{LaunchShape, MAX_PARAMETER_BYTES, MAX_PARAMETERS, ParameterCut, Parameters};
pub use memory::PointerAttributes;
pub use provider::Provider;
#[cfg(feature = "symbols")]
pub use symbols::{EntryPoint, NOT_LOADED, NOT_PRESENT, entry_points, load, loaded, take_unnamed_code};
#[cfg(feature = "cust")]
pub use with_cust::{ExtendedLaunch, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN};
