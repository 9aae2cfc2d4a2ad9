//! Kernels that test the suite itself and that no user runs.

pub mod broken;
pub mod probe;
