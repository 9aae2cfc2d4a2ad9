#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

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
mod fork;
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
pub use fork::{ForkGuard, is_forked};
pub use handle::{Context, Event, Function, Graph, GraphExec, MemoryPool, Module, Stream};
pub use launch::{LaunchShape, MAX_PARAMETER_BYTES, MAX_PARAMETERS, ParameterCut, Parameters};
pub use memory::PointerAttributes;
pub use provider::Provider;
#[cfg(feature = "symbols")]
pub use symbols::{EntryPoint, NOT_LOADED, NOT_PRESENT, entry_points, load, loaded, take_unnamed_code};
