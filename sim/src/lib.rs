//! A PTX simulator: it runs GPU kernels from their text, on a machine without a GPU.
//!
//! From the PTX that a compiler writes, it computes a kernel's results, counts its instructions and
//! memory traffic, and reports its errors. To test kernels, begin with [`Sim`], which has buffers and
//! launches of its own; this page describes the layer below it.
//!
//! | task | see |
//! |---|---|
//! | test a kernel | [`Sim`], [`kernel_tests!`] |
//! | launch a kernel of a module | [`Gpu::launch`], [`Launch`], [`Args`] |
//! | find races and missing barriers | [`Hazards`], [`Call::checked`] |
//! | try other orders of threads | [`Launch::with_seed`], [`Exploration`] |
//! | count instructions and memory traffic | [`Profiler`] |
//! | observe each instruction | [`Observer`], [`Gpu::launch_observed`] |
//! | errors | [`Error`], [`Fault`], [`SimError`] |
//!
//! [`Module::parse`] reads the PTX text of rustc's NVPTX backend, libNVVM or nvcc, and decodes every
//! entry once to a compact form. A [`Gpu`] owns simulated global memory and runs entries of a module:
//! warp by warp, 32 lanes at a time that may diverge, with block barriers, shuffles, atomics, the seven
//! state spaces of PTX, and the additions of sm_90: mbarriers, asynchronous copies and clusters. Blocks
//! are distributed over host threads. A long-running block or warp is preempted, so kernels whose
//! threads wait for each other through memory finish.
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
//! Results are bit-exact where PTX defines them. The `approx` forms (`sin`, `cos`, `lg2`, `ex2`, `tanh`,
//! `rcp`, `rsqrt`, `sqrt`, `div`) are computed in double precision and rounded, which is at least as
//! accurate as the hardware's result but not the same bits; `ex2` of halves has the hardware's bits.
//! Where PTX leaves a value unspecified, the hardware's value is used: integer division by zero gives
//! all ones; the choice of NaN, the conversion of a NaN to an integer, and the rounded results that
//! `.ftz` treats as subnormal follow rules found by comparison with an H200 (`scripts/gpu/float.sh`). In
//! one point the manual differs and the hardware is followed: `.ftz` does not flush singles that become
//! halves. The clock registers count the warp instructions of the block, so that runs are repeatable.
//!
//! # Model
//!
//! The lanes of a warp run in lockstep until a branch separates them. The paths of a divergent warp run
//! one after the other, and reconverge at the branch's immediate post-dominator unless lanes wait for
//! others. As on hardware since sm_70, each lane makes independent progress: lanes that poll memory
//! yield to the lanes of their warp that they wait for, an instruction executes for the lanes that have
//! arrived, and one with a member mask waits for the lanes of the mask wherever they are. Warps and
//! blocks take turns as well: each yields after [`Config::quantum`] instructions, or sooner when it
//! polls memory.
//!
//! A warp at an `mbarrier.try_wait` whose phase is not complete is suspended: it takes no steps until
//! the phase completes, or until nothing else in its cluster can make progress and the try fails. If
//! repeated tries cannot succeed, the launch ends with a deadlock error instead of an endless loop.
//!
//! Asynchronous copies complete as late as allowed: when a thread waits for them, when every warp of the
//! cluster waits, when the cluster yields to others, or when thousands are in flight. So a kernel that
//! does not wait always reads the old contents. The order in which writes by the generic and the
//! asynchronous proxy become visible is not modelled: `fence.proxy.async` does nothing, and a missing
//! one is not reported.
//!
//! The products of a warpgroup (`wgmma.mma_async`) are computed as early as allowed: each warp reads its
//! operands and writes its rows of the result when it executes the instruction.
//!
//! The blocks of a cluster run interleaved on one host thread, different clusters in parallel. A shared
//! address has the rank of its block, plus one, in bits 24 and up; 0 is the block's own. Clusters have
//! at most 8 blocks, the portable limit.
//!
//! A member mask may name lanes that have exited. They are not waited for, and the values that a shuffle
//! reads from them are undefined. [`Config::strict`] makes such a mask an error.
//!
//! The schedule described here is one of many possible ones. [`Launch::with_seed`] runs lanes, warps and
//! blocks in another order, and [`Exploration`] tries all orders of a small launch.
//!
//! The host writes `.global` and `.const` variables at the address that [`Gpu::symbol`] returns; a
//! launch uses const memory as it was at its start.
//!
//! # Unsupported text
//!
//! [`Module::parse`] refuses a text that is not entirely supported. [`Module::parse_each`] accepts it:
//! an unsupported entry is listed in [`Module::broken`], and launching it fails with
//! [`Error::BrokenEntry`]. An unsupported function breaks the entries that call it.
//!
//! Not supported yet: copies of tensors (`cp.async.bulk.tensor`) by im2col, gather4 and scatter4, the
//! products of warpgroups with sparse matrices (`wgmma.mma_async.sp`), `multimem`, and vector atomics of
//! eight elements.
//!
//! # Limits
//!
//! The time and memory of decoding are at most proportional to the size of the text, which is at most 64
//! MiB. Decoding may take 2^26 steps, and 256 more for each byte of the text. An instruction takes 512
//! steps, and one for each byte of its text, each time that a call expands it; control flow takes one
//! for each block that a register is live through. Scopes and calls may be nested 64 deep. An entry may
//! have 512 KiB of local memory, 227 KiB of shared memory and 32 764 bytes of parameters, and a module
//! 64 MiB of const memory. A launch ends after [`Config::step_limit`] warp instructions, after
//! [`Config::thread_step_limit`] of one thread, and after [`Config::time_limit`], and uses at most
//! [`Config::memory_limit`]. Exceeding a limit is an error of one line, which quotes at most 300
//! characters of the text in one piece.
//!
//! Global memory consists of atomic 64-bit cells, so a kernel's data race yields one of the racing
//! values and is never undefined behaviour of the host.
// The print macros panic if standard output or error is closed or full.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

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
mod tensor_map;
mod texture;
mod version;

/// PTX text as words, for tools that inspect any text that a compiler writes, including instructions
/// that the simulator does not support and symbols of any form.
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
    CallDepth, Error, FailedAssertion, Fault, FaultKind, Loop, MbarrierProblem, ParseError,
    SurfacePlace, TensorMapProblem, TextureProblem, WarpgroupProblem,
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
pub use tensor_map::{Swizzle, TensorElement, TensorMap, TensorMapError, TilePiece};
pub use texture::{AddressMode, Channel, Sampler, Texels, Texture};

/// Runs the README's examples as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
