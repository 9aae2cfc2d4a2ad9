//! The catalogue: one row per variant, with everything that is specific to it.
//!
//! The launches, the binaries, the tests, the documents and the tables read it. To add a variant, add
//! its kernel file, a row here and a binary; a test in `tests/` fails if one of them is missing.

mod rows;

use std::{collections::HashSet, fmt, sync::LazyLock};

use serde::Serialize;

use crate::{Arch, DeviceInfo, Dtype, Error, Op, Result, nearest};

pub use rows::VARIANTS;
pub use warpfold::internal::{Family, KernelFile};

/// A row of the catalogue.
///
/// Launches rely on the contents without a check, so only this crate can create a row:
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
    /// The point that the variant demonstrates, for documents.
    pub shows: &'static str,
    #[serde(flatten)]
    pub work: Work,
    /// Supported operations; empty for variants that only move elements.
    pub ops: &'static [Op],
    pub dtypes: &'static [Dtype],
    pub determinism: Determinism,
    pub min_arch: Arch,
    pub presets: &'static [Preset],
    /// Sources of the idea: letters of docs/sources.md.
    pub sources: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum Work {
    Reduction(Shape),
    /// The library reduces n elements, with a kernel and grid of its choice: see
    /// [`Reducer`](crate::Reducer).
    Reducer,
    Copy {
        access: Access,
    },
    Transpose,
    /// Host elements are copied to the device and reduced there.
    Transfer {
        path: Path,
    },
    Cpu {
        parallel: bool,
    },
}

/// The structure of a reduction. Only this crate can create one, as with [`Variant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shape {
    pub geometry: Geometry,
    pub in_block: InBlock,
    pub completion: Completion,
    pub dynamic_shared: DynamicShared,
    /// Number of blocks per cluster, which produce one result together; 1 for kernels without clusters.
    pub cluster: u32,
}

/// The mapping of elements to threads in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Strided,
    Random,
}

/// The path of elements from the host to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    Pageable,
    Pinned,
    /// Chunks from page-locked memory on two streams.
    Overlapped,
}

/// Named options, which repeat the run of a published write-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Preset {
    /// The name for `--preset`.
    pub name: &'static str,
    pub n: u64,
    pub dtype: Dtype,
    /// The exclusive upper bound of the elements, which are random integers from 0.
    pub below: u64,
    pub block: u32,
    pub grid: u64,
    pub iterations: u32,
}

/// The mapping of elements to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Geometry {
    /// Each thread loads this many elements, so that n and the block size determine the grid size.
    PerThread(u32),
    /// The kernel has a grid-stride loop, so that any grid size works.
    GridStride,
    SingleThread,
}

/// The reduction of a block's threads to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InBlock {
    Tree,
    /// One thread combines the values sequentially.
    OneByOne,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DynamicShared {
    /// No dynamic shared memory; the kernel may have static shared memory.
    None,
    ElementPerThread,
}

/// The reduction of block results to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The kernel is launched again on the block results until one result is left.
    Relaunch,
    /// There is one launch, whose last block reduces the block results.
    LastBlock,
    /// One block reduces the block results after a grid-wide barrier. The launch is cooperative.
    GridBarrier,
    /// Each block combines its result atomically with the output, which is initialised to the identity.
    Atomic,
}

/// The conditions under which two runs on the same input give the same bits. Results of integers, minima
/// and maxima are always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinism {
    /// All runs agree: the order of additions depends on the input alone, or there are no additions.
    PerInput,
    /// Runs with equal block and grid sizes agree: these alone determine the order of additions.
    PerGeometry,
    /// Float sums may differ between runs: elements are accumulated in order of arrival.
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

    /// Returns whether the variant is a single kernel, which has a source file, a PTX file and a CUDA C
    /// twin of the same name. The reducer is not: it has many kernels, in one [PTX file](reducer_ptx)
    /// per operation and type, and no twin.
    pub const fn has_kernel(&self) -> bool {
        matches!(self.work, Work::Reduction(_) | Work::Copy { .. } | Work::Transpose)
    }

    /// Returns whether the variant runs PTX entries whose names begin with the variant's name.
    pub const fn has_ptx(&self) -> bool {
        self.has_kernel() || matches!(self.work, Work::Reducer)
    }

    /// Returns the name of the PTX entry for an element type and, if the variant has any, an operation.
    /// For the reducer, returns the prefix that the names of all such entries share.
    pub fn entry(&self, op: Option<Op>, dtype: Dtype) -> String {
        match op {
            Some(op) => format!("{}_{op}_{dtype}", self.id),
            None => format!("{}_{dtype}", self.id),
        }
    }

    /// Returns the type in which the variant accumulates and returns a sum of elements of type `dtype`.
    pub fn sum(&self, dtype: Dtype) -> Dtype {
        match self.work {
            Work::Reducer => Op::Sum.result(dtype),
            _ => dtype,
        }
    }

    /// Returns every pair of operation and type; for a variant without operations, each type with
    /// `None`.
    pub fn cases(&'static self) -> impl Iterator<Item = (Option<Op>, Dtype)> {
        let ops = self.ops.iter().copied().map(Some).chain(self.ops.is_empty().then_some(None));
        self.dtypes.iter().flat_map(move |&dtype| ops.clone().map(move |op| (op, dtype)))
    }

    pub fn preset(&self, name: &str) -> Result<&'static Preset> {
        self.presets.iter().find(|preset| preset.name == name).ok_or_else(|| Error::UnknownPreset {
            variant: self.id,
            given: name.to_owned(),
            has: self.presets.iter().map(|preset| preset.name).collect(),
        })
    }

    pub fn require(&self, op: Op, dtype: Dtype) -> Result<()> {
        if !self.ops.contains(&op) {
            return Err(Error::UnsupportedOp { variant: self.id, op, has: self.ops });
        }
        self.require_dtype(dtype)
    }

    pub fn require_dtype(&self, dtype: Dtype) -> Result<()> {
        if !self.dtypes.contains(&dtype) {
            return Err(Error::UnsupportedDtype { variant: self.id, dtype, has: self.dtypes });
        }
        Ok(())
    }

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

pub fn find(id: &str) -> Result<&'static Variant> {
    VARIANTS.iter().find(|variant| variant.id == id).ok_or_else(|| Error::UnknownName {
        what: "variant",
        given: id.to_owned(),
        nearest: nearest(id, ids()),
        see: "`cargo xtask run --list` shows all".into(),
    })
}

/// Returns deliberately broken kernels, for the tests that must catch them.
///
/// ```compile_fail,E0133
/// let kernels = warpfold_suite::catalogue::testing();
/// ```
///
/// # Safety
/// These kernels race and access memory out of bounds, although the functions that run them are safe.
/// The caller must run them only where this is harmless, as in the simulator.
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

/// The broken kernel of [`testing`] that has a divergent barrier. No other kernel may have one.
#[doc(hidden)]
pub const DIVERGENT_BARRIER: &str = "testing_divergent_barrier";

const fn broken(id: &'static str) -> Variant {
    Variant { id, dtypes: &[Dtype::I32], summary: "wrong on purpose", ..rows::REDUCTION }
}

/// Returns the names of all PTX files that are built: the suite's kernels, the reducer's, the broken
/// kernels, and the tests of the device crate's primitives and collectives.
pub fn ptx_ids() -> impl Iterator<Item = &'static str> {
    let kernels = kernels().chain(TESTING).map(|variant| variant.id);
    kernels
        .chain(reducer_files().iter().map(String::as_str))
        .chain(["testing_probe", "testing_collectives"])
}

static REDUCER_PTX: LazyLock<Vec<String>> =
    LazyLock::new(|| KernelFile::all().map(KernelFile::name).collect());

pub fn reducer_files() -> &'static [String] {
    &REDUCER_PTX
}

/// Returns the names of the reducer's PTX files that the suite's operations on buffers do not use.
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
