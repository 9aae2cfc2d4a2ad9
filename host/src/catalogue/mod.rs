//! The catalogue: one row per variant, with everything that is specific to it.
//!
//! Launching, binaries, tests, docs and tables read this table. A variant is added with its kernel file,
//! a row here and a binary; `tests/` rejects a row without its partners and the reverse.

mod rows;

use std::{collections::HashSet, fmt, sync::LazyLock};

use serde::Serialize;

use crate::{Arch, DeviceInfo, Dtype, Error, Op, Result, nearest};

pub use rows::VARIANTS;
pub use warpfold::internal::{Family, KernelFile};

/// A row of the catalogue.
///
/// Launches rely on its contents without a check, so only this crate can create one:
///
/// ```compile_fail,E0639
/// use warpfold_suite::catalogue::{self, Variant};
///
/// let sequential = catalogue::find("sequential").unwrap();
/// let forged = Variant { id: "single_pass_last_block", ..*sequential };
/// ```
///
/// ```compile_fail,E0639
/// use warpfold_suite::catalogue::{self, Shape};
///
/// let sequential = catalogue::find("sequential").unwrap().shape().unwrap();
/// let forged = Shape { cluster: 0, ..*sequential };
/// ```
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Variant {
    /// The name of the module, the PTX symbol prefix, the binary and the JSON key.
    pub id: &'static str,
    /// The method, in one line.
    pub summary: &'static str,
    /// The point that the variant demonstrates.
    pub shows: &'static str,
    /// The kind of work, and its parameters.
    #[serde(flatten)]
    pub work: Work,
    /// Supported operations; empty for variants that only move elements.
    pub ops: &'static [Op],
    /// Supported element types.
    pub dtypes: &'static [Dtype],
    /// The conditions for two runs to give the same bits.
    pub determinism: Determinism,
    /// The oldest architecture with the features that the kernel needs.
    pub min_arch: Arch,
    /// Named runs.
    pub presets: &'static [Preset],
    /// Sources of the idea: letters of docs/sources.md.
    pub sources: &'static str,
}

/// The kind of work of a variant, with the parameters of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum Work {
    /// A kernel reduces n elements to one value.
    Reduction(Shape),
    /// The library reduces n elements, with a kernel and grid of its choice: see
    /// [`Reducer`](crate::Reducer).
    Reducer,
    /// A kernel copies n elements.
    Copy {
        /// The mapping of elements to threads.
        access: Access,
    },
    /// A kernel transposes a matrix.
    Transpose,
    /// Host elements are copied to the device and reduced there.
    Transfer {
        /// The kind of copy.
        path: Path,
    },
    /// The CPU reduces n elements.
    Cpu {
        /// Whether all cores are used, or one.
        parallel: bool,
    },
}

/// The structure of a reduction. As for a [`Variant`], only this crate can create one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shape {
    /// The mapping of elements to threads.
    pub geometry: Geometry,
    /// The reduction within a block.
    pub in_block: InBlock,
    /// The reduction of the block results.
    pub completion: Completion,
    /// The use of dynamic shared memory.
    pub dynamic_shared: DynamicShared,
    /// Blocks of a cluster, which produce one result together; 1 for kernels without clusters.
    pub cluster: u32,
}

/// The mapping of elements to threads in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Elements at a constant stride.
    Strided,
    /// Elements in random order.
    Random,
}

/// The path of elements from the host to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// One copy from pageable memory.
    Pageable,
    /// One copy from page-locked memory.
    Pinned,
    /// Chunks from page-locked memory on two streams.
    Overlapped,
}

/// A named run, which repeats that of a write-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Preset {
    /// The name for `--preset`.
    pub name: &'static str,
    /// The number of elements.
    pub n: u64,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The exclusive upper bound of the elements, which are random integers from 0.
    pub below: u64,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the launch.
    pub grid: u64,
    /// The number of timed runs.
    pub iterations: u32,
}

/// The mapping of elements to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Geometry {
    /// Each thread takes this many elements: n and the block determine the grid.
    PerThread(u32),
    /// Threads stride over the input by the size of the grid: any grid works.
    GridStride,
    /// A single thread of a single block takes all elements.
    SingleThread,
}

/// The reduction of a block's threads to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InBlock {
    /// A tree, in a number of steps that is logarithmic in the block.
    Tree,
    /// One thread combines the values sequentially.
    OneByOne,
    /// There is no reduction within the block.
    Nothing,
}

/// The use of dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DynamicShared {
    /// None: any shared memory is static.
    None,
    /// One element per thread.
    ElementPerThread,
}

/// The reduction of block results to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The kernel is launched again on the block results until one is left.
    Relaunch,
    /// The last block of the only launch reduces them.
    LastBlock,
    /// One block reduces them after a grid-wide barrier of the only, cooperative launch.
    GridBarrier,
    /// Each block combines its result atomically into the output, which starts as the identity.
    Atomic,
}

/// The conditions for two runs on the same input to give the same bits. Integers, minimum and maximum
/// always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinism {
    /// Always: the order of operations is that of the input, or there are none.
    PerInput,
    /// With the same block and grid, which alone determine the order of additions.
    PerGeometry,
    /// Never for sums of floats, which are added in order of arrival.
    Unordered,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reduction(_) => "reduction",
            Self::Reducer => "reducer",
            Self::Copy { .. } => "copy",
            Self::Transpose => "transpose",
            Self::Transfer { .. } => "transfer",
            Self::Cpu { .. } => "cpu",
        })
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerThread(1) => f.write_str("one element per thread"),
            Self::PerThread(count) => write!(f, "{count} elements per thread"),
            Self::GridStride => f.write_str("grid-stride"),
            Self::SingleThread => f.write_str("one thread"),
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relaunch => "relaunch",
            Self::LastBlock => "last block",
            Self::GridBarrier => "grid barrier",
            Self::Atomic => "atomics",
        })
    }
}

impl fmt::Display for Determinism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerInput => "always",
            Self::PerGeometry => "same geometry",
            Self::Unordered => "integers only",
        })
    }
}

impl Variant {
    /// Returns the structure of a reduction; `None` for the other families.
    pub const fn shape(&self) -> Option<&Shape> {
        match &self.work {
            Work::Reduction(shape) => Some(shape),
            _ => None,
        }
    }

    /// Returns whether the variant is a single kernel, with a source file, a PTX file and a CUDA C twin
    /// of its name. The reducer has many, in [PTX files](reducer_ptx) by operation and type, and has no
    /// twin.
    pub const fn has_kernel(&self) -> bool {
        matches!(self.work, Work::Reduction(_) | Work::Copy { .. } | Work::Transpose)
    }

    /// Returns whether the variant runs PTX entries under its own name.
    pub const fn has_ptx(&self) -> bool {
        self.has_kernel() || matches!(self.work, Work::Reducer)
    }

    /// Returns the name of the PTX entry for an element type and, if the variant has any, an operation;
    /// for the reducer the common prefix of its entries.
    pub fn entry(&self, op: Option<Op>, dtype: Dtype) -> String {
        match op {
            Some(op) => format!("{}_{op}_{dtype}", self.id),
            None => format!("{}_{dtype}", self.id),
        }
    }

    /// Returns the accumulation and result type of a sum of these elements.
    pub fn sum(&self, dtype: Dtype) -> Dtype {
        match self.work {
            Work::Reducer => Op::Sum.result(dtype),
            _ => dtype,
        }
    }

    /// Returns every pair of operation and type; without operations the types alone.
    pub fn cases(&'static self) -> impl Iterator<Item = (Option<Op>, Dtype)> {
        let ops = self.ops.iter().copied().map(Some).chain(self.ops.is_empty().then_some(None));
        self.dtypes.iter().flat_map(move |&dtype| ops.clone().map(move |op| (op, dtype)))
    }

    /// Returns the preset of this name.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] with the names that exist.
    pub fn preset(&self, name: &str) -> Result<&'static Preset> {
        self.presets.iter().find(|preset| preset.name == name).ok_or_else(|| Error::UnknownPreset {
            variant: self.id,
            given: name.to_owned(),
            has: self.presets.iter().map(|preset| preset.name).collect(),
        })
    }

    /// Checks that the variant has an operation and a type.
    ///
    /// # Errors
    /// [`Error::UnsupportedOp`] and [`Error::UnsupportedDtype`] name the supported ones.
    pub fn require(&self, op: Op, dtype: Dtype) -> Result<()> {
        if !self.ops.contains(&op) {
            return Err(Error::UnsupportedOp { variant: self.id, op, has: self.ops });
        }
        self.require_dtype(dtype)
    }

    /// Checks that the variant has a type.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`] names the supported ones.
    pub fn require_dtype(&self, dtype: Dtype) -> Result<()> {
        if !self.dtypes.contains(&dtype) {
            return Err(Error::UnsupportedDtype { variant: self.id, dtype, has: self.dtypes });
        }
        Ok(())
    }

    /// Checks that the device has the features that the kernel needs.
    ///
    /// # Errors
    /// [`Error::ArchTooOld`] with the required and the actual architecture.
    pub fn require_arch(&self, device: &DeviceInfo) -> Result<()> {
        if device.arch < self.min_arch {
            return Err(Error::ArchTooOld {
                variant: self.id,
                needed: self.min_arch,
                device: device.name.clone(),
                arch: device.arch,
            });
        }
        Ok(())
    }
}

/// Returns the ids of all variants, in the catalogue's order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    VARIANTS.iter().map(|variant| variant.id)
}

/// Returns the variants that are a single kernel.
pub fn kernels() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.has_kernel())
}

/// Returns the variants that are a single reduction kernel.
pub fn reductions() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.shape().is_some())
}

/// Returns the variant of this id.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest id.
pub fn find(id: &str) -> Result<&'static Variant> {
    VARIANTS.iter().find(|variant| variant.id == id).ok_or_else(|| Error::UnknownName {
        what: "variant",
        given: id.to_owned(),
        nearest: nearest(id, ids()),
        see: "`cargo xtask list` shows all".into(),
    })
}

/// Returns deliberately broken kernels, for the tests that must catch them.
///
/// ```compile_fail,E0133
/// let kernels = warpfold_suite::catalogue::testing();
/// ```
///
/// # Safety
/// These kernels race and access memory out of bounds, although every call that runs a variant is safe:
/// the caller must run them only where this is harmless, as in the simulator.
#[doc(hidden)]
pub const unsafe fn testing() -> &'static [Variant] {
    TESTING
}

const TESTING: &[Variant] = &[
    broken("testing_drops_tail"),
    broken("testing_missing_barrier"),
    broken("testing_two_writers"),
    broken("testing_missing_warp_barrier"),
    Variant {
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            completion: Completion::LastBlock,
            ..rows::TREE
        }),
        ..broken("testing_relaxed_count")
    },
    broken("testing_one_output"),
    broken("testing_unwritten_shared"),
    broken("testing_unwritten_output"),
    broken("testing_out_of_bounds"),
    broken("testing_misaligned"),
    broken(DIVERGENT_BARRIER),
    broken("testing_inactive_lane"),
    Variant { min_arch: Arch::HOPPER, ..broken("testing_unwaited_copy") },
];

/// The kernel of [`testing`] with a divergent barrier, which no other kernel may have.
#[doc(hidden)]
pub const DIVERGENT_BARRIER: &str = "testing_divergent_barrier";

const fn broken(id: &'static str) -> Variant {
    Variant { id, dtypes: &[Dtype::I32], summary: "wrong on purpose", ..rows::REDUCTION }
}

/// Returns every PTX file that is built: one per kernel, those of the reducer, the broken kernels, and
/// those that test each primitive and each collective of the device crate.
pub fn ptx_ids() -> impl Iterator<Item = &'static str> {
    let kernels = kernels().chain(TESTING).map(|variant| variant.id);
    kernels
        .chain(reducer_files().iter().map(String::as_str))
        .chain(["testing_probe", "testing_collectives"])
}

static REDUCER_PTX: LazyLock<Vec<String>> =
    LazyLock::new(|| KernelFile::all().map(KernelFile::name).collect());

/// Returns the names of all PTX files of the reducer.
pub fn reducer_files() -> &'static [String] {
    &REDUCER_PTX
}

/// Returns the names of the reducer's PTX files outside the suite's operations on buffers.
pub fn library_files() -> impl Iterator<Item = &'static str> {
    let of = |&op: &Op| Dtype::ALL.iter().map(move |&dtype| reducer_ptx(op, dtype));
    let of_suite: HashSet<String> = Op::ALL.iter().flat_map(of).collect();
    reducer_files().iter().map(String::as_str).filter(move |file| !of_suite.contains(*file))
}

/// Returns the name of the reducer's PTX file that reduces a buffer by an operation and type, which is
/// also the prefix of its entries.
pub fn reducer_ptx(op: Op, dtype: Dtype) -> String {
    KernelFile::of(Family::Buffer, op.library(), dtype).name()
}
