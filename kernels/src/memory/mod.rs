//! Memory access patterns: kernels that move elements and compute nothing, to be measured as bandwidth.
//!
//! An element is moved as bits, so the types stand for their sizes: `f32` for 4 bytes, `f64` for 8.

pub mod copy_random;
pub mod copy_strided;
pub mod transpose_naive;
pub mod transpose_padded;
pub mod transpose_shared;

mod tile;

/// Declares the entry points `<variant>_<dtype>` of a kernel for the given element types. The signature
/// is written once, with `T` for the element type.
macro_rules! entries {
    ($body:ident $args:tt for $($ty:ident)*) => {$(
        entries!(@entry $body $ty $args);
    )*};
    (@entry $body:ident $ty:ident ($($arg:ident: $arg_ty:ty),*)) => {
        // A scope of its own for `T`; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            $crate::kernel! {
                #[doc = concat!("`", stringify!($body), "` of ", stringify!($ty), ".")]
                pub fn ${concat($body, _, $ty)}($($arg: $arg_ty),*) {
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $body::<T>($($arg),*) }
                }
            }
        };
    };
}
use entries;
