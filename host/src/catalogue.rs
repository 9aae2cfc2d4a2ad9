//! One row per variant, and nothing about a variant anywhere else.
//!
//! Launching, binaries, tests, docs and tables read this table. A variant is added with its kernel
//! file, a row here and a binary; `tests/` rejects a row without its partners and the reverse.

use std::fmt;

use serde::Serialize;

use crate::{Arch, Dtype, Error, Op, Result, nearest};

/// Every variant, in the order of the ladder.
pub const VARIANTS: &[Variant] = &[
    Variant {
        id: "interleaved_modulo",
        family: Family::Reduction,
        summary: "shared-memory tree, threads whose index is a multiple of 2s add at distance s",
        shows: "warp divergence",
        ops: Op::FOLDS,
        dtypes: &[Dtype::I32, Dtype::F32],
        geometry: Geometry::OnePerThread,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        min_arch: Arch::new(8, 0),
        sources: "A, B",
    },
    Variant {
        id: "sequential",
        family: Family::Reduction,
        summary: "shared-memory tree, the lower half of the threads adds the upper half",
        shows: "a tree without divergence or bank conflicts",
        ops: Op::FOLDS,
        dtypes: &[Dtype::I32, Dtype::F32],
        geometry: Geometry::OnePerThread,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        min_arch: Arch::new(8, 0),
        sources: "A, E",
    },
    Variant {
        id: "single_pass_last_block",
        family: Family::Reduction,
        summary: "blocks publish partial results, the last one to finish reduces them",
        shows: "one launch: no second kernel, no memset",
        ops: Op::FOLDS,
        dtypes: &[Dtype::I32, Dtype::F32],
        geometry: Geometry::GridStride,
        completion: Completion::LastBlock,
        static_shared: 4,
        determinism: Determinism::PerGeometry,
        min_arch: Arch::new(8, 0),
        sources: "E",
    },
    Variant {
        id: "warp_shuffle",
        family: Family::Reduction,
        summary: "shared-memory tree down to 32 values, then xor shuffles",
        shows: "the last five steps without shared memory or block barriers",
        ops: Op::FOLDS,
        dtypes: &[Dtype::I32, Dtype::F32],
        geometry: Geometry::GridStride,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        min_arch: Arch::new(8, 0),
        sources: "E",
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
    /// Thread i takes element i: the grid follows from n and the block.
    OnePerThread,
    /// Threads stride over the input by the size of the grid: any grid serves.
    GridStride,
}

/// How block results become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The kernel is launched again on the block results until one is left.
    Relaunch,
    /// The last block of the only launch reduces them.
    LastBlock,
}

/// When two runs on the same input give the same bits. Integers, minimum and maximum always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinism {
    /// With the same block and grid: the order of additions depends on nothing else.
    PerGeometry,
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnePerThread => "one element per thread",
            Self::GridStride => "grid-stride",
        })
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relaunch => "relaunch",
            Self::LastBlock => "last block",
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
    Variant {
        id,
        family: Family::Reduction,
        summary: "wrong on purpose",
        shows: "that the suite catches it",
        ops: Op::FOLDS,
        dtypes: &[Dtype::I32],
        geometry: Geometry::OnePerThread,
        completion: Completion::Relaunch,
        static_shared: 0,
        determinism: Determinism::PerGeometry,
        min_arch: Arch::DEFAULT,
        sources: "",
    }
}

/// Every PTX file that is built: one per variant, the broken kernels, and `testing_probe`, which tries
/// each device primitive.
pub fn ptx_ids() -> impl Iterator<Item = &'static str> {
    ids().chain(TESTING.iter().map(|variant| variant.id)).chain(["testing_probe"])
}
