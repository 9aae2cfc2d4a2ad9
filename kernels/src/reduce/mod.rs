//! Reductions: n values to one, by sum, minimum or maximum.
//!
//! Every kernel takes `input` of `n` elements. A kernel whose blocks each leave one value writes
//! `output[block_idx]`; the host launches it again on those until one is left. Blocks are
//! one-dimensional, of a power of two from 32 to 1024 threads. A kernel that keeps one element per thread
//! in shared memory wants that much of the dynamic kind from the launch; the others want none.
//!
//! `bulk_copy` and `cluster` need compute capability 9.0. For an older architecture they are left out,
//! because LLVM has no code for a cluster's barrier there. rustc knows no features for the newest
//! architectures: one that it says nothing about is not taken for old.

pub mod atomic_blocks;
pub mod atomic_per_thread;
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
pub mod bulk_copy;
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
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
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
pub(crate) mod ring;
pub(crate) mod tree;

pub use op::{Element, Max, Min, Reduction, Sum, SumSq};

/// Declares the entry points `<variant>_<op>_<dtype>` of a reduction, for every operation and the
/// given element types. The signature is written once, with `T` for the element type.
macro_rules! entries {
    ($body:ident $args:tt for $($ty:ident)*) => {$(
        entries!(@entry $body sum Sum $ty $args);
        entries!(@entry $body min Min $ty $args);
        entries!(@entry $body max Max $ty $args);
        entries!(@entry $body sumsq SumSq $ty $args);
    )*};
    (@entry $body:ident $op:ident $Op:ident $ty:ident ($($arg:ident: $arg_ty:ty),*)) => {
        // A scope of its own for `T`; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            $crate::kernel! {
                #[doc = concat!("`", stringify!($body), "` for ", stringify!($op), " of ", stringify!($ty), ".")]
                pub fn ${concat($body, _, $op, _, $ty)}($($arg: $arg_ty),*) {
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $body::<$ty, $crate::reduce::$Op>($($arg),*) }
                }
            }
        };
    };
}
pub(crate) use entries;
