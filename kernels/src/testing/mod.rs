//! Kernels that test the suite itself and that no user runs.

pub mod broken;
pub mod collectives;
pub mod hazards;
pub mod probe;
#[cfg(warpfold_sm_90)]
pub mod unwaited;
