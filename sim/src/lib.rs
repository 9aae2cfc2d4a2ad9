//! A PTX simulator: it runs GPU kernels from their text, on a machine without a GPU.
//!
//! Give it the PTX that your compiler writes, and it says what the kernel computes, what it costs, and
//! what is wrong with it. To test kernels begin with [`Sim`], which has buffers and launches of its own;
//! what follows is what lies below it.
//!
//! [`Module::parse`] reads the PTX text that rustc's NVPTX backend, libNVVM or
//! nvcc writes and decodes every entry once into a compact form. A [`Gpu`] owns
//! simulated global memory and runs entries of a module: warp by warp, 32 lanes
//! at a time, each with a way of its own, block barriers, shuffles, atomics,
//! the seven state spaces of PTX, and what sm_90 adds: mbarriers, asynchronous
//! copies and clusters. Blocks are spread over host threads; a
//! block or warp that runs long without finishing is preempted, so kernels that
//! wait for each other through memory finish.
//!
//! ```
//! use warpfold_sim::{Args, Config, Gpu, Launch, Module};
//!
//! let ptx = "
//! .version 7.8
//! .target sm_80
//! .address_size 64
//! .visible .entry twice(.param .u64 data)
//! {
//!     .reg .b32 %r<3>;
//!     .reg .b64 %rd<3>;
//!     ld.param.u64 %rd0, [data];
//!     mov.u32 %r0, %tid.x;
//!     mul.wide.u32 %rd1, %r0, 4;
//!     add.s64 %rd2, %rd0, %rd1;
//!     ld.global.u32 %r1, [%rd2];
//!     add.s32 %r2, %r1, %r1;
//!     st.global.u32 [%rd2], %r2;
//!     ret;
//! }";
//! let module = Module::parse(ptx)?;
//! let gpu = Gpu::new(Config::default());
//! let data = gpu.alloc(128)?;
//! gpu.write(data, &21u32.to_le_bytes())?;
//! let stats = gpu.launch(&module, "twice", &Launch::linear(1, 32), &Args::new().ptr(data))?;
//! let mut first = [0; 4];
//! gpu.read(data, &mut first)?;
//! assert_eq!(u32::from_le_bytes(first), 42);
//! assert_eq!(stats.warp_instructions, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Accuracy
//!
//! Results are bit-exact where PTX defines them. The `approx` forms (`sin`,
//! `cos`, `lg2`, `ex2`, `tanh`, `rcp`, `rsqrt`, `sqrt`, `div`) are computed in
//! double precision and rounded, which is at least as close as the hardware's
//! result but not the same bits; `ex2` of halves is what the hardware gives.
//! What PTX leaves unspecified takes the value that hardware returns: integer
//! division by zero gives all ones; which NaN comes out, the integer of a NaN,
//! and when `.ftz` takes a rounded result for subnormal follow rules found by
//! comparison with an H200 (`scripts/gpu/float.sh`). In one point the manual
//! says otherwise and the hardware is followed: `.ftz` does not flush singles
//! that become halves. The clock registers count the warp instructions of the
//! block, so that runs repeat.
//!
//! # Model
//!
//! The lanes of a warp that part ways run one way after the other and meet again
//! at the branch's immediate post-dominator, as far as they are not waiting. As from
//! sm_70 on each lane makes progress by itself: lanes that watch memory give way to
//! those of their warp that they wait for, an instruction for several lanes serves
//! those that have come, and named lanes are waited for wherever they are. Between
//! warps and blocks there is turn-taking, too: each gives way after
//! [`Config::quantum`] instructions, sooner when it watches memory.
//!
//! A warp at an `mbarrier.try_wait` whose phase is not over is suspended: it takes
//! no steps until the phase is over, or until nothing else in its cluster can go
//! on and the try fails. Where trying again and again leads nowhere, that is a
//! deadlock and no endless loop.
//!
//! Asynchronous copies land as late as they may: when a thread waits for them,
//! when every warp of the cluster waits, when the cluster gives way to others, or
//! when thousands are under way. A kernel that does not wait reads what was there
//! before, every time. The order in which writes by the generic and the
//! asynchronous proxy become visible is not modelled: `fence.proxy.async` does
//! nothing, and nobody notices one that is missing.
//!
//! The blocks of a cluster run interleaved on one host thread, different clusters
//! in parallel. A shared address holds the rank of its block, plus one, in bits 24
//! and up; 0 is the block's own. Clusters have at most 8 blocks, the portable
//! limit.
//!
//! A member mask may name lanes that have exited, which are not waited for; what a
//! shuffle reads from them is undefined. [`Config::strict`] makes that an error.
//!
//! All of this is one order of many. [`Launch::with_seed`] has lanes, warps and blocks go on in another
//! one, and [`Exploration`] tries all of a small launch.
//!
//! The host writes `.global` and `.const` variables at the address that
//! [`Gpu::symbol`] gives; a launch has const memory as it was when it began.
//!
//! # Text that is not all supported
//!
//! [`Module::parse`] refuses it. [`Module::parse_each`] takes what is: an entry that holds anything else
//! is among [`Module::broken`], and its launch fails by [`Error::BrokenEntry`]. A function breaks the
//! entries that call it.
//!
//! Not there yet: copies of tensors (`cp.async.bulk.tensor`), `multimem`, matrix
//! instructions, 128-bit registers, and vector atomics of eight elements.
//!
//! # Limits
//!
//! No text makes decoding take more than time and memory in proportion to its size, whatever is in
//! it: at most 64 MiB of text; 2^26 steps and 256 more for each byte, of which an instruction takes
//! 512 and the bytes of its text each time that a call expands it, and the flow of control one for
//! each block that a register lives through; scopes and calls nested 64 deep; 512 KiB of local
//! memory, 227 KiB of shared memory, 32 764 bytes of parameters, 64 MiB of const memory. A launch
//! ends after [`Config::step_limit`] warp instructions, after [`Config::thread_step_limit`] of one
//! thread, and after [`Config::time_limit`], and takes no more than [`Config::memory_limit`]. What
//! passes a limit is an error of one line, which repeats no more than 300 characters of the text in one
//! piece.
//!
//! Global memory is made of atomic 64-bit cells, so a data race of a kernel
//! yields one of the racing values and is never undefined behaviour here.
// Standard output and error may be closed or full, which is no reason to panic.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod ast;
mod cfg;
mod config;
mod count;
mod decode;
mod effort;
mod error;
mod exec;
mod explore;
mod facade;
mod gpu;
mod hazard;
mod lanes;
mod lexer;
mod location;
mod memory;
mod module;
mod names;
mod observe;
mod parser;
mod places;
mod program;
mod texture;
mod version;

/// PTX text as words, for tools that ask something of a text and must take whatever a compiler has
/// written: instructions that the simulator does not know, symbols of any form.
pub mod ptx {
    pub use crate::version::{NEWEST, Newer};
    pub use warpfold_ptx::{Endless, Word, Words, words};
}

pub use config::{Args, Config, Launch, Stats};
pub use count::{
    AtomicAccess, GlobalAccess, Profile, Profiler, SharedAccess, Step, Tally, Timeline, WarpStep,
};
pub use decode::opcodes;
pub use error::{
    CallDepth, Error, Fault, FaultKind, Loop, MbarrierProblem, ParseError, SurfacePlace, TextureProblem,
};
pub use explore::{Exploration, ExploreError, Explored};
#[doc(hidden)]
pub use facade::run_test;
pub use facade::{Argument, Buffer, Call, Element, Extent, Ran, Sim, SimError};
pub use gpu::Gpu;
pub use hazard::{Finding, HazardKind, Hazards, LaunchCheck, Site};
pub use location::Location;
pub use memory::{AddressSpace, Budget, GlobalMemory, Keeper, Space};
pub use module::{Broken, Entry, InstructionInfo, Module, Param};
pub use names::{demangled, readable};
pub use observe::{
    AccessKind, BarrierKind, BlockInfo, Branch, Class, Completion, Copy, Counter, Counts, Detail, Event,
    Mbarrier, MbarrierOperation, Memory, Observer, Shuffle,
};
pub use texture::{AddressMode, Channel, Sampler, Texels, Texture};

/// The program of the readme compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
