//! The kernels of a program's own operation.

use warpfold_abi::{custom::Facts, reducer::WIDE_AXIS_BLOCK};

use super::{custom::Module, kernels::LoadedKernels};
use crate::{
    Device,
    input::{axis, rows, view},
    kernel_file::Family,
};

/// Most threads of a block of the kernels that an operation has, as far as a launch would give it them:
/// what their registers allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargestBlocks {
    pub(crate) rows: u32,
    pub(crate) axis: u32,
    pub(crate) view: u32,
}

impl LargestBlocks {
    /// Those of the library's operations.
    pub(super) const FULL: Self =
        Self { rows: rows::BLOCKS[0], axis: axis::BLOCKS[0], view: view::BLOCKS[0] };

    /// Those of operations that are [wide](warpfold_abi::reducer::is_wide): with as many registers as a
    /// thread can have.
    pub(super) const WIDE: Self = Self { rows: 256, axis: WIDE_AXIS_BLOCK, view: 256 };
}

/// The kernels of a program's own operation, all of them loaded.
pub struct Loaded {
    pub(super) name: &'static str,
    pub(super) facts: Facts,
    /// By the family's number.
    pub(super) families: [LoadedKernels; Family::ALL.len()],
    pub(super) largest: LargestBlocks,
    pub(super) module: Module,
}

impl Loaded {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn device(&self) -> &Device {
        self.module.device()
    }

    pub(super) fn element_bytes(&self) -> u64 {
        self.facts.element_bytes
    }

    pub(super) fn output_bytes(&self) -> usize {
        self.facts.output_bytes as usize
    }

    pub(super) fn kernels(&self, family: Family) -> &LoadedKernels {
        &self.families[family as usize]
    }

    /// Returns whether the value of an element depends on its index.
    pub(super) fn is_indexed(&self) -> bool {
        self.facts.indexed != 0
    }
}
