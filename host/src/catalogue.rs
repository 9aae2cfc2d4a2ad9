//! One row per variant, and nothing about a variant anywhere else.
//!
//! Launching, binaries, tests, docs and tables read this table. A variant is added with its kernel
//! file, a row here and a binary; `tests/` rejects a row without its partners and the reverse.

use std::fmt;

use serde::Serialize;

use crate::{Arch, Dtype, Error, Op, Result, nearest};

/// Element types of the reductions.
const ALL: &[Dtype] = &[Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64, Dtype::F32, Dtype::F64];
/// Those of which the hardware reduces a warp in one instruction.
const WORDS: &[Dtype] = &[Dtype::I32, Dtype::U32];

/// What most reductions have in common.
const REDUCTION: Variant = Variant {
    id: "",
    family: Family::Reduction,
    summary: "",
    shows: "",
    ops: Op::ALL,
    dtypes: ALL,
    geometry: Geometry::PerThread(1),
    in_block: InBlock::Tree,
    completion: Completion::Relaunch,
    static_shared: 0,
    determinism: Determinism::PerGeometry,
    min_arch: Arch::DEFAULT,
    sources: "",
};

/// Every variant, in the order of the ladder.
pub const VARIANTS: &[Variant] = &[
    Variant {
        id: "serial",
        summary: "one thread loops over all elements",
        shows: "the worst GPU kernel",
        dtypes: ALL,
        geometry: Geometry::SingleThread,
        in_block: InBlock::Nothing,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerInput,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "atomic_per_thread",
        summary: "grid-stride per thread, then one atomic per thread",
        shows: "contention on one address",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Nothing,
        completion: Completion::Atomic,
        static_shared: 0,
        determinism: Determinism::Unordered,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "interleaved_modulo",
        summary: "shared-memory tree, threads whose index is a multiple of 2s add at distance s",
        shows: "warp divergence",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "interleaved_strided",
        summary: "the same tree with index 2st, so that the working threads are consecutive",
        shows: "shared-memory bank conflicts, without divergence",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "sequential",
        summary: "shared-memory tree, the lower half of the threads adds the upper half",
        shows: "a tree without divergence or bank conflicts",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "first_add",
        summary: "two elements combined during the load, then the sequential tree",
        shows: "idle threads put to work",
        dtypes: ALL,
        geometry: Geometry::PerThread(2),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A",
        ..REDUCTION
    },
    Variant {
        id: "unroll_last_warp",
        summary: "the tree until one warp can finish without block barriers",
        shows: "fewer block barriers",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "unroll_full",
        summary: "the block size a compile-time constant, every step written out",
        shows: "no loop overhead",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "multi_level",
        summary: "block sums, then sums of block sums, launch after launch",
        shows: "the kernel launch as the global barrier",
        dtypes: ALL,
        geometry: Geometry::PerThread(1),
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "grid_stride",
        summary: "each thread combines many elements in a register, then the tree",
        shows: "cost-optimal work per thread",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "A, D",
        ..REDUCTION
    },
    Variant {
        id: "atomic_blocks",
        summary: "grid_stride, then one atomic per block",
        shows: "one launch by one atomic per block",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Atomic,
        static_shared: 0,
        determinism: Determinism::Unordered,
        sources: "D",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_contiguous",
        summary: "every thread reduces a contiguous chunk, thread 0 the block",
        shows: "uncoalesced loads",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::OneByOne,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_interleaved",
        summary: "coalesced grid-stride loads, thread 0 still reduces the block",
        shows: "coalescing",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::OneByOne,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_shared",
        summary: "coalesced loads and a shared-memory tree",
        shows: "the tree in place of a serial tail",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_warp_sync",
        summary: "coalesced loads, the last warp without block barriers",
        shows: "fewer block barriers",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_unrolled",
        summary: "coalesced loads, the block size a compile-time constant",
        shows: "no loop overhead",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "single_pass_last_block",
        summary: "blocks publish partial results, the last one to finish reduces them",
        shows: "one launch: no second kernel, no memset",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::LastBlock,
        static_shared: 4,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "warp_shuffle",
        summary: "shared-memory tree down to 32 values, then xor shuffles",
        shows: "the last five steps without shared memory or block barriers",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "shuffle_two_level",
        summary: "shuffles in each warp, one value per warp through shared memory, shuffles again",
        shows: "one block barrier, whatever the block",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 256,
        determinism: Determinism::PerGeometry,
        sources: "NVIDIA samples",
        ..REDUCTION
    },
    Variant {
        id: "redux",
        summary: "each warp reduces its values in one instruction",
        shows: "the warp reduction of sm_80",
        dtypes: WORDS,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 256,
        determinism: Determinism::PerGeometry,
        sources: "NVIDIA samples",
        ..REDUCTION
    },
    Variant {
        id: "cooperative",
        summary: "one cooperative launch with a barrier over the whole grid",
        shows: "a grid-wide barrier",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::GridBarrier,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        sources: "NVIDIA samples",
        ..REDUCTION
    },
    Variant {
        id: "vectorized",
        summary: "16-byte loads, four under way per thread",
        shows: "bandwidth",
        dtypes: ALL,
        geometry: Geometry::GridStride,
        in_block: InBlock::Tree,
        completion: Completion::Relaunch,
        static_shared: 256,
        determinism: Determinism::PerGeometry,
        sources: "ours",
        ..REDUCTION
    },
];

/// What the suite knows of one variant.
#[derive(Debug, Serialize)]
pub struct Variant {
    /// Module, prefix of the PTX symbols, binary and JSON key.
    pub id: &'static str,
    /// What kind of work it does.
    pub family: Family,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it is there to show.
    pub shows: &'static str,
    /// Operations it has.
    pub ops: &'static [Op],
    /// Element types it has.
    pub dtypes: &'static [Dtype],
    /// How elements are laid over threads.
    pub geometry: Geometry,
    /// How the values of a block's threads become one.
    pub in_block: InBlock,
    /// How block results become one.
    pub completion: Completion,
    /// Bytes of static shared memory per block, beside one element per thread.
    pub static_shared: u32,
    /// When two runs give the same bits.
    pub determinism: Determinism,
    /// The oldest architecture that has what the kernel needs.
    pub min_arch: Arch,
    /// Where the idea comes from: letters of docs/sources.md.
    pub sources: &'static str,
}

/// What kind of work a variant does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// n values to one.
    Reduction,
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
    /// They do not.
    Nothing,
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
    /// Always: one thread does all the work.
    PerInput,
    /// With the same block and grid: the order of additions depends on nothing else.
    PerGeometry,
    /// Not for sums of floats, whose order is the order of arrival.
    Unordered,
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
    /// Name of the PTX entry for an operation and element type.
    pub fn entry(&self, op: Op, dtype: Dtype) -> String {
        format!("{}_{op}_{dtype}", self.id)
    }

    /// Every operation and type of this variant.
    pub fn cases(&'static self) -> impl Iterator<Item = (Op, Dtype)> {
        self.dtypes.iter().flat_map(|&dtype| self.ops.iter().map(move |&op| (op, dtype)))
    }

    /// Accepts an operation and type that the variant has.
    ///
    /// # Errors
    /// [`Error::UnsupportedOp`] and [`Error::UnsupportedDtype`] name what it has.
    pub fn require(&self, op: Op, dtype: Dtype) -> Result<()> {
        if !self.ops.contains(&op) {
            return Err(Error::UnsupportedOp { variant: self.id, op, has: self.ops });
        }
        if !self.dtypes.contains(&dtype) {
            return Err(Error::UnsupportedDtype { variant: self.id, dtype, has: self.dtypes });
        }
        Ok(())
    }
}

/// The ids of all variants, in the catalogue's order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    VARIANTS.iter().map(|variant| variant.id)
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
        see: "`cargo xtask list` shows all",
    })
}

/// Kernels that are wrong on purpose, for the tests that must catch them.
#[doc(hidden)]
pub const TESTING: &[Variant] = &[broken("testing_drops_tail"), broken("testing_missing_barrier")];

const fn broken(id: &'static str) -> Variant {
    Variant { id, dtypes: &[Dtype::I32], summary: "wrong on purpose", ..REDUCTION }
}

/// Every PTX file that is built: one per variant, the broken kernels, and `testing_probe`, which tries
/// each device primitive.
pub fn ptx_ids() -> impl Iterator<Item = &'static str> {
    ids().chain(TESTING.iter().map(|variant| variant.id)).chain(["testing_probe"])
}
