//! One row per variant, and nothing about a variant anywhere else.
//!
//! Launching, binaries, tests, docs and tables read this table. A variant is added with its kernel
//! file, a row here and a binary; `tests/` rejects a row without its partners and the reverse.

mod rows;

use std::{collections::HashSet, fmt, sync::LazyLock};

use serde::Serialize;

use crate::{Arch, DeviceInfo, Dtype, Error, Op, Result, nearest};

pub use rows::VARIANTS;
pub use warpfold::internal::{Family, KernelFile};

/// What the suite knows of one variant.
///
/// Launches believe every word of it, so only this crate makes one:
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
    /// Module, prefix of the PTX symbols, binary and JSON key.
    pub id: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it is there to show.
    pub shows: &'static str,
    /// What kind of work it does, and how.
    #[serde(flatten)]
    pub work: Work,
    /// Operations it has; none for what moves elements and computes nothing.
    pub ops: &'static [Op],
    /// Element types it has.
    pub dtypes: &'static [Dtype],
    /// When two runs give the same bits.
    pub determinism: Determinism,
    /// The oldest architecture that has what the kernel needs.
    pub min_arch: Arch,
    /// Runs with a name of their own.
    pub presets: &'static [Preset],
    /// Where the idea comes from: letters of docs/sources.md.
    pub sources: &'static str,
}

/// What kind of work a variant does, and what only that kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum Work {
    /// A kernel makes one value of n.
    Reduction(Shape),
    /// The library makes one value of n, by the kernel and on the blocks that it chooses: what
    /// [`Reducer`](crate::Reducer) does.
    Reducer,
    /// A kernel copies n elements.
    Copy {
        /// Which thread reads which element.
        access: Access,
    },
    /// A kernel writes the columns of a matrix as rows.
    Transpose,
    /// The host's elements go to the device and are reduced there.
    Transfer {
        /// The way that they take.
        path: Path,
    },
    /// The CPU makes one value of n.
    Cpu {
        /// On all its cores, or on one.
        parallel: bool,
    },
}

/// How a reduction is laid over threads and launches. As a [`Variant`], only this crate makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shape {
    /// How elements are laid over threads.
    pub geometry: Geometry,
    /// How the values of a block's threads become one.
    pub in_block: InBlock,
    /// How block results become one.
    pub completion: Completion,
    /// What the kernel finds in dynamic shared memory.
    pub dynamic_shared: DynamicShared,
    /// Blocks of a cluster, which have one result together; 1 for kernels without clusters.
    pub cluster: u32,
}

/// Which thread of a copy reads which element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Elements at a constant distance.
    Strided,
    /// Elements in random order.
    Random,
}

/// The way of elements from the host to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// One copy from ordinary memory.
    Pageable,
    /// One copy from page-locked memory.
    Pinned,
    /// Chunks from page-locked memory on two streams.
    Overlapped,
}

/// A run with a name: what a write-up did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Preset {
    /// What `--preset` calls it.
    pub name: &'static str,
    /// The number of elements.
    pub n: u64,
    /// The type of the elements.
    pub dtype: Dtype,
    /// They are random integers from 0 to below this.
    pub below: u64,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the launch.
    pub grid: u64,
    /// Runs that are timed.
    pub iterations: u32,
}

/// How elements are laid over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Geometry {
    /// Each thread takes this many elements: the grid follows from n and the block.
    PerThread(u32),
    /// Threads stride over the input by the size of the grid: any grid serves.
    GridStride,
    /// One thread of one block takes them all.
    SingleThread,
}

/// How the values of a block's threads become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InBlock {
    /// In a number of steps that is the logarithm of the block.
    Tree,
    /// One thread takes them one after the other.
    OneByOne,
    /// They allow nothing of it.
    Nothing,
}

/// What a kernel finds in dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DynamicShared {
    /// Nothing: what it shares is static, or nothing at all.
    None,
    /// Room for one element per thread.
    ElementPerThread,
}

/// How block results become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The kernel is launched again on the block results until one is left.
    Relaunch,
    /// The last block of the only launch reduces them.
    LastBlock,
    /// One block reduces them after a barrier over the grid of the only, cooperative launch.
    GridBarrier,
    /// Each is combined into the result atomically, which holds the identity before.
    Atomic,
}

/// When two runs on the same input give the same bits. Integers, minimum and maximum always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinism {
    /// Always: the order of operations is that of the input, or there are none.
    PerInput,
    /// With the same block and grid: the order of additions depends on nothing else.
    PerGeometry,
    /// Not for sums of floats, whose order is the order of arrival.
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
    /// What it is of a reduction; none for the other families.
    pub const fn shape(&self) -> Option<&Shape> {
        match &self.work {
            Work::Reduction(shape) => Some(shape),
            _ => None,
        }
    }

    /// Whether it is one kernel: a source file, a PTX file and a CUDA C twin of its name. The reducer is
    /// many, in [PTX files](reducer_ptx) by operation and type, and without a twin.
    pub const fn has_kernel(&self) -> bool {
        matches!(self.work, Work::Reduction(_) | Work::Copy { .. } | Work::Transpose)
    }

    /// Whether it runs what was compiled to PTX under names of its own.
    pub const fn has_ptx(&self) -> bool {
        self.has_kernel() || matches!(self.work, Work::Reducer)
    }

    /// Name of the PTX entry for an operation, where there are any, and an element type; of the
    /// reducer's entries the first part.
    pub fn entry(&self, op: Option<Op>, dtype: Dtype) -> String {
        match op {
            Some(op) => format!("{}_{op}_{dtype}", self.id),
            None => format!("{}_{dtype}", self.id),
        }
    }

    /// Type in which a sum of these elements is made and comes out.
    pub fn sum(&self, dtype: Dtype) -> Dtype {
        match self.work {
            Work::Reducer => Op::Sum.result(dtype),
            _ => dtype,
        }
    }

    /// Every operation and type of this variant: types alone where there are no operations.
    pub fn cases(&'static self) -> impl Iterator<Item = (Option<Op>, Dtype)> {
        let ops = self.ops.iter().copied().map(Some).chain(self.ops.is_empty().then_some(None));
        self.dtypes.iter().flat_map(move |&dtype| ops.clone().map(move |op| (op, dtype)))
    }

    /// The run of this name.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] with those that there are.
    pub fn preset(&self, name: &str) -> Result<&'static Preset> {
        self.presets.iter().find(|preset| preset.name == name).ok_or_else(|| Error::UnknownPreset {
            variant: self.id,
            given: name.to_owned(),
            has: self.presets.iter().map(|preset| preset.name).collect(),
        })
    }

    /// Accepts an operation and type that the variant has.
    ///
    /// # Errors
    /// [`Error::UnsupportedOp`] and [`Error::UnsupportedDtype`] name what it has.
    pub fn require(&self, op: Op, dtype: Dtype) -> Result<()> {
        if !self.ops.contains(&op) {
            return Err(Error::UnsupportedOp { variant: self.id, op, has: self.ops });
        }
        self.require_dtype(dtype)
    }

    /// Accepts a type that the variant has.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`] names what it has.
    pub fn require_dtype(&self, dtype: Dtype) -> Result<()> {
        if !self.dtypes.contains(&dtype) {
            return Err(Error::UnsupportedDtype { variant: self.id, dtype, has: self.dtypes });
        }
        Ok(())
    }

    /// Accepts a device that has what the kernel needs.
    ///
    /// # Errors
    /// [`Error::ArchTooOld`] with what it needs and what the device is.
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

/// The ids of all variants, in the catalogue's order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    VARIANTS.iter().map(|variant| variant.id)
}

/// The variants that are one kernel each.
pub fn kernels() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.has_kernel())
}

/// The variants that are one reduction kernel each.
pub fn reductions() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.shape().is_some())
}

/// The variant of this id.
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

/// Kernels that are wrong on purpose, for the tests that must catch them.
///
/// ```compile_fail,E0133
/// let kernels = warpfold_suite::catalogue::testing();
/// ```
///
/// # Safety
/// They race, and read and write where they should not, though every call that runs a variant is safe:
/// whoever runs one sees to it that this harms nobody. The simulator does.
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

/// The one of [`testing`] whose barrier not all threads come to, which no other kernel may have.
#[doc(hidden)]
pub const DIVERGENT_BARRIER: &str = "testing_divergent_barrier";

const fn broken(id: &'static str) -> Variant {
    Variant { id, dtypes: &[Dtype::I32], summary: "wrong on purpose", ..rows::REDUCTION }
}

/// Every PTX file that is built: one per kernel, those of the reducer, the broken kernels, and those
/// that try each primitive and each collective of the device crate.
pub fn ptx_ids() -> impl Iterator<Item = &'static str> {
    let kernels = kernels().chain(TESTING).map(|variant| variant.id);
    kernels
        .chain(reducer_files().iter().map(String::as_str))
        .chain(["testing_probe", "testing_collectives"])
}

/// The names of the library's PTX files.
static REDUCER_PTX: LazyLock<Vec<String>> =
    LazyLock::new(|| KernelFile::all().map(KernelFile::name).collect());

/// The names of all PTX files of the reducer.
pub fn reducer_files() -> &'static [String] {
    &REDUCER_PTX
}

/// The names of the reducer's PTX files that are of no operation of the suite, or of no buffer.
pub fn library_files() -> impl Iterator<Item = &'static str> {
    let of = |&op: &Op| Dtype::ALL.iter().map(move |&dtype| reducer_ptx(op, dtype));
    let of_suite: HashSet<String> = Op::ALL.iter().flat_map(of).collect();
    reducer_files().iter().map(String::as_str).filter(move |file| !of_suite.contains(*file))
}

/// The reducer's PTX file for an operation and type that reduces a buffer, and the first part of its
/// entries' names.
pub fn reducer_ptx(op: Op, dtype: Dtype) -> String {
    KernelFile::Reduction(Family::Buffer, op.library(), dtype).name()
}
