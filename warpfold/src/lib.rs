//! Reductions of arrays in GPU memory, at the speed of the memory; on machines without a GPU in a
//! simulator.
//!
//! `cargo add warpfold` is all that it takes: neither building nor starting a program needs CUDA. Open a
//! [`Device`], upload elements to a [`Buffer`], make one [`Reducer`] for the whole program, and ask it
//! for results:
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
//! | you want | look at |
//! |---|---|
//! | a sum, an extreme, a mean, or another operation | [`Reducer::reduce`] and the operations of [`op`] |
//! | a result for every row or column | [`Input`], [`Buffer::rows`], [`Buffer::columns`], [`Buffer::view`] |
//! | results of pieces of any lengths | [`Segments`], [`Runs`] |
//! | not to wait, or to launch several as one | [`Reducer::on`], [`Reducer::record`] |
//! | more elements than the device has room for | [`Reducer::stream`] |
//! | several GPUs | [`Group`] |
//! | an operation of your own | [`custom`] |
//! | what may go wrong | [`Error`] |
//!
//! # What there is
//!
//! - A [`Device`] is a GPU of compute capability 8.0 or newer, or the simulator. Neither a CUDA toolkit
//!   nor a driver is needed to build or start a program; the driver is found when a GPU is opened.
//! - A [`Buffer`] has the elements, of twelve [types](Element) or any [plain](Plain) one: the library's
//!   own memory, or [anybody's](Buffer::from_raw_parts), so that what another library has in device
//!   memory is reduced in place.
//! - [`Rows`] are the same elements as a matrix, of which every row has a result of its own; an [`Axis`]
//!   is one of an array of any number of dimensions; a [`View`] is an array of any strides, of which any
//!   set of axes is reduced; [`Segments`] are pieces whose lengths differ, as offsets in device memory
//!   describe them; [`Runs`] are the pieces of which neighbouring keys are equal.
//! - A [`Reducer`] reduces any such [`Input`] by an [operation](op), or by a tuple of operations,
//!   from any number of threads, and [waits](Reducer::reduce) for the result; or it reduces [on a
//!   stream](Reducer::on), without waiting, to the host or to [device memory](Output); or
//!   [recorded](Reducer::record), several at the cost of one launch. Elements that are not there at
//!   once are reduced [piece by piece](Reducer::running), and those of a file, or more than the
//!   device's memory holds, as they [stream](Reducer::stream) from their [source].
//! - A [`Group`] is several devices of one process as one: what each has of the elements it reduces
//!   itself, and one launch a device is all that it takes where they reach each other's memory. What is
//!   on none of them they [stream](Group::stream) at once, each its part. A
//!   `World` is several processes with a device each, of one host or several, which a launcher started.
//! - An operation of a program's [own](custom), on elements of its own, is written in Rust for the GPU,
//!   and launched as the library's are.
//!
//! # Features
//! - `simulator` (on): [`Selection::Sim`].
//! - `cpu`: the operations on the CPU, of slices.
//! - `cust`, `cudarc`: buffers on those crates' memory.
//! - `world`: `World`, several processes as one.
//!
//! # Environment
//! `WARPFOLD_LIBCUDA` names the driver's library where it is at no usual place. `WARPFOLD_PTX_DIR`
//! names a folder of kernels to take in place of those inside, as the project's `cargo xtask build-ptx`
//! makes it. `WARPFOLD_LIBNCCL` names NCCL's library where the dynamic linker does not find it. All are
//! trusted as the program itself is: they name code that runs.
#![warn(missing_docs)]

mod arch;
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

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
