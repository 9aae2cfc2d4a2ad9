//! Kernels that test the suite itself and that no user runs.

pub mod broken;
pub mod hazards;
pub mod probe;
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
pub mod unwaited;
