//! Loads, drives, checks and times the suite's GPU kernels, on an NVIDIA GPU or in its simulator.
//!
//! - [`Reducer`]: the library's reducer (`warpfold` is the crate for programs), with operation and type
//!   as values.
//! - [`catalogue`]: one row per variant, read by everything else.
//! - [`Device`]: CUDA through cust, or the PTX simulator; a [`Buffer`] or [`Stream`] belongs to one.
//! - [`Reduction`]: a variant prepared for an operation, type, size and geometry. Its calls are safe:
//!   none reads out of bounds, outlives a buffer or races.
//! - [`reference`](mod@reference): expected results, and the allowed error of floats.
//! - [`measure`]: timing of one kernel, with device events and inputs rotated past the L2 cache.
//!   `warpfold-measure` compares several.
//! - [`abi`]: the interface of kernels and host: parameters, memory layouts, sizes.
//!
//! To run one variant of the catalogue:
//!
//! ```no_run
//! use warpfold_suite::{Data, Device, Op, PtxStore, Reduction, Request, Selection, catalogue};
//!
//! let device = Device::open(Selection::Auto)?;
//! let data = Data::F32(vec![1.0; 1000]);
//! let request = Request::new(catalogue::find("sequential")?, Op::Sum, &data);
//! let reduction = Reduction::new(&device, &PtxStore::locate(None)?, &request)?;
//! let input = device.upload(&data)?;
//! let sum = reduction.run(&input, &mut reduction.workspace()?)?;
//! assert_eq!(sum.value.to_string(), "1000");
//! # Ok::<(), warpfold_suite::Error>(())
//! ```

// Standard output and error may be closed or full, where `println!` panics: use `cli::stdout` and
// `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod data;

pub mod catalogue;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cpu;
pub mod device;
mod error;
pub mod input;
pub mod measure;
pub mod memory;
mod names;
mod op;
pub mod plan;
mod ptx;
pub mod record;
pub mod reducer;
mod reduction;
pub mod reference;
mod statistic;
mod test_data;
pub mod transfer;

#[doc(hidden)]
pub use data::scalar_types;
pub use data::{Data, Scalar, Value};
pub use device::{Buffer, Device, DeviceInfo, Kind, Selection, Stream};
pub use error::{Error, Result};
pub use measure::Spread;
pub use names::{Codegen, Statistic, nearest, parse_name};
pub use op::Op;
pub use plan::{Plan, Request, Step};
pub use ptx::{CODEGEN, PTX_DIR, PtxFile, PtxStore, default_codegen};
pub use record::Record;
pub use reducer::{Answer, Reducer, Tuning};
pub use reduction::{Outcome, Pending, Reduction, Workspace};
pub use statistic::Summary;
pub use warpfold::internal::{Arch, Dtype};
pub use warpfold_abi as abi;
pub use warpfold_io::{say, shortened, visible};
