//! Kernels that only test the suite and the device library.

pub mod broken;
pub mod collectives;
pub mod hazards;
pub mod probe;
#[cfg(warpfold_sm_90)]
pub mod unwaited;
