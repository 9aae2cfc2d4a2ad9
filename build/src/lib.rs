#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod compile;
mod divergence;
mod error;
mod kernels;
mod needs;
mod split;
mod toolchain;

pub use check::{Allowance, Finding, check};
pub use error::Error;
pub use kernels::Kernels;

/// Parts of a build for this repository's tools, which compile and check many kernels at once. They are
/// exempt from semantic versioning.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        compile::{Compilation, LINE_FLAGS, TARGET, code_flags, common_flags},
        split::{Part, in_clusters, split, with_dynamic_shared},
        toolchain::{LIST_ARCHS, clean, has_library, library, listed_archs, supported},
    };
}
