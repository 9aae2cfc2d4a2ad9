//! Reductions: n values to one. Every kernel has the operations `sum`, `min`, `max` and `sumsq`, the sum
//! of the squares; the [`reducer`] has more.
//!
//! Every kernel takes `input` of `n` elements. If each block has a result, the kernel writes it to
//! `output[block_idx]`, and the host reduces these results by further launches. Blocks are
//! one-dimensional, of a power of two from 32 to 1024 threads. A kernel that keeps one element per
//! thread in shared memory needs dynamic shared memory of that size; the others need none.
//!
//! Each file contains the step that it introduces. Steps of earlier files are in `steps` or in
//! `warpfold-device`. Lines `// ladder: NAME` and `// ladder: end` enclose code that docs/ quotes.
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
        // The constant is a scope for the alias `T`. The driver finds the entry by its symbol.
        #[allow(unreachable_pub)]
        #[cfg(feature = "suite")]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!($crate::reduce::entries![$body $Arguments $op $Op $ty]);
        };
    };
    // The macro named like the struct calls this rule with the struct's fields.
    ([$body:ident $Arguments:ident $op:ident $Op:ident $ty:ident] $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` for ", stringify!($op), " of ", stringify!($ty), ".")]
            pub fn ${concat($body, _, $op, _, $ty)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments { $($field),* };
                // SAFETY: the kernel has the conditions of `$body`, which its launch must meet.
                unsafe { $body::<$ty, $crate::reduce::$Op>(arguments) }
            }
        }
    };
}
pub(crate) use entries;
