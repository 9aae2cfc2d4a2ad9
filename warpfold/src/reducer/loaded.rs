//! The kernels of a program's own operation.

use warpfold_abi::{custom::Facts, reducer::WIDE_AXIS_BLOCK};

use super::{custom::Module, kernels::Entry};
use crate::{
    Device,
    input::{axis, rows, view},
    kernel_file::Family,
};

/// The largest block sizes that the registers of an operation's kernels allow, up to the largest that
/// launches use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargestBlocks {
    pub(crate) rows: u32,
    pub(crate) axis: u32,
    pub(crate) view: u32,
}

impl LargestBlocks {
    pub(super) const FULL: Self =
        Self { rows: rows::BLOCKS[0], axis: axis::BLOCKS[0], view: view::BLOCKS[0] };

    /// For [wide](warpfold_abi::reducer::is_wide) operations: larger blocks have too few registers for
    /// each thread.
    pub(super) const WIDE: Self = Self { rows: 256, axis: WIDE_AXIS_BLOCK, view: 256 };
}

pub struct Loaded {
    pub(super) name: &'static str,
    pub(super) facts: Facts,
    /// Indexed by [`Family`].
    pub(super) families: [Vec<Entry>; Family::ALL.len()],
    pub(super) largest: LargestBlocks,
    pub(super) module: Module,
}

impl Loaded {
    pub(super) fn device(&self) -> &Device {
        self.module.device()
    }
}
