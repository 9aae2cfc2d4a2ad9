//! Reductions of arrays in GPU memory at memory speed, or in a simulator on machines without a GPU.
//!
//! `cargo add warpfold` is the whole installation: programs build and start without CUDA. Open a
//! [`Device`], upload elements to a [`Buffer`], create one [`Reducer`] for the whole program, and call
//! it:
//!
//! ```
//! use warpfold::{Device, Reducer, Selection, op};
//!
//! fn main() -> Result<(), warpfold::Error> {
//!     let device = Device::open(Selection::Auto)?;
//!     let reducer = Reducer::new(&device)?;
//!     let values: Vec<f32> = (0..1_000).map(|i| i as f32).collect();
//!     let buffer = device.upload(&values)?;
//!     println!("{} on {}", reducer.sum(&buffer)?, device.info().name);
//!     println!("{:?}", reducer.reduce(op::ArgMax, &buffer)?);
//!     Ok(())
//! }
//! ```
//!
//! # Where to look
//!
//! | task | see |
//! |---|---|
//! | a sum, a minimum, a mean, or another operation | [`Reducer::reduce`] and the operations of [`op`] |
//! | a result for every row or column | [`Input`], [`Buffer::rows`], [`Buffer::columns`], [`Buffer::view`] |
//! | one result of several buffers | [`Buffers`] |
//! | results of segments of any lengths | [`Segments`], [`Runs`] |
//! | asynchronous calls, or several in one launch | [`Reducer::on`], [`Reducer::record`] |
//! | more elements than fit into device memory | [`Reducer::stream`] |
//! | several GPUs | [`Group`] |
//! | several processes, on one host or several | `World` (feature `world`) |
//! | an operation given as text | [`op::expr`](fn@op::expr) |
//! | a custom operation | [`custom`] |
//! | errors | [`Error`] |
//!
//! # Overview
//!
//! - A [`Device`] is a GPU of compute capability 8.0 or newer, or the simulator. Programs build and
//!   start without a CUDA toolkit or a driver; the driver is loaded when a GPU is opened.
//! - A [`Buffer`] holds elements of twelve [types](Element), or of any [plain](Plain) one, in memory of
//!   the library or of [another owner](Buffer::from_raw_parts): other libraries' device memory is
//!   reduced in place.
//! - [`Rows`] are a matrix with one result per row; an [`Axis`] is an axis of an array of any number of
//!   dimensions; a [`View`] is an array with any strides, reduced along any set of axes; [`Segments`]
//!   are pieces of different lengths, described by offsets in device memory; [`Runs`] are pieces with
//!   equal neighbouring keys.
//! - A [`Reducer`] reduces any such [`Input`] by an [operation](op), or by a tuple of operations, from
//!   any number of threads. It [waits](Reducer::reduce) for the result; or works asynchronously [on a
//!   stream](Reducer::on), with results on the host or in [device memory](Output); or
//!   [records](Reducer::record) several reductions into one launch. Elements that are not available at
//!   once are reduced [piece by piece](Reducer::running). Elements of a file, or more elements than fit
//!   into device memory, are [streamed](Reducer::stream) from their [source].
//! - A [`Group`] is several devices of one process used as one. Each device reduces the elements in its
//!   memory, in one launch per device if the devices access each other's memory. Elements that are in no
//!   device's memory are [streamed](Group::stream), a part to each device. A `World` is several
//!   processes with one device each, on one host or several, started by a launcher.
//! - An [expression](fn@op::expr) of the elements, given as text, is inserted in the library's kernels.
//!   A [custom] operation, on elements of the program's own types, is written in Rust for the GPU and
//!   launched like the library's operations.
//!
//! # Features
//! - `simulator` (default): [`Selection::Sim`].
//! - `cpu`: the module `cpu`, with the operations on slices, on the CPU.
//! - `cust`, `cudarc`: `Buffer::from_cust` and `Buffer::from_cudarc`, which reduce those crates' memory
//!   in place.
//! - `world`: `World`, several processes used as one.
//!
//! # Environment
//! `WARPFOLD_LIBCUDA` is the path of the driver's library if it is not in a usual place.
//! `WARPFOLD_PTX_DIR` is a folder of kernels that replace the embedded ones, made by the project's
//! `cargo xtask build-ptx --library`; `WARPFOLD_CODEGEN` selects their code generator, by default
//! `llvm`. `WARPFOLD_LIBNCCL` is the path of NCCL's library if the dynamic linker does not find it. All
//! are trusted like the program itself, because they name code that runs.
#![warn(missing_docs)]

mod archive;
mod buffer;
mod context;
mod copies;
#[cfg(feature = "cpu")]
pub mod cpu;
mod device;
pub mod dlpack;
mod element;
mod error;
mod geometry;
mod input;
#[doc(hidden)]
pub mod internal;
#[cfg(any(feature = "cust", feature = "cudarc"))]
mod interop;
mod kernel_file;
mod memory;
mod names;
mod nccl;
pub mod op;
mod output;
mod outputs;
mod ptx;
mod reducer;
mod selection;
mod signature;
pub mod source;
mod stream;
mod truth;
mod tuning;
#[cfg(feature = "world")]
mod world;

pub use buffer::Buffer;
pub use device::{Device, DeviceInfo};
pub use element::{Bits, Element, Ends, Float, Integer, Located, Outcome, Plain, Spread};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use input::{
    Enqueue, Input, Recordable,
    axis::Axis,
    buffer::{Count, Counted},
    buffers::Buffers,
    filtered::{Filtered, Within},
    rows::Rows,
    runs::{ByKey, Key, Keyed, KeyedInto, Runs},
    segments::{Offset, Segments},
    view::{Along, View},
};
pub use output::Output;
pub use outputs::Outputs;
pub use reducer::{
    DeviceOutput, Group, GroupInput, GroupOutputs, GroupRecording, GroupStreamed, OnStream, Pending,
    PendingRecording, Progress, Push, Recorded, RecordedOutputs, Recorder, Recording, Reducer, Results,
    Running, Sharded, ShardedAxis, ShardedKeys, ShardedRows, Streamed, Way, custom,
};
#[cfg(feature = "world")]
pub use reducer::{Distributed, World};
pub use selection::Selection;
pub use stream::Stream;
pub use truth::Bool;
#[cfg(feature = "world")]
pub use world::Rendezvous;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
