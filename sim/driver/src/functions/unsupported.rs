//! Driver functions that `warpfold_driver` declares and the simulator does not have.

use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail_with};

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
    "writing graphs to files is not supported"
        cuGraphDebugDotPrint(*mut CUgraph_st, *const c_char, c_uint);
    "the parameters of a kernel node cannot be returned as pointers"
        cuGraphKernelNodeGetParams(*mut CUgraphNode_st, *mut CUDA_KERNEL_NODE_PARAMS_v1);
    "the parameters of a kernel node cannot be returned as pointers"
        cuGraphKernelNodeGetParams_v2(*mut CUgraphNode_st, *mut CUDA_KERNEL_NODE_PARAMS_v2);
}
