//! Reductions: n values to one. Every rung has `sum`, `min`, `max` and `sumsq`, the sum of the squares;
//! the reducer also has `argmin` and `argmax`, the index of the first extreme.
//!
//! Every kernel takes `input` of `n` elements. A kernel with one value per block writes
//! `output[block_idx]`, and the host reduces these by further launches until one is left. Blocks are
//! one-dimensional, of a power of two from 32 to 1024 threads. A kernel that keeps one element per
//! thread in shared memory needs as much dynamic shared memory from the launch; the others need none.
//!
//! Each file writes out the step that it introduces. Steps of earlier files are in `steps`; collectives
//! come from `warpfold-device` after the rung that introduces them.
//!
//! `bulk_copy` and `cluster` need compute capability 9.0 and are left out for an older architecture.

pub mod atomic_blocks;
pub mod atomic_per_thread;
#[cfg(warpfold_sm_90)]
pub mod bulk_copy;
#[cfg(warpfold_sm_90)]
pub mod cluster;
pub mod cooperative;
pub mod first_add;
pub mod grid_stride;
pub mod interleaved_modulo;
pub mod interleaved_strided;
pub mod multi_level;
pub mod reducer;
pub mod redux;
pub mod sequential;
pub mod serial;
pub mod shuffle_two_level;
pub mod single_pass_last_block;
pub mod two_pass_contiguous;
pub mod two_pass_interleaved;
pub mod two_pass_shared;
pub mod two_pass_unrolled;
pub mod two_pass_warp_sync;
pub mod unroll_full;
pub mod unroll_last_warp;
pub mod vectorized;
pub mod warp_shuffle;

mod op;
pub(crate) mod steps;

pub use op::{Element, Max, Min, Reduction, Sum, SumSq};

pub(crate) mod prelude {
    pub(crate) use super::{Element, Reduction, entries, steps};
    pub(crate) use crate::prelude::*;
    pub(crate) use warpfold_abi::arguments::{Reduce, ReduceOnce};
}

/// Declares the entry points `<variant>_<op>_<dtype>` of a reduction, for every operation and the given
/// element types. Their parameters are the fields of `$Arguments`, a struct of `warpfold-abi`.
macro_rules! entries {
    ($body:ident($Arguments:ident) for $($ty:ident)*) => {$(
        $crate::reduce::entries!(@entry $body $Arguments sum Sum $ty);
        $crate::reduce::entries!(@entry $body $Arguments min Min $ty);
        $crate::reduce::entries!(@entry $body $Arguments max Max $ty);
        $crate::reduce::entries!(@entry $body $Arguments sumsq SumSq $ty);
    )*};
    (@entry $body:ident $Arguments:ident $op:ident $Op:ident $ty:ident) => {
        // The constant is a scope for `T`; the driver finds the entry by its symbol.
        #[allow(unreachable_pub)]
        #[cfg(feature = "suite")]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!($crate::reduce::entries![$body $Arguments $op $Op $ty]);
        };
    };
    // The struct's macro calls back with its fields.
    ([$body:ident $Arguments:ident $op:ident $Op:ident $ty:ident] $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` for ", stringify!($op), " of ", stringify!($ty), ".")]
            pub fn ${concat($body, _, $op, _, $ty)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments { $($field),* };
                // SAFETY: the caller's contract is the body's.
                unsafe { $body::<$ty, $crate::reduce::$Op>(arguments) }
            }
        }
    };
}
pub(crate) use entries;
