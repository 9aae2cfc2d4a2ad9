//! Reductions: n values to one, by sum, minimum or maximum.
//!
//! Every kernel takes `input` of `n` elements. A kernel whose blocks each leave one value writes
//! `output[block_idx]`; the host launches it again on those until one is left. Blocks are
//! one-dimensional, of a power of two from 32 to 1024 threads, with one element of dynamic shared
//! memory per thread.

pub mod interleaved_modulo;
mod op;
pub mod sequential;
pub mod single_pass_last_block;
pub(crate) mod tree;
pub mod warp_shuffle;

pub use op::{Element, Max, Min, Reduction, Sum};

/// Declares the entry points `<variant>_<op>_<dtype>` of a reduction, for every operation and the
/// given element types. The signature is written once, with `T` for the element type.
macro_rules! entries {
    ($body:ident $args:tt for $($ty:ident)*) => {$(
        entries!(@entry $body sum Sum $ty $args);
        entries!(@entry $body min Min $ty $args);
        entries!(@entry $body max Max $ty $args);
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
