//! The kernels of a program's own operation.

use warpfold_abi::custom::Facts;

use super::{custom::Module, kernels::Loaded as LoadedKernels, rows_kernels::LoadedRows};
use crate::{Device, ptx::Form};

/// The kernels of a program's own operation, all of them loaded.
pub struct Loaded {
    pub(super) name: &'static str,
    pub(super) facts: Facts,
    pub(super) cut: LoadedKernels,
    /// Those that read a count.
    pub(super) counted: LoadedKernels,
    /// Those whose elements come behind others.
    pub(super) continued: LoadedKernels,
    pub(super) rows: LoadedRows,
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

    pub(super) fn kernels(&self, form: Form) -> &LoadedKernels {
        match form {
            Form::Whole => &self.cut,
            Form::Counted => &self.counted,
            Form::Continued => &self.continued,
        }
    }

    pub(super) fn rows(&self) -> &LoadedRows {
        &self.rows
    }
}
