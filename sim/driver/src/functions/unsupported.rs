//! The functions of the table that are not simulated.

use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail_with};

/// Defines functions that return `CUDA_ERROR_NOT_SUPPORTED` with a reason.
macro_rules! unsupported {
    ($($why:literal $name:ident($($kind:ty),* $(,)?);)*) => {
        $(
            pub(crate) fn $name($(_: $kind),*) -> Outcome {
                fail_with(CUDA_ERROR_NOT_SUPPORTED, $why)
            }
        )*

        pub(crate) const UNSUPPORTED: &[&str] = &[$(stringify!($name)),*];
    };
}

unsupported! {
    "graphs are not written to files"
        cuGraphDebugDotPrint(*mut CUgraph_st, *const c_char, c_uint);
    "a node's parameters are not kept as the pointers that the call asks for"
        cuGraphKernelNodeGetParams(*mut CUgraphNode_st, *mut CUDA_KERNEL_NODE_PARAMS_v1);
    "a node's parameters are not kept as the pointers that the call asks for"
        cuGraphKernelNodeGetParams_v2(*mut CUgraphNode_st, *mut CUDA_KERNEL_NODE_PARAMS_v2);
}
